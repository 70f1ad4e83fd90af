"""The same input now, by the target, and at earlier updates."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.rl_core.errors import FeedError, RlCoreError, UnknownName
from tests.agents.pool import POOL


def trained(**settings):
    config = DqnConfig(
        **{
            "hidden": (8,), "batch_size": 4, "replay_capacity": 100, "learning_rate": 0.05,
            "sync_period": 10_000, "xla": False,
        } | settings
    )  # fmt: skip
    agent = POOL.agent(config, (3,), np.float32, 2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        flags = np.zeros(1, np.bool_)
        agent.step(rng.normal(size=(1, 3)).astype(np.float32), np.ones(1, np.float32), flags, flags)
    return agent


X = np.float32([[1, 2, 3], [-1, 0, 1]])


def by_hand(weights, x):
    hidden = np.maximum(x @ weights["torso/dense_0/w"] + weights["torso/dense_0/b"], 0)
    return hidden @ weights["head/q/w"] + weights["head/q/b"]


def test_past_values_are_those_of_the_weights_at_each_snapshot():
    agent = trained()
    weights = []
    for _ in range(3):
        weights.append(agent.state.weights())
        agent.state.snapshot()
        agent.learn(5)
    now = agent.state.weights()
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(agent.q_values(X), by_hand(now, X), **close)
    for back in (1, 2, 3):
        was = by_hand(weights[-back], X)
        np.testing.assert_allclose(agent.q_values(X, of=f"past/{back}"), was, **close)
        assert np.abs(was - by_hand(now, X)).max() > 1e-3
    # The target was copied before the first update.
    np.testing.assert_allclose(agent.q_values(X, of="target"), by_hand(weights[0], X), **close)
    agent.sync()
    np.testing.assert_array_equal(agent.q_values(X, of="target"), agent.q_values(X))


def test_a_rewind_goes_back_to_what_past_said_and_keeps_what_was():
    agent = trained()
    agent.state.snapshot()
    agent.learn(5)
    before, now = agent.q_values(X, of="past/1"), agent.q_values(X)
    agent.state.rewind(1)
    np.testing.assert_array_equal(agent.q_values(X), before)
    np.testing.assert_array_equal(agent.q_values(X, of="past/1"), now)


@pytest.mark.thorough
def test_a_single_observation_gives_a_row():
    agent = trained(ema_decay=0.5)
    agent.learn(3)
    one = agent.q_values(X[1], of="averaged")
    assert one.shape == (2,)
    np.testing.assert_allclose(one, agent.q_values(X, of="averaged")[1], rtol=1e-5)
    np.testing.assert_array_equal(agent.q_values(X[1].tolist()), agent.q_values(X[1]))
    np.testing.assert_array_equal(agent.q_values(X.astype(int)), agent.q_values(X))
    wanted = by_hand(agent.state.averaged_weights(), X)
    np.testing.assert_allclose(agent.q_values(X, of="averaged"), wanted, rtol=1e-5, atol=1e-6)
    for other in ("online", "target"):
        assert np.abs(agent.q_values(X, of=other) - wanted).max() > 1e-3


def test_bytes_are_taken_as_the_env_shows_them_and_numbers_are_not_taken_for_bytes():
    agent = DqnAgent(DqnConfig(hidden=(8,), replay_capacity=100, xla=False), (4,), np.uint8, 2)
    seen = np.uint8([[0, 255, 3, 4]])
    wanted = by_hand(agent.state.weights(), seen / 255)
    np.testing.assert_allclose(agent.q_values(seen), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(FeedError, match="must be uint8, got float32"):
        agent.q_values(seen.astype(np.float32))


def test_asking_changes_nothing():
    agent = trained()
    agent.state.snapshot()
    agent.learn(2)
    digest = agent.state.digest()
    for of in ("online", "target", "past/1"):
        agent.q_values(X, of=of)
    assert agent.state.digest() == digest


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("onlin", r"no network 'onlin' \(online, target, past/1, \.\.\.\); did you mean 'online'"),
        ("past", "did you mean 'past/1'"),
        ("past/-1", "no network 'past/-1'"),
        ("1", "no network '1'"),
        ("past/\N{FULLWIDTH DIGIT ONE}", "no network 'past/"),
        ("averaged", "no network 'averaged'"),
    ],
)
def test_another_name_is_refused(of, message):
    with pytest.raises(UnknownName, match=message):
        trained().q_values(X, of=of)


def test_more_snapshots_than_there_are(request):
    agent = trained()
    agent.state.snapshot()
    # Python makes no number of more than 4,300 digits.
    for of in ("past/2", "past/0", "past/" + "9" * 22, "past/" + "9" * 5_000):
        with pytest.raises(RlCoreError, match=r"there are 1 snapshots; agent\.state\.snapshot\(\)"):
            agent.q_values(X, of=of)
    with pytest.raises(RlCoreError, match="there are 0 snapshots"):
        trained(past_states=0).q_values(X, of="past/1")
