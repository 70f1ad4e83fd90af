"""Live values of one's own in one's own network: acting, updates, loops, resume, exports."""

import json
import shutil
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.policy.export import export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core import dense, dropout
from targetnet.rl_core.errors import BoundsError, ConfigError, UnknownName

HERE = __name__
RELUS = 16


def scaled(observation, live):
    """The observation times a live value, and a layer so that there is a block."""
    with tf.variable_scope("torso"):
        return dense(observation * live["gain"], RELUS, "in")


def in_updates(observation, training, live):
    """The features times the live value, in updates alone."""
    with tf.variable_scope("torso"):
        features = dense(observation, RELUS, "in")
    return tf.where(training, features * live["gain"], features)


def dropped(observation, draws, live):
    with tf.variable_scope("torso"):
        x = tf.nn.relu(dense(observation, RELUS, "in"))
        return dropout(x, live["rate"], draws)


def misspelt(observation, live):
    return observation * live["gian"]


def asks_for_more(observation, liv):
    return observation


def by_state(observation):
    with tf.variable_scope("torso"):
        x = dense(observation, RELUS, "in")
        return tf.cond(tf.reduce_any(x > 0), lambda: tf.nn.dropout(x, rate=0.1), lambda: x)


def by_glorot(observation):
    """TensorFlow's default initializer draws by a state too, but only once."""
    with tf.variable_scope("torso"):
        return observation @ tf.get_variable("w", [4, RELUS])


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", sys.modules[HERE])


# Not in the order of the alphabet: values are fed in the order of the config.
LIVE = {"rate": {"default": 0.25, "ge": 0, "lt": 1}, "gain": {"default": 1.0, "gt": 0}}
SHORT = {
    "live": LIVE, "batch_size": 8, "replay_capacity": 500, "learn_start": 40, "learn_period": 4,
    "env_steps": 400, "eval_period": 200, "eval_episodes": 1, "final_eval_episodes": 1,
    "sync_period": 17, "learning_rate": 0.01, "xla": False,
}  # fmt: skip


def made(network, **settings):
    return DqnAgent(
        DqnConfig.model_validate(SHORT | {"network": f"mine:{network}"} | settings),
        (4,), np.float32, 2,
    )  # fmt: skip


def filled(agent, n=60):
    rng, no = np.random.default_rng(0), np.zeros(1, np.bool_)
    for _ in range(n):
        seen = rng.normal(size=(1, 4)).astype(np.float32)
        agent.step(seen, rng.normal(size=1).astype(np.float32), no, no)
    return agent


X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


def by_hand(weights, x):
    hidden = x @ weights["torso/in/w"] + weights["torso/in/b"]
    return hidden @ weights["head/q/w"] + weights["head/q/b"]


@pytest.mark.thorough
def test_a_change_is_in_the_very_next_call_and_the_graph_stays():
    agent = made("scaled")
    weights, operations = agent.state.weights(), len(agent.engine.graph.get_operations())
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(agent.q_values(X), by_hand(weights, X), **close)
    agent.hyperparameters["gain"] = 2.0
    agent.state.snapshot()
    for of in ("online", "target", "past/1"):  # alike before the first update
        np.testing.assert_allclose(agent.q_values(X, of=of), by_hand(weights, 2 * X), **close)
    np.testing.assert_array_equal(agent.greedy(X), by_hand(weights, 2 * X).argmax(axis=1))
    assert len(agent.engine.graph.get_operations()) == operations


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    "settings",
    [{"learn_period": 1}, {"boltzmann": True, "temperature": 1e-6}, {"loop": "concurrent"}],
)
def test_acting_reads_it(settings):
    agent = made("scaled", **settings)
    weights, no, seen = agent.state.weights(), np.zeros(1, np.bool_), set()
    for i, x in enumerate(np.random.default_rng(2).normal(size=(40, 1, 4)).astype(np.float32)):
        gain = agent.hyperparameters["gain"] = [1.0, 9.0][i % 2]
        if settings.get("loop"):
            agent.hyperparameters["epsilon"] = 0.0
            action = agent.act(x, i)["action"]
        else:
            action = agent.step(x, np.zeros(1, np.float32), no, no, epsilon=0.0)
        best = [by_hand(weights, g * x).argmax() for g in (1.0, 9.0)]
        assert action[0] == best[i % 2], gain
        seen.add(best[0] != best[1])
    assert seen == {False, True}  # the gain makes a difference to some


@pytest.mark.thorough
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_updates_read_it(xla):
    """With the gain 3, an update is that of the same weights on three times the observations."""
    settings = {"xla": xla, "updates_per_learn": 4, "discount": 0.0, "loss": "squared"}
    live, fed = made("scaled", **settings), made("scaled", **settings)
    live.hyperparameters["gain"] = 3.0
    rng, no = np.random.default_rng(0), np.zeros(1, np.bool_)
    for _ in range(60):
        seen = rng.normal(size=(1, 4)).astype(np.float32)
        reward = rng.normal(size=1).astype(np.float32)
        live.step(seen, reward, no, no, epsilon=1.0)
        fed.step(3 * seen, reward, no, no, epsilon=1.0)
    before = live.state.weights()
    live.learn(4)
    fed.learn(4)
    after, wanted = live.state.weights(), fed.state.weights()
    for name in after:
        np.testing.assert_allclose(after[name], wanted[name], rtol=1e-5, atol=1e-6)
        assert not np.array_equal(after[name], before[name])


@pytest.mark.thorough
def test_training_is_true_in_updates_alone():
    agent, other = filled(made("in_updates")), filled(made("in_updates"))
    other.hyperparameters["gain"] = 2.0
    np.testing.assert_array_equal(agent.q_values(X), other.q_values(X))
    agent.learn(1)
    other.learn(1)
    assert np.abs(agent.q_values(X) - other.q_values(X)).max() > 1e-4


@pytest.mark.thorough
def test_dropout_is_of_updates_alone_and_the_same_again():
    first, second, none = (filled(made("dropped")) for _ in range(3))
    none.hyperparameters["rate"] = 0.0
    np.testing.assert_array_equal(first.q_values(X), none.q_values(X))
    for agent in (first, second, none):
        agent.learn(3)
    assert first.state.digest() == second.state.digest()
    assert first.state.digest() != none.state.digest()


def test_dropout_by_hand():
    """Of 4,000 ones with rate 1/4, about 3,000 stay and become 4/3; without draws all stay."""
    from targetnet.rl_core.random import Draws

    with tf.Graph().as_default(), tf.Session() as session:
        ones, zero = tf.ones([40, 100]), tf.zeros([], tf.int64)
        rate = tf.placeholder(tf.float32, [])
        got = dropout(ones, rate, Draws(0, "test", zero))
        other = dropout(ones, rate, Draws(0, "test", zero), name="second")
        quarter, again = (session.run(got, {rate: 0.25}) for _ in range(2))
        second, all_kept = session.run(other, {rate: 0.25}), session.run(got, {rate: 0.0})
        assert dropout(ones, rate, None) is ones
    assert set(np.unique(quarter)) == {0.0, np.float32(4 / 3)}
    assert abs((quarter > 0).sum() - 3_000) < 4 * np.sqrt(4_000 * 0.25 * 0.75)
    np.testing.assert_array_equal(quarter, again)
    assert (quarter != second).any()
    np.testing.assert_array_equal(all_kept, np.ones([40, 100]))


LOOPS = {
    "plain": {},
    "fused": {"updates_per_learn": 4, "num_envs": 2},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 4},
    "compiled": {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 50},
}


def halfway(agent, tick):
    if tick.env_step >= 200 and agent.hyperparameters["rate"] == 0.25:
        agent.hyperparameters["rate"] = 0.5


SLOW = ("fused", "concurrent", "compiled")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "loop", [pytest.param(x, marks=pytest.mark.slow if x in SLOW else ()) for x in LOOPS]
)
def test_a_run_that_changes_it_is_repeated_and_resumed_bit_for_bit(loop, tmp_path):
    settings = SHORT | LOOPS[loop] | {"network": "mine:dropped", "checkpoint_steps": 300}
    schedule = {"schedule": "linear", "start": 1.0, "end": 2.0, "steps": 300}
    live = LIVE | {"gain": {"default": schedule}}
    config = DqnConfig.model_validate(settings | {"live": live})
    whole = train(config, tmp_path / "whole", on_tick=halfway)
    lines = (whole.run / "control" / "log.jsonl").read_text().splitlines()
    by_api = [e for e in map(json.loads, lines) if e["who"] == "api"]
    assert [(e["name"], e["value"]) for e in by_api] == [("rate", 0.5)]
    plain = train(config, tmp_path / "plain")
    assert plain.digest != whole.digest
    assert repeat(whole.run).identical
    shutil.rmtree(
        whole.run
        / "checkpoints"
        / max(p.name for p in (whole.run / "checkpoints").iterdir() if p.name.isdecimal())
    )
    for name in ("result.json", "digest.json"):
        (whole.run / name).unlink()
    assert resume(whole.run).digest == whole.digest


@pytest.mark.thorough
def test_what_is_loaded_and_exported_is_frozen_at_its_value(tmp_path):
    def steer(agent, tick):
        if tick.env_step == 300:
            agent.hyperparameters["gain"] = 5.0

    config = DqnConfig.model_validate(
        SHORT | {"network": "mine:scaled", "checkpoint_steps": 100, "checkpoint_keep": 9}
    )
    run = train(config, tmp_path / "run", on_tick=steer).run
    weights = RunDir.open(run).load_weights()
    close = {"rtol": 1e-4, "atol": 1e-5}
    policy = load_policy(run)
    assert policy.live == {"gain": 5.0, "rate": 0.25}
    np.testing.assert_allclose(policy.q_values(X), by_hand(weights, 5 * X), **close)
    assert load_policy(run, checkpoint=1).live == {"gain": 1.0, "rate": 0.25}
    (run / "weights.safetensors").unlink()  # as if it had been killed: the last checkpoint
    assert load_policy(run).live == {"gain": 5.0, "rate": 0.25}
    out = export(run, "frozen", tmp_path / "out")
    assert json.loads((out / "policy.json").read_text())["live"] == {"gain": 5.0, "rate": 0.25}
    definition = tf.GraphDef.FromString((out / "policy.pb").read_bytes())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(definition, name="")
        got = session.run("q:0", {"observation:0": X})
    np.testing.assert_allclose(got, by_hand(weights, 5 * X), **close)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("misspelt", r"UnknownName: the config has no \[live\.gian\]; did you mean 'gain'"),
        ("asks_for_more", "has a parameter 'liv'; beside 'observation' .*did you mean 'live'"),
        ("by_state", "draws random numbers by RandomUniform, which a resumed run could not repeat"),
    ],
)  # fmt: skip
def test_a_network_that_cannot_be_used_is_one_line(network, message):
    with pytest.raises(ConfigError, match=message) as refused:
        made(network)
    assert "\n" not in str(refused.value)


@pytest.mark.thorough
def test_initializers_may_draw():
    """Glorot and Bengio's (2010): +-sqrt(6 / (inputs + outputs)), another draw for another seed."""
    weights = [made("by_glorot", seed=seed).state.weights() for seed in (1, 1, 2)]
    first, again, other = (w["torso/w"] for w in weights)
    limit = np.sqrt(6 / (4 + RELUS))
    assert 0.7 * limit < np.abs(first).max() < limit
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_value_outside_its_bounds_or_misspelt_is_refused():
    agent = made("dropped")
    with pytest.raises(BoundsError, match=r"rate must be a number in \[0, 1\), got 1"):
        agent.hyperparameters["rate"] = 1
    with pytest.raises(UnknownName, match="no live value 'rat'; did you mean 'rate'"):
        agent.hyperparameters["rat"] = 0.5


@pytest.mark.thorough
def test_networks_of_targetnet_read_none_and_it_is_still_live(tmp_path):
    """So `on_tick` may use it, for an env's difficulty for example."""
    config = DqnConfig.model_validate(SHORT | {"hidden": (8,)})
    seen = []
    train(
        config,
        tmp_path / "run",
        on_tick=lambda agent, tick: seen.append(agent.hyperparameters["gain"]),
    )
    assert set(seen) == {1.0}
