"""Runs whose replay stores each frame once are, bit for bit, those that store whole stacks."""

import shutil
from collections import namedtuple

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from gymnasium.wrappers import FrameStackObservation

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.compiled import compiled_loop
from targetnet.agents.policy.load import load_policy
from targetnet.agents.population.train import train_population
from targetnet.agents.run.agent_factory import agent_for
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.envs import episode_seed, make_envs
from targetnet.envs.in_graph.cartpole import CartPole, CartPoleState
from targetnet.envs.in_graph.resident import ResidentEnvs
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.errors import ConfigError, ShapeError

STACK = 3
SHORT = {
    "env_steps": 400,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 2_000,
    "learn_start": 40,
    "updates_per_learn": 1,
    "learn_period": 2,
    "learning_rate": 0.01,
    "sync_period": 37,
    "log_period": 200,
    "eval_period": 300,
    "eval_episodes": 2,
    "final_eval_episodes": 2,
    "xla": False,
    "epsilon": 0.3,
    "checkpoint_seconds": 0,
    "checkpoint_steps": 130,
}
KINDS = {
    "one env": {},
    "three envs": {"num_envs": 3},
    "waiting rows": {"learn_period": 8, "updates_per_learn": 4},
    "in processes": {"num_envs": 2, "vectorization": "async"},
    "three steps": {"n_step": 3},
    "prioritized": {"prioritized": True},
    "compiled updates": {"xla": True, "updates_per_learn": 2},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8},
    "actors": {"loop": "remote", "actors": 2, "actor_steps": 8},
    "rollouts": {
        "rollout": 10, "num_envs": 4, "batch_size": 20, "epochs": 2, "replay_capacity": None,
        "learn_start": None, "learn_period": None, "sync_period": None, "updates_per_learn": None,
    },
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def registered():
    """CartPole whose observations are stacks already: [3, 4], which a network sees flat."""
    name = "test/StackedCartPole-v0"

    def make(**kwargs):
        env = gym.make("CartPole-v1", **kwargs)
        return FrameStackObservation(env, STACK, padding_type="zero")

    gym.register(name, make)
    yield
    del gym.registry[name]


def config(**settings):
    both = {n: of for n, of in (SHORT | settings).items() if of is not None}
    return DqnConfig(**both)


def weights_of(outcome):
    return RunDir.open(outcome.run).load_weights()


def require_same(one, other):
    assert one.keys() == other.keys()
    for name, weights in one.items():
        np.testing.assert_array_equal(weights, other[name])


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_stores_frames_is_the_run_that_stores_stacks(kind, tmp_path):
    how = {"console": None} | ({"ray": "off"} if KINDS[kind].get("loop") == "remote" else {})
    frames = train(config(frame_stack=STACK, **KINDS[kind]), tmp_path / "frames", **how)
    stacks = train(
        config(env_id="test/StackedCartPole-v0", **KINDS[kind]), tmp_path / "stacks", **how
    )
    assert frames.updates == stacks.updates > 30
    require_same(weights_of(frames), weights_of(stacks))


# A cart's state, and [N, 3 * 4] the frames of its episode.
Stacked = namedtuple("Stacked", [*CartPoleState._fields, "frames"])


class StackedRules(CartPole):
    """CartPole in the graph that keeps the frames itself."""

    observation_shape = (STACK * 4,)

    def begin(self, uniform):
        cart = super().begin(uniform)
        frame = super().observe(cart)
        nothing = [tf.zeros_like(frame)] * (STACK - 1)
        return Stacked(*cart, tf.concat([*nothing, frame], axis=1))

    def step(self, state, action, uniform):
        moved = super().step(CartPoleState(*state[:4]), action, uniform)
        frames = tf.concat([state.frames[:, 4:], super().observe(moved.state)], axis=1)
        return moved._replace(state=Stacked(*moved.state, frames))

    def observe(self, state):
        return state.frames


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_envs", "xla"),
    [(3, False), (1, True), pytest.param(3, True, marks=pytest.mark.slow)],  # it compiles
)
def test_the_loop_in_the_graph_stacks_as_rules_that_do_it_themselves(num_envs, xla):
    found = []
    for rules, stack in ((CartPole(), STACK), (StackedRules(), 1)):
        of = config(
            env_id="InGraph/CartPole-v1", loop="compiled", frame_stack=stack, num_envs=num_envs,
            xla=xla, env_steps=200,
        )  # fmt: skip
        envs = ResidentEnvs(of.env_id, rules, num_envs, stack)
        assert envs.observation_shape == (12,)
        agent = agent_for(of, envs)
        for _ in compiled_loop(agent, envs):
            pass
        assert agent.replay.rows.ring.columns["observation"].shape[1:] == [12 // stack]
        found.append(agent.state.weights())
        agent.close()
    require_same(*found)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"prioritized": True}, {"loop": "concurrent", "n_step": 2}])
def test_several_times_around_the_ring_it_resumes_and_replays(more, tmp_path):
    of = config(frame_stack=4, env_steps=900, replay_capacity=150, num_envs=2, **more)
    whole = train(of, tmp_path / "whole", console=None)
    shutil.copytree(whole.run, tmp_path / "cut")
    for number in CheckpointStore(tmp_path / "cut/checkpoints")._numbers()[1:]:
        shutil.rmtree(tmp_path / f"cut/checkpoints/{number:08d}")
    assert resume(tmp_path / "cut", console=None).digest == whole.digest
    assert repeat(whole.run, console=None).identical


@pytest.mark.thorough
def test_a_loaded_policy_is_given_the_frames_oldest_first(tmp_path):
    run = train(config(frame_stack=STACK), tmp_path / "run", console=None).run
    env = FrameStackObservation(gym.make("CartPole-v1"), STACK, padding_type="zero")
    envs = make_envs("CartPole-v1", seed=0, frame_stack=STACK)
    with load_policy(run) as policy:
        assert policy.observation_shape == (STACK, 4)
        step = envs.reset()
        observation, _ = env.reset(seed=episode_seed(0, env=0, episode=0))
        for _ in range(6):
            values = policy.q_values(observation)
            np.testing.assert_array_equal(values, policy._q(step.observation)[0])
            np.testing.assert_array_equal(policy.q_values(observation[np.newaxis])[0], values)
            action = policy(observation)
            step, observation = envs.step(np.array([action])), env.step(action)[0]
        with pytest.raises(
            ShapeError, match=r"shape \(3, 4\), several have \(M, 3, 4\), got \(4,\)"
        ):
            policy(observation[0])
    envs.close()


@pytest.mark.slow  # it compiles
def test_members_of_a_population_stack_too(tmp_path):
    of = config(frame_stack=STACK, xla=True, learn_period=1, env_steps=200)
    both = train_population(of, tmp_path / "both", seeds=2, console=None)
    alone = train(of.model_copy(update={"seed": 1}), tmp_path / "alone", console=None)
    assert both.members["m01"].digest == alone.digest


def test_a_replay_too_small_for_the_frames_of_a_transition_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="capacity of at least 12 rows, got 10"):
        train(config(frame_stack=10, replay_capacity=10), tmp_path / "run", console=None)
    assert not (tmp_path / "run").exists()
