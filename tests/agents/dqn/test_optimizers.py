"""The config's optimizer: in single updates, in loops, and by live values."""

import itertools

import numpy as np
import pytest

OPTIMIZERS = ["adamw", "rmsprop", "sgd"]


@pytest.mark.cases(0)
@pytest.mark.parametrize("updates", [1, 2])
def test_weight_decay_takes_a_live_part_of_every_weight(lab, updates):
    """learning_rate * weight_decay of it, beside the step that Adam makes."""
    decayed, plain = (lab.filled(optimizer="adamw", updates_per_learn=2) for _ in range(2))
    before = lab.weights(plain, "online")
    decayed.hyperparameters["weight_decay"] = 5.0
    plain.hyperparameters["weight_decay"] = 0.0
    for agent in (decayed, plain):
        agent.learn(updates)
    rate = plain.hyperparameters["learning_rate"]
    for name, value in lab.weights(plain, "online").items():
        taken = value - lab.weights(decayed, "online")[name]
        if updates == 1:
            np.testing.assert_allclose(taken, rate * 5.0 * before[name], rtol=1e-4, atol=1e-6)
        else:
            assert np.abs(taken).max() > rate * 5.0 * np.abs(before[name]).max()


@pytest.mark.cases(0)
def test_momentum_keeps_a_live_part_of_the_last_step(lab):
    """Clipped gradients are all as long, so what is not kept of the last step is too."""
    agent = lab.filled(optimizer="sgd", batch_size=1, max_grad_norm=1e-6, learning_rate=1e3)
    weights = [lab.weights(agent, "online")]
    for momentum in (0.0, 0.5):
        agent.hyperparameters["momentum"] = momentum
        agent.learn(1)
        weights.append(lab.weights(agent, "online"))
    first, second = (
        np.concatenate([(a[name] - b[name]).ravel() for name in a])
        for a, b in itertools.pairwise(weights)
    )
    assert np.linalg.norm(first) == pytest.approx(1e-3, rel=1e-3)
    own = second - 0.5 * first
    assert np.linalg.norm(own) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.cases(0)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates_in_a_loop_agree_with_single_ones(lab, optimizer):
    alone, looped = (lab.filled(optimizer=optimizer, updates_per_learn=2) for _ in range(2))
    for _ in range(4):
        alone.learn(1)
    looped.learn(4)
    for name, value in alone.state.weights().items():
        np.testing.assert_allclose(looped.state.weights()[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.cases(0)
def test_the_first_step_of_rmsprop_has_the_configs_decay_and_epsilon(lab):
    """Of a gradient g: m = 0.1 g and v = 0.1 g^2, so v - m^2 = 0.09 g^2."""
    rmsprop = {"rmsprop_decay": 0.9, "rmsprop_epsilon": 0.04, "learning_rate": 0.1}
    agents = [
        lab.filled(optimizer="sgd", learning_rate=1.0),  # takes off g
        lab.filled(optimizer="rmsprop", **rmsprop),
    ]
    taken = []
    for agent in agents:
        before = lab.weights(agent, "online")
        agent.learn(1)
        after = lab.weights(agent, "online")
        taken.append(np.concatenate([(before[n] - after[n]).ravel() for n in before]))
    g, found = taken
    assert np.abs(g).max() > 0.1
    np.testing.assert_allclose(found, 0.1 * g / np.sqrt(0.09 * g**2 + 0.04), rtol=1e-3, atol=1e-6)
