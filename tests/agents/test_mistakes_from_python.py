"""Mistakes in calls of the public functions: one line, of a class of our own."""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import targetnet as t
from targetnet import ArgumentError, BoundsError, EnvError, RunDirError, UnknownName

C = t.DqnConfig(
    hidden=(8,), batch_size=8, replay_capacity=100, xla=False, past_states=2, learn_start=0
)


@pytest.fixture(scope="module")
def agent(pool):
    with pool.open():
        return t.DqnAgent(C, (4,), np.float32, 2)


def envs(env_id="CartPole-v1", num_envs=1, *, seed=0, **how):
    return t.make_envs(env_id, num_envs, seed=seed, **how)


OF_AN_AGENT = {
    "evaluate a path": (
        lambda a: t.evaluate("runs/x", C, 3), ArgumentError, "agent must be a DqnAgent",
    ),
    "no episodes": (
        lambda a: t.evaluate(a, C, 0), BoundsError, "episodes must be a whole number >= 1",
    ),
    "half an episode": (
        lambda a: t.evaluate(a, C, 2.5), ArgumentError, "episodes must be a whole number >= 1",
    ),
    "true episodes": (
        lambda a: t.evaluate(a, C, True), ArgumentError, "episodes must be a whole number .* True",
    ),
    "a seed": (lambda a: t.evaluate(a, C, 1, seed="a"), ArgumentError, "seed must be a whole"),
    "a policy": (
        lambda a: t.evaluate(a, C, 1, policy=lambda o: o),
        ArgumentError, r"policy must be a function of \(observations, legal\), got one of \(o\)",
    ),
    "a config": (
        lambda a: t.evaluate(a, {}, 1), ArgumentError, "a config must be a DqnConfig",
    ),
    "a shape": (
        lambda a: t.DqnAgent(C, 4, np.float32, 2), ArgumentError, "sizes such as .4,., got 4",
    ),
    "a dtype": (
        lambda a: t.DqnAgent(C, (4,), "flaot32", 2), ArgumentError, "float32, uint8 or bool, got",
    ),
    "no action": (
        lambda a: t.DqnAgent(C, (4,), np.float32, 0), BoundsError, "num_actions must be a whole",
    ),
    "a config's name": (
        lambda a: t.DqnAgent("cartpole", (4,), np.float32, 2),
        ArgumentError, "config must be a DqnConfig .load_config loads one",
    ),
    "the loop's arguments the other way round": (
        lambda a: next(t.training_loop(envs(), a)), ArgumentError, "agent must be a DqnAgent",
    ),
    "an env of gymnasium": (
        lambda a: next(t.training_loop(a, gym.make("CartPole-v1"))),
        ArgumentError, "envs must be what make_envs returns, got <",
    ),
    "a live value's name": (
        lambda a: a.hyperparameters["sync_perod"], UnknownName, "did you mean 'sync_period'",
    ),
    "no text": (lambda a: a.hyperparameters[3], UnknownName, "no live value 3"),
    "act in the plain loop": (
        lambda a: a.act(np.zeros((1, 4), np.float32), 0), t.RlCoreError, "need loop = 'concurrent'",
    ),
    "follow in the plain loop": (lambda a: a.follow(), t.RlCoreError, "need loop = 'concurrent'"),
    "rows without a column": (
        lambda a: a.store({"reward": np.zeros((2, 1))}), ArgumentError, "observation is not there",
    ),
    "more rows than the replay takes": (
        lambda a: a.store({name: np.zeros((500, 1)) for name in a.acting._calls.columns}),
        BoundsError, "rows must be 1 to .* time steps at once, got 500",
    ),
    "no update": (
        lambda a: a.learner.plan(a.hyperparameters, 0, stats=False),
        BoundsError, "updates must be a whole number >= 1",
    ),
    "half an update": (
        lambda a: a.learner.plan(a.hyperparameters, 1.5, stats=False),
        ArgumentError, "updates must be a whole .* got 1.5",
    ),
    "twice the weights": (
        lambda a: a.weight_resets.perturb(2.0), BoundsError, r"factor must be a number in .* 2.0",
    ),
    "perturb by a word": (
        lambda a: a.weight_resets.perturb("x"), BoundsError, "factor must be .* 'x'",
    ),
    "recycle below none": (
        lambda a: a.weight_resets.recycle(-1.0), BoundsError,
        "threshold must be a number >= 0, got -1",
    ),
    "values of a number": (
        lambda a: a.q_values(np.zeros(4, np.float32), of=5), ArgumentError, "of must be the name",
    ),
    "back to no snapshot": (
        lambda a: a.state.rewind(0), BoundsError, "back must be a whole number >= 1",
    ),
    "back beyond int64": (
        lambda a: a.state.rewind(2**63), BoundsError, "back must be .* fits into int64, got 9223",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", OF_AN_AGENT)
def test_of_an_agent(own_agents, agent, mistake):
    call, error, message = OF_AN_AGENT[mistake]
    with pytest.raises(error, match=message) as caught:
        call(agent)
    assert "\n" not in str(caught.value)


def in_a_graph(build):
    engine = t.Engine()
    with engine.building():
        return build(tf.placeholder(tf.float32, [None, 3]))


OTHERS = {
    "an env id": (lambda: envs("CartPol-v1"), EnvError, "did you mean 'CartPole-v1'"),
    "no env id": (lambda: envs(5), ArgumentError, "env_id must be the id of an env, such as"),
    "envs": (lambda: envs(num_envs="2"), ArgumentError, "num_envs must be a whole number of envs"),
    "no seed": (lambda: envs(seed=None), ArgumentError, "seed must be a whole number >= 0, got N"),
    "vectorization": (lambda: envs(vectorization=3), EnvError, "must be one of 'sync', 'async'"),
    "env_kwargs": (lambda: envs(env_kwargs=[3]), ArgumentError, "env_kwargs must be names with"),
    "a wrapper": (
        lambda: envs(wrapper=5), ArgumentError, "wrapper must be 'atari', 'elements', 'seed_glo"
    ),
    "its arguments": (
        lambda: envs(wrapper="atari", wrapper_kwargs=3), ArgumentError, "wrapper_kwargs must be",
    ),
    "keys": (lambda: envs(observation_keys=3), ArgumentError, "observation_keys must be names"),
    "a key": (lambda: envs(observation_keys="x"), ArgumentError, "observation_keys must be names"),
    "no checkpoint": (lambda: t.CheckpointStore("x", 0), BoundsError, "keep must be a whole"),
    "filters": (
        lambda: in_a_graph(lambda x: t.conv2d(x, 2.5, 3, 1, "c")),
        ArgumentError, "filters of conv2d 'c' must be a whole number >= 1",
    ),
    "padding": (
        lambda: in_a_graph(lambda x: t.conv2d(x, 2, 3, 1, "c", padding="same")),
        BoundsError, "padding of conv2d 'c' must be 'VALID' or 'SAME', got 'same'",
    ),
    "a rate": (
        lambda: in_a_graph(lambda x: t.dropout(x, 1.0, None)), BoundsError, r"in \[0, 1\), got 1.0",
    ),
    "atoms": (lambda: t.support(0, 1, 2.5), BoundsError, "atoms must be a whole number >= 2"),
    "no run": (lambda: t.load_policy(3), ArgumentError, "run must be a path, got 3"),
    "export to": (lambda: t.export("x", 3, "y"), t.RlCoreError, "cannot export to 3: the formats"),
    "export from": (lambda: t.export(3, "onnx", "y"), ArgumentError, "run must be a path, got 3"),
    "play": (lambda: t.play("x", video="x.avi"), RunDirError, "x is not a run directory"),
    "play none": (lambda: t.play("x", 0), BoundsError, "episodes must be a whole number >= 1"),
    "a client": (lambda: t.RunClient(5), ArgumentError, "run must be a path, got 5"),
    "its patience": (lambda: t.RunClient("x", timeout="1"), ArgumentError, "number of seconds"),
    "an action": (lambda: t.RunClient("x").do(5), t.RlCoreError, "cannot do 5: there are sync"),
    "changes": (lambda: t.load_config("cartpole", "seed=3"), ArgumentError, "must be names with"),
    "a change": (lambda: t.load_config("cartpole", [3]), ArgumentError, "a change must be a text"),
    "threads": (lambda: t.Engine(threads=0), BoundsError, "threads must be a whole number >= 1"),
    "an executor": (lambda: t.Engine(executor="x"), BoundsError, "executor must be 'single_thr"),
    "units": (
        lambda: in_a_graph(lambda x: t.dense(x, 0, "d")), BoundsError, "units of dense 'd' must be",
    ),
    "a log directory": (lambda: t.EventWriter(5), ArgumentError, "logdir must be a path, got 5"),
    "a store": (lambda: t.CheckpointStore(5), ArgumentError, "directory must be a path, got 5"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", OTHERS)
def test_of_other_names(tmp_path, monkeypatch, mistake):
    monkeypatch.chdir(tmp_path)
    call, error, message = OTHERS[mistake]
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_changes_may_be_values_or_texts():
    assert t.load_config("cartpole", {"seed": 3}) == t.load_config("cartpole", ["seed=3"])
    assert t.load_config("cartpole", {"hidden": (8,)}).hidden == (8,)
