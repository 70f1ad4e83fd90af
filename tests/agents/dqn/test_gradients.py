"""Gradients that are only looked at: those of the next update, and nothing changes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf


def everything(agent):
    """Bytes of every variable, also of those that are not saved because they repeat others.

    Rows that are not written yet may have any number in them, and NaN is not equal to itself.
    """
    with agent.engine.graph.as_default():
        variables = {v.op.name: v for v in tf.global_variables()}
    return {name: value.tobytes() for name, value in agent.engine.run(variables).items()}


KINDS = {
    "plain": {},
    "prioritized, n-step": {"prioritized": True, "n_step": 3},
    "noisy, dueling": {"noisy": True, "dueling": True},
    "implicit": {"head": "implicit", "tau_samples": 4, "tau_samples_acting": 4},
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_they_are_those_of_the_next_update_and_looking_at_them_changes_nothing(lab, settings):
    agent = lab.filled(xla=False, **settings)
    agent.learn(3)
    if agent.config.prioritized:
        # The next update will recompute all priorities. Looking must not, because a compiled
        # update rounds them in another way than the operations that look.
        agent.hyperparameters["priority_alpha"] = 0.9
    before, operations = everything(agent), lab.operations(agent)
    gradients = agent.learner.gradients.read()
    assert everything(agent) == before and lab.operations(agent) == operations
    assert gradients.keys() == agent.state.weights().keys() == set(agent.learner.gradients.names)
    again = agent.learner.gradients.read()
    assert all(np.array_equal(again[name], gradient) for name, gradient in gradients.items())
    if agent.config.prioritized:
        agent.hyperparameters["priority_alpha"] = "auto"
    norm = np.sqrt(sum(np.sum(np.square(gradient)) for gradient in gradients.values()))
    assert norm == pytest.approx(float(agent.learn(1, stats=True).grad_norm), rel=1e-5)
    assert norm > 0


def test_a_frozen_block_has_gradients_here_too(lab):
    agent = lab.used()
    agent.hyperparameters["exempt"] = "torso"
    gradients = agent.learner.gradients.read()
    assert all(np.any(gradient) for gradient in gradients.values())
    assert any(name.startswith("torso/") for name in gradients)


def test_the_switch_of_histograms_is_live_and_not_fed_to_updates(lab):
    agent = lab.used()
    assert "histograms" in agent.hyperparameters and "histograms" not in agent._parts.live
