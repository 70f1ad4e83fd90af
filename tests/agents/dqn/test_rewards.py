"""Rewards are stored as the env pays them; scale and clip are live, where a batch is sampled."""

import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.objective import learned_rewards
from targetnet.agents.run.checkpoints import restore_agent
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.host import new_host
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.errors import BoundsError
from targetnet.rl_core.hyperparameters import Hyperparameters

#     scale  clip  learned from rewards -3, 0, 1, 2, 4
ROWS = [
    (1.0,  0.0,  [-3.0, 0.0, 1.0, 2.0, 4.0]),
    (0.5,  0.0,  [-1.5, 0.0, 0.5, 1.0, 2.0]),
    (1.0,  2.5,  [-2.5, 0.0, 1.0, 2.0, 2.5]),
    (0.5,  1.25, [-1.25, 0.0, 0.5, 1.0, 1.25]),  # clipped first, -3 would be -0.625
    (3.0,  7.0,  [-7.0, 0.0, 3.0, 6.0, 7.0]),
]  # fmt: skip


@pytest.mark.parametrize(("scale", "clip", "learned"), ROWS)
def test_rewards_are_scaled_and_then_clipped(engine, scale, clip, learned):
    knobs = [knob for knob in DqnConfig.knobs() if knob.name in ("reward_scale", "reward_clip")]
    with engine.building():
        feeds = LiveFeeds(knobs)
        paid = tf.constant([-3.0, 0.0, 1.0, 2.0, 4.0])
        got = learned_rewards(feeds)(paid)
    live = Hyperparameters(knobs, {"reward_scale": 9.0, "reward_clip": 0.1})
    feeds.start(live)
    live.update({"reward_scale": scale, "reward_clip": clip})
    engine.start()
    got = engine.callable(got, feeds.tensors)(*feeds.values())
    np.testing.assert_array_equal(got, np.float32(learned))


def agent_of(pay=lambda reward: reward, **settings):
    """An agent that was paid -1, 0, 1, 2, 3, -1, ..., or what `pay` makes of it."""
    config = DqnConfig(
        **{"hidden": (8,), "batch_size": 16, "replay_capacity": 100, "xla": False, "discount": 0.5}
        | settings
    )
    agent = DqnAgent(config, (3,), np.float32, 2)
    rng, no = np.random.default_rng(0), np.zeros(1, np.bool_)
    for i in range(30):
        seen = rng.normal(size=(1, 3)).astype(np.float32)
        agent.step(seen, np.float32([pay(i % 5 - 1)]), no, no, epsilon=1.0)
    return agent


def stored(agent):
    steps = agent.state.contents.time_steps(0, 29)
    return steps["reward"][:, 0].tolist()


@pytest.mark.thorough
def test_the_replay_stores_what_the_env_paid():
    agent = agent_of(reward_scale=0.1, reward_clip=0.2)
    # The reward of a step is known with the next one.
    assert stored(agent) == [float((i + 1) % 5 - 1) for i in range(29)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_step", "xla"),
    [(3, False), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(1, True), (3, True)])],
)
def test_a_change_holds_for_rows_that_are_there_already(n_step, xla):
    """So an agent that is set is bit for bit the agent that was made so."""
    settings = {"xla": xla, "n_step": n_step, "updates_per_learn": 4}
    set_later = agent_of(**settings)
    made_so = agent_of(reward_scale=0.5, reward_clip=0.75, **settings)
    before = set_later.state.weights()
    set_later.hyperparameters["reward_scale"] = 0.5
    set_later.hyperparameters["reward_clip"] = 0.75
    for agent in (set_later, made_so):
        agent.learn(4)
    plain = agent_of(**settings)
    plain.learn(4)
    for name, weights in made_so.state.weights().items():
        np.testing.assert_array_equal(weights, set_later.state.weights()[name])
        assert not np.array_equal(weights, plain.state.weights()[name])
        assert not np.array_equal(weights, before[name])


@pytest.mark.cases(0)
@pytest.mark.parametrize("n_step", [1, 3])
def test_it_is_as_if_the_env_paid_them_one_by_one(n_step):
    """So of several steps each reward is clipped before they are added."""
    clipped = agent_of(n_step=n_step, reward_scale=0.5, reward_clip=0.75)
    paid = agent_of(lambda reward: min(0.5 * reward, 0.75), n_step=n_step)
    for agent in (clipped, paid):
        agent.learn(3)
    for name, weights in paid.state.weights().items():
        np.testing.assert_array_equal(weights, clipped.state.weights()[name])


@pytest.mark.thorough
def test_a_checkpoint_that_holds_scaled_rewards_is_read_as_what_was_paid(tmp_path):
    """Version 0.1 stored them scaled, and did not say so."""
    agent, again = (agent_of(reward_scale=0.25) for _ in range(2))
    host = new_host(agent.config).model_dump() | {"envs": {}}
    host["loop"]["tick"] = 30
    saved = agent.state.read()
    rows = agent.state.contents.time_steps(0, 29)
    newest = {f"newest/{k}": v for k, v in agent.state.contents.time_steps(29, 30).items()}
    wanted = rows["reward"].copy()
    for raw in (True, False):
        if not raw:
            del host["raw_rewards"]
            rows["reward"] = rows["reward"] * np.float32(0.25)
        store = CheckpointStore(tmp_path / str(raw))
        store.write(30, saved.variables | newest, host | {"agent": saved.host}, {}, [(0, 29, rows)])
        restore_agent(again, store.latest(), store)
        np.testing.assert_array_equal(again.state.contents.time_steps(0, 29)["reward"], wanted)
    assert again.state.digest() == agent.state.digest()


@pytest.mark.thorough
def test_a_steered_scale_is_resumed_and_evaluations_are_raw(tmp_path):
    settings = {
        "env_steps": 300, "hidden": (8,), "batch_size": 8, "learn_start": 20, "xla": False,
        "checkpoint_steps": 200, "eval_episodes": 1, "eval_period": 100, "final_eval_episodes": 2,
    }  # fmt: skip

    def steer(agent, tick):
        if tick.env_step == 100:
            agent.hyperparameters["reward_scale"] = 0.01

    whole = train(DqnConfig(**settings), tmp_path / "whole", on_tick=steer)
    assert min(whole.returns) >= 8  # CartPole pays 1 for each step
    checkpoints = sorted((whole.run / "checkpoints").glob("0*"))
    shutil.rmtree(checkpoints[-1])
    for name in ("result.json", "digest.json"):
        (whole.run / name).unlink()
    assert resume(whole.run).digest == whole.digest


def test_a_bad_value_is_refused():
    agent = agent_of()
    with pytest.raises(BoundsError, match="reward_scale must be a number > 0, got 0"):
        agent.hyperparameters["reward_scale"] = 0
    with pytest.raises(BoundsError, match="reward_clip must be a number of reward >= 0, got -1"):
        agent.hyperparameters["reward_clip"] = -1
