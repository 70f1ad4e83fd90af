"""HL-Gauss in the agent: a categorical head whose targets are those of a scalar one."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import ConfigError, StaticHyperparameter
from tests.agents.dqn.test_family import S_T, S_TM1, outputs, scatter, softmax, with_one_transition
from tests.rl_core.losses.test_hl_gauss import histogram

BINS = {"head": "categorical", "loss": "hl_gauss", "v_min": -20.0, "v_max": 20.0, "atoms": 10}
CENTRES = np.linspace(-18.0, 18.0, 10)  # of bins 4 wide
SINGLE_AND_FUSED = pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])


def probabilities(weights, observation):
    """[A, N] by NumPy."""
    return softmax(outputs(weights, np.float32(observation), 10).astype(np.float64))


def q(weights, observation):
    return probabilities(weights, observation) @ CENTRES


def loss_around(target, p, sigma):
    return -(histogram(target, CENTRES, sigma) * np.log(p)).sum()


def test_values_are_sums_over_the_centres_of_the_bins(lab):
    agent = lab.used(**BINS)
    got = agent.q_values(np.float32([S_T]))[0]
    np.testing.assert_allclose(got, q(lab.weights(agent, "online"), S_T), rtol=1e-4, atol=1e-4)


@pytest.mark.cases(0, 1)
@SINGLE_AND_FUSED
def test_the_target_is_that_of_q_learning_and_the_loss_a_histogram_around_it(lab, updates):
    """The next update goes by the sigma that is set."""
    agent, action = with_one_transition(lab, **BINS)
    weights = scatter(lab, agent)
    p = probabilities(weights["online"], S_TM1)[action]
    target = 3.0 + 0.5 * q(weights["target"], S_T).max()
    for sigma in (0.75, 2.0):
        agent.hyperparameters["hl_gauss_sigma"] = sigma
        stats = agent.learn(updates, stats=True)
        np.testing.assert_allclose(stats.td_error, np.full(8, target - p @ CENTRES), rtol=1e-3)
        assert stats.loss == pytest.approx(loss_around(target, p, sigma), rel=1e-3)


@pytest.mark.thorough
def test_with_double_the_online_network_chooses_and_the_target_evaluates(lab):
    agent, action = with_one_transition(lab, double=True, **BINS)
    weights = next(
        w
        for w in (scatter(lab, agent, seed) for seed in range(100))
        if q(w["online"], S_T).argmax() != q(w["target"], S_T).argmax()
    )
    chosen = q(weights["target"], S_T)[q(weights["online"], S_T).argmax()]
    td_error = 3.0 + 0.5 * chosen - q(weights["online"], S_TM1)[action]
    stats = agent.learn(stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-3)


@pytest.mark.thorough
def test_munchausens_target_is_a_number_too(lab):
    settings = {"munchausen": True, "munchausen_temperature": 2.0, "munchausen_clip": -3.0}
    agent, action = with_one_transition(lab, **BINS, **settings)
    weights = scatter(lab, agent)
    before, then = (q(weights["target"], s) for s in (S_TM1, S_T))
    bonus = 0.9 * np.clip(2.0 * np.log(softmax(before / 2.0))[action], -3.0, 0.0)
    pi = softmax(then / 2.0)
    target = 3.0 + bonus + 0.5 * np.sum(pi * (then - 2.0 * np.log(pi)))
    stats = agent.learn(stats=True)
    wanted = target - q(weights["online"], S_TM1)[action]
    np.testing.assert_allclose(stats.td_error, np.full(8, wanted), rtol=1e-3)


@pytest.mark.thorough
def test_weights_that_hold_a_target_still_act_on_the_number(lab):
    names = ["min_weight", "functional_weight"]
    agent, action = with_one_transition(lab, prepared=names, **BINS)
    weights = scatter(lab, agent)
    online, target = (q(weights[of], S_T) for of in ("online", "target"))
    p = probabilities(weights["online"], S_TM1)[action]
    then = 3.0 + 0.5 * np.minimum(online, target).max()
    away = p @ CENTRES - q(weights["target"], S_TM1)[action]
    agent.hyperparameters.update(min_weight=1.0, functional_weight=0.5)
    stats = agent.learn(stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, then - p @ CENTRES), rtol=1e-3)
    assert stats.loss == pytest.approx(loss_around(then, p, 0.75) + 0.25 * away**2, rel=1e-3)


def test_a_target_beyond_the_bins_is_at_their_edge(lab):
    agent, action = with_one_transition(lab, reward=300.0, **BINS)
    weights = scatter(lab, agent)
    p = probabilities(weights["online"], S_TM1)[action]
    stats = agent.learn(stats=True)  # 300 + ... is above 20
    np.testing.assert_allclose(stats.td_error, np.full(8, 20.0 - p @ CENTRES), rtol=1e-3)


@pytest.mark.thorough
def test_priorities_are_absolute_td_errors(lab):
    """Not the loss: a cross-entropy is above 0 even where there is nothing left to learn."""
    agent, action = with_one_transition(lab, prioritized=True, **BINS)
    weights = scatter(lab, agent)
    td_error = agent.learn(stats=True).td_error[0]
    saved = agent.state.read().variables
    (name,) = (name for name in saved if name.endswith("replay/priority"))
    assert saved[name].max() == pytest.approx(abs(td_error), rel=1e-4)
    target = 3.0 + 0.5 * q(weights["target"], S_T).max()
    assert abs(td_error) == pytest.approx(
        abs(target - q(weights["online"], S_TM1)[action]), rel=1e-3
    )


def test_the_loss_goes_down_and_the_value_to_the_target(lab):
    agent, _ = with_one_transition(lab, terminated=True, **BINS)
    agent.hyperparameters["learning_rate"] = 0.02
    first = agent.learn(stats=True)
    for _ in range(150):
        last = agent.learn(2, stats=True)
    assert last.loss < first.loss and abs(last.td_error.mean()) < 0.3 < abs(first.td_error.mean())


def test_sigma_has_no_effect_with_another_loss(lab):
    with pytest.raises(StaticHyperparameter, match='needs loss = "hl_gauss"'):
        lab.used().hyperparameters["hl_gauss_sigma"] = 0.5
    with pytest.raises(ConfigError, match="hl_gauss_sigma"):
        DqnConfig(**BINS, hl_gauss_sigma=0.0)
