"""Conservative Q-learning in an update: a live weight of the loss, which costs nothing at 0."""

import numpy as np
import pytest

from targetnet.rl_core.errors import RlCoreError
from tests.agents.dqn.test_family import masked, masked_step
from tests.agents.dqn.test_target_regularizers import DISTRIBUTIONS, KINDS, SINGLE_AND_FUSED
from tests.agents.dqn.test_update import S_T, S_TM1, forward

PREPARED = {"prepared": ["cql_weight"], "updates_per_learn": 2}


def logsumexp(q):
    return np.log(np.exp(np.float64(q)).sum())


@pytest.mark.cases(0)
@SINGLE_AND_FUSED
def test_the_very_next_update_adds_the_penalty_and_leaves_the_td_error(lab, updates):
    agent = lab.agent(discount=0.5, learning_rate=1e-12, loss="squared", **PREPARED)
    (action,) = lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=3.0)
    q_tm1 = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    off = agent.learn(updates, stats=True)
    agent.hyperparameters["cql_weight"] = 0.75
    on = agent.learn(updates, stats=True)
    np.testing.assert_allclose(on.td_error, off.td_error, rtol=1e-5)
    penalty = 0.75 * (logsumexp(q_tm1) - q_tm1[action])
    assert on.loss - off.loss == pytest.approx(penalty, rel=1e-4)


@pytest.mark.thorough
def test_illegal_actions_are_not_penalized(lab):
    agent = masked(lab, discount=0.0, learning_rate=1e-12, loss="squared", **PREPARED)
    (action,) = masked_step(agent, S_TM1, [True, False, True], autoreset=True)
    masked_step(agent, S_T, [True] * 3, reward=3.0)
    q_tm1 = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    off = agent.learn(stats=True)
    agent.hyperparameters["cql_weight"] = 0.75
    on = agent.learn(stats=True)
    penalty = 0.75 * (logsumexp(q_tm1[[0, 2]]) - q_tm1[action])
    assert on.loss - off.loss == pytest.approx(penalty, rel=1e-4)


@pytest.mark.cases(0)
@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_of_a_distribution_the_means_are_penalized(lab, kind):
    settings = PREPARED | DISTRIBUTIONS[kind] | {"discount": 0.0}
    agent = lab.agent(learning_rate=1e-12, **settings)
    (action,) = lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=0.5)
    q_tm1 = agent.q_values(np.float32(S_TM1))
    off = agent.learn(stats=True)
    agent.hyperparameters["cql_weight"] = 1.0
    on = agent.learn(stats=True)
    wanted = logsumexp(q_tm1) - q_tm1[action]
    # An implicit head draws other fractions in each update, for the loss and for the means.
    assert on.loss - off.loss == pytest.approx(wanted, abs=0.1 if kind == "implicit" else 1e-4)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_prepared_and_off_changes_no_bit_and_on_it_does(lab, kind):
    settings = KINDS[kind] | {"updates_per_learn": 2, "sync_period": 3}
    plain, prepared = lab.filled(**settings), lab.filled(**settings, prepared=["cql_weight"])
    for weight in (0.0, 0.5):
        prepared.hyperparameters["cql_weight"] = weight
        for agent in (plain, prepared):
            agent.learn(1)
            agent.learn(3)
        assert lab.same(plain.state.weights(), prepared.state.weights()) == (weight == 0.0)


@pytest.mark.thorough
def test_at_0_no_operation_is_built_for_it_and_none_when_it_is_set(lab, own_agents):
    plain, prepared = lab.filled(), lab.filled(**PREPARED)
    assert lab.operations(plain) < lab.operations(prepared)
    prepared.learn(1)
    prepared.learn(2)
    operations = lab.operations(prepared)
    prepared.hyperparameters["cql_weight"] = 0.5
    prepared.learn(1)
    prepared.learn(2)
    assert lab.operations(prepared) == operations
    with pytest.raises(RlCoreError, match=r'cql_weight > 0, or prepared = \["cql_weight"\]'):
        plain.hyperparameters["cql_weight"] = 0.5


def test_it_draws_the_values_of_other_actions_down(lab, pool):
    """Of one transition that is learned from again and again, with it and without."""
    gaps = []
    for weight in (0.0, 5.0):
        pool.take_back()  # the first one's agent serves again, as good as new
        agent = lab.agent(discount=0.0, **PREPARED)
        agent.hyperparameters["cql_weight"] = weight
        (action,) = lab.step(agent, S_TM1, autoreset=True)
        lab.step(agent, S_T, reward=0.0)
        for _ in range(60):
            agent.learn(1)
        q = agent.q_values(np.float32(S_TM1))
        gaps.append(q[action] - np.delete(q, action).max())
    assert gaps[1] > gaps[0] + 0.5


@pytest.mark.thorough
def test_priorities_are_of_the_td_error_alone(lab):
    settings = {"head": "quantile", "quantiles": 5, "prioritized": True, "cql_weight": 0.5}
    with_penalty, without = lab.filled(**settings), lab.filled(**settings)
    without.hyperparameters["cql_weight"] = 0.0
    for agent in (with_penalty, without):
        agent.learn(1)
    one, other = (agent.state.read().variables for agent in (with_penalty, without))
    assert not np.array_equal(one["online/torso/dense_0/w"], other["online/torso/dense_0/w"])
    (name,) = (name for name in one if name.endswith("max_priority"))
    np.testing.assert_array_equal(one[name], other[name])
