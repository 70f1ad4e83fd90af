"""Runs of a network that remembers: exact in every loop, and their policies remember too."""

import json
import shutil

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.evaluation import evaluate
from targetnet.agents.policy.export import export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.population.train import train_population
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.errors import ShapeError

SHORT = {
    "env_wrapper": "elements", "env_wrapper_kwargs": {"keep": [0, 2]}, "env_steps": 420,
    "recurrent": "gru", "recurrent_units": 5, "sequence_length": 6, "burn_in": 3, "hidden": (6,),
    "batch_size": 6, "replay_capacity": 200, "learn_start": 40, "updates_per_learn": 1,
    "learn_period": 8,
    "learning_rate": 0.01, "sync_period": 20, "log_period": 200, "eval_period": 300,
    "eval_episodes": 2, "final_eval_episodes": 2, "xla": False, "epsilon": 0.3,
    "checkpoint_seconds": 0, "checkpoint_steps": 130,
}  # fmt: skip
IN_GRAPH = {"env_id": "InGraph/CartPole-v1", "env_wrapper": "", "env_wrapper_kwargs": {}}
KINDS = {
    "plain": {"prioritized": True},
    "three envs": {"num_envs": 3, "recurrent": "lstm", "n_step": 2},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "num_envs": 2},
    "in the graph": {**IN_GRAPH, "loop": "compiled", "num_envs": 2, "chunk": 40},
    "compiled": {"xla": True, "updates_per_learn": 4, "learn_period": 32},
    "compiled in the graph": {**IN_GRAPH, "loop": "compiled", "xla": True, "chunk": 40},
}
SLOW = ("compiled", "compiled in the graph")


def config(**settings):
    return DqnConfig(**SHORT | settings)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in KINDS]
)
def test_it_resumes_and_replays_to_the_bit(kind, tmp_path, none_left_out):
    whole = train(config(**KINDS[kind]), tmp_path / "whole", console=None)
    shutil.copytree(whole.run, tmp_path / "cut")
    numbers = CheckpointStore(tmp_path / "cut/checkpoints")._numbers()
    for number in numbers[1:]:
        shutil.rmtree(tmp_path / f"cut/checkpoints/{number:08d}")
    assert len(numbers) > 1
    assert resume(tmp_path / "cut", console=None).digest == whole.digest
    assert repeat(whole.run, console=None).identical


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(config(), tmp_path_factory.mktemp("recurrent") / "run", console=None).run


@pytest.mark.slow
def test_a_loaded_policy_remembers_its_calls_until_it_is_reset(run):
    env = gym.make("CartPole-v1")
    rows = [env.reset(seed=0)[0][[0, 2]]]
    for _ in range(5):
        rows.append(env.step(env.action_space.sample())[0][[0, 2]])
    with load_policy(run) as policy:
        policy.reset([True])  # before the first call there is nothing to forget

        def values():
            seen = []
            for row in rows:
                seen.append(policy.q_values(row))
                np.testing.assert_array_equal(policy.q_values(row), seen[-1])  # and no step on
                assert policy(row) == seen[-1].argmax()
            return np.array(seen)

        first = values()
        assert not np.allclose(values(), first)  # it went on
        policy.reset()
        np.testing.assert_array_equal(values(), first)
        policy.reset()
        # Two episodes, of which the second begins anew after three steps.
        for t, row in enumerate(rows[:3]):
            policy(np.stack([row, rows[t]]))
        policy.reset([False, True])
        both = policy.q_values(np.stack([rows[3], rows[0]]))
        np.testing.assert_allclose(both, [first[3], first[0]], rtol=1e-5)
        with pytest.raises(ShapeError, match="remembers 2 episodes, got 1 observations; policy"):
            policy(rows[0])
        with pytest.raises(ShapeError, match="a flag for each of 2 rows, got"):
            policy.reset([True])


def test_an_evaluation_remembers_as_the_policy_called_by_hand_does(run):
    seen = []

    class Watched:
        def __call__(self, observation, legal=None):
            raise AssertionError("it was not asked to remember")

        def playing(self, num_envs):
            act = policy.greedy.playing(num_envs)

            def watched(observation, autoreset, legal):
                actions = act(observation, autoreset, legal)
                seen.append((observation.copy(), autoreset.copy(), actions))
                return actions

            return watched

    with load_policy(run) as policy:
        returns = evaluate(policy, policy.config, 12, seed=7, policy=Watched())
        assert returns == evaluate(policy, policy.config, 12, seed=7)
        assert seen[0][1].all() and any(begins.any() for _, begins, _ in seen[1:])
        policy.reset()
        values = []
        for i, (observation, begins, actions) in enumerate(seen):
            if i:
                policy.reset(begins)
            values.append(policy.q_values(observation))
            np.testing.assert_array_equal(policy(observation), actions)
            np.testing.assert_array_equal(values[-1].argmax(axis=1), actions)
        policy.reset()
        assert not np.allclose(policy.q_values(observation), values[-1])  # it had remembered


@pytest.mark.parametrize("to", ["savedmodel", pytest.param("tflite", marks=pytest.mark.slow)])
def test_an_export_takes_the_state_and_gives_the_next_one(run, tmp_path, to):
    import tensorflow as tf2

    out = export(run, to, tmp_path / to)
    about = json.loads((out / "policy.json").read_text())
    assert about["input"]["state"] == [5] and "next_state" in about["outputs"]
    if to == "savedmodel":
        model = tf2.saved_model.load(str(out / "model")).signatures["serving_default"]
    else:
        from ai_edge_litert.interpreter import Interpreter

        model = Interpreter(str(out / "policy.tflite")).get_signature_runner("serving_default")
    seen = np.random.default_rng(0).normal(size=[4, 1, 2]).astype(np.float32)
    state = np.zeros([1, 5], np.float32)
    with load_policy(run) as policy:
        for row in seen:
            wanted = policy.q_values(row)
            policy(row)
            if to == "savedmodel":
                got = model(observation=tf2.constant(row), state=tf2.constant(state))
                got = {name: value.numpy() for name, value in got.items()}
            else:
                got = model(observation=row, state=state)
            np.testing.assert_allclose(got["q"], wanted, rtol=1e-4, atol=1e-6)
            state = got["next_state"]


@pytest.mark.slow  # it compiles
def test_members_remember_each_for_itself(tmp_path):
    of = config(xla=True, env_steps=200)
    both = train_population(of, tmp_path / "both", seeds=2, console=None)
    alone = train(of.model_copy(update={"seed": 1}), tmp_path / "alone", console=None)
    assert both.members["m01"].digest == alone.digest
