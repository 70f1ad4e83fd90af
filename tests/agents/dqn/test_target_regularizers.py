"""Ways to hold a target still beside copies: each is a weight that is set during the run."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.target_keys import TargetKeys
from targetnet.rl_core.errors import ConfigError, RlCoreError
from tests.agents.dqn.test_update import S_T, S_TM1, disagree, forward

STILLNESS = TargetKeys.switches("value")
ALL = {"prepared": list(STILLNESS), "updates_per_learn": 2}
SINGLE_AND_FUSED = pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])


@pytest.fixture
def one_transition(lab):
    """Makes an agent whose only transition is (S_TM1, action, 3, S_T); it learns next to nothing.

    Gives it, the action, and the action values of (online, target) at S_T, which disagree.
    """

    def make(**settings):
        agent = lab.agent(discount=0.5, learning_rate=1e-12, **ALL | settings)
        (action,) = lab.step(agent, S_TM1, autoreset=True)
        lab.step(agent, S_T, reward=3.0)
        return agent, action, *disagree(lab, agent)

    return make


def q_at(lab, agent, scope, observation):
    return forward(lab.weights(agent, scope), np.float32(observation))


@pytest.mark.cases(0)
@SINGLE_AND_FUSED
def test_the_very_next_update_bootstraps_from_what_the_weights_say(lab, one_transition, updates):
    agent, action, online, target = one_transition()
    q_tm1 = q_at(lab, agent, "online", S_TM1)[action]
    lower = np.minimum(online, target)
    for weights, best in (
        ((0.0, 0.0), target.max()),
        ((1.0, 0.0), online.max()),
        ((0.0, 1.0), lower.max()),
        ((0.25, 0.0), (0.75 * target + 0.25 * online).max()),
        ((0.0, 0.5), (0.5 * target + 0.5 * lower).max()),
        ((0.0, 0.0), target.max()),
    ):
        agent.hyperparameters.update(online_weight=weights[0], min_weight=weights[1])
        stats = agent.learn(updates, stats=True)
        np.testing.assert_allclose(stats.td_error, np.full(8, 3.0 + 0.5 * best - q_tm1), rtol=1e-4)


@pytest.mark.thorough
def test_with_double_the_online_network_chooses_and_the_blend_evaluates(lab, one_transition):
    agent, action, online, target = one_transition(double=True)
    q_tm1 = q_at(lab, agent, "online", S_TM1)[action]
    agent.hyperparameters["min_weight"] = 1.0
    stats = agent.learn(stats=True)
    best = np.minimum(online, target)[np.argmax(online)]
    np.testing.assert_allclose(stats.td_error, np.full(8, 3.0 + 0.5 * best - q_tm1), rtol=1e-4)


@pytest.mark.cases(0)
@SINGLE_AND_FUSED
def test_functional_regularization_adds_to_the_loss_and_leaves_the_td_error(
    lab, one_transition, updates
):
    agent, action, _, target = one_transition(loss="squared")
    q_tm1, of_target = (q_at(lab, agent, of, S_TM1)[action] for of in ("online", "target"))
    td_error = 3.0 + 0.5 * target.max() - q_tm1
    agent.hyperparameters["functional_weight"] = 0.5
    stats = agent.learn(updates, stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-4)
    loss = td_error**2 / 2 + 0.25 * (q_tm1 - of_target) ** 2
    assert stats.loss == pytest.approx(loss, rel=1e-4)


@pytest.mark.cases(0)
@SINGLE_AND_FUSED
@pytest.mark.parametrize("exempt", ["none", "head"])
def test_a_step_draws_the_trained_weights_to_the_targets(lab, updates, exempt):
    """By learning_rate * proximal_weight of the way, beside the step that Adam makes."""
    drawn, plain = (lab.filled(**ALL) for _ in range(2))
    for agent in (drawn, plain):
        disagree(lab, agent)
        agent.hyperparameters["exempt"] = exempt
    before, target = lab.weights(plain, "online"), lab.weights(plain, "target")
    drawn.hyperparameters["proximal_weight"] = 5.0  # 5 * 0.01 = 0.05 of the way
    for agent in (drawn, plain):
        agent.learn(updates)
    for name, value in lab.weights(plain, "online").items():
        pulled = value - lab.weights(drawn, "online")[name]
        if exempt != "none" and name.startswith("head/"):
            np.testing.assert_array_equal(pulled, 0.0)
        elif updates == 1:
            np.testing.assert_allclose(pulled, 0.05 * (before[name] - target[name]), atol=1e-6)
        else:
            assert np.abs(pulled).max() > 0.05 * np.abs(before[name] - target[name]).max()


@pytest.mark.thorough
def test_pulls_in_a_loop_agree_with_those_of_single_updates(lab):
    alone, looped = (lab.filled(**ALL, proximal_weight=2.0) for _ in range(2))
    for _ in range(4):
        alone.learn(1)
    looped.learn(4)
    for name, value in alone.state.weights().items():
        np.testing.assert_allclose(looped.state.weights()[name], value, rtol=1e-5, atol=1e-6)


C51 = {"head": "categorical", "v_min": -5.0, "v_max": 5.0, "atoms": 11}
KINDS = {
    "scalar": {},
    "categorical": C51,
    "quantile": {"head": "quantile", "quantiles": 5},
    "implicit": {"head": "implicit", "tau_samples": 4, "tau_samples_acting": 4},
    "munchausen": {"munchausen": True},
    "several targets, noisy": {"averaged_targets": 2, "noisy": True},
}
DISTRIBUTIONS = {kind: KINDS[kind] for kind in ("quantile", "categorical", "implicit")}
DISTRIBUTIONS |= {"fqf": {"head": "fqf", "fractions": 4}}


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_prepared_and_off_changes_no_bit_and_on_it_does(lab, kind):
    settings = KINDS[kind] | {"updates_per_learn": 2, "sync_period": 3}
    plain, prepared = lab.filled(**settings), lab.filled(**settings, prepared=list(STILLNESS))
    for agent in (plain, prepared):
        agent.learn(1)
        agent.learn(3)
    assert lab.same(plain.state.weights(), prepared.state.weights())
    # A target that is above the online network here and below it there.
    rng = np.random.default_rng(0)
    target = {
        name: value + 0.3 * rng.normal(size=value.shape)
        for name, value in lab.weights(plain, "target").items()
    }
    saved = prepared.state.read()
    rows = [(0, prepared.state.contents.time_steps(0, 50))]
    lab.put(plain, "target", target)
    plain.learn(1)
    for name in (None, *STILLNESS):
        prepared.state.restore(saved, rows)
        lab.put(prepared, "target", target)
        if name is not None:
            prepared.hyperparameters[name] = 0.5
        prepared.learn(1)
        assert lab.same(plain.state.weights(), prepared.state.weights()) == (name is None), name
        prepared.hyperparameters[name or STILLNESS[0]] = "auto"


@pytest.mark.cases(0)
@pytest.mark.parametrize("kind", ["categorical", "quantile"])
def test_the_smaller_distribution_is_that_of_the_smaller_mean(lab, kind):
    """With one action the bootstrapped mean is the smaller one of both means."""
    agent = lab.agent(discount=0.5, learning_rate=1e-12, **ALL | KINDS[kind], epsilon=0.0)
    lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=0.25)
    rng = np.random.default_rng(1)
    for scope in ("online", "target"):
        shapes = {name: value.shape for name, value in lab.weights(agent, scope).items()}
        lab.put(agent, scope, {name: rng.normal(size=of) * 0.5 for name, of in shapes.items()})
    states = np.float32([S_TM1, S_T])
    online = agent.q_values(states)
    target = agent.q_values(states, of="target")
    action = int(agent.state.contents.time_steps(0, 1)["action"].item())
    agent.hyperparameters["min_weight"] = 1.0
    stats = agent.learn(stats=True)
    best = np.minimum(online, target)[1].max()
    wanted = 0.25 + 0.5 * best - online[0, action]
    np.testing.assert_allclose(stats.td_error, np.full(8, wanted), rtol=1e-3, atol=1e-4)


@pytest.mark.thorough
def test_priorities_are_of_the_distance_from_the_target_alone(lab):
    """A quantile head's priority is its loss, without the penalty."""
    settings = {"head": "quantile", "quantiles": 5, "prioritized": True, "functional_weight": 0.5}
    with_penalty, without = lab.filled(**settings), lab.filled(**settings)
    without.hyperparameters["functional_weight"] = 0.0
    for agent in (with_penalty, without):
        target = lab.weights(agent, "target")
        lab.put(agent, "target", {name: value + 0.5 for name, value in target.items()})
        agent.learn(1)
    one, other = (agent.state.read().variables for agent in (with_penalty, without))
    assert not np.array_equal(one["online/torso/dense_0/w"], other["online/torso/dense_0/w"])
    (name,) = (name for name in one if name.endswith("max_priority"))
    np.testing.assert_array_equal(one[name], other[name])


def test_no_weight_adds_an_operation_when_it_is_set(lab):
    agent = lab.filled(**ALL)
    agent.learn(1)
    agent.learn(2)
    operations = lab.operations(agent)
    for name in STILLNESS:
        agent.hyperparameters[name] = 0.5
        agent.learn(1)
        agent.learn(2)
    assert lab.operations(agent) == operations


def test_what_is_not_prepared_says_what_it_needs(lab):
    agent = lab.used()
    with pytest.raises(RlCoreError, match=r'min_weight > 0, or prepared = \["min_weight"\]'):
        agent.hyperparameters["min_weight"] = 1.0
    live = lab.agent(min_weight=0.5).hyperparameters
    live["min_weight"] = 1.0
    assert live["min_weight"] == 1.0


def test_only_these_weights_are_prepared():
    with pytest.raises(ConfigError, match=r"did you mean 'min_weight'"):
        DqnConfig(prepared=["min_wieght"])
