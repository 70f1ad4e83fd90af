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
    "fqf": {"head": "fqf", "fractions": 4},
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


MEMORY = {"sequence_length": 4, "burn_in": 3, "recurrent_units": 3, "batch_size": 5, "num_envs": 2}
ROLLOUT = {"rollout": 12, "epochs": 2, "num_envs": 2, "batch_size": 12, "layer_norm": True}
ROLLOUT |= {"replay_capacity": 100_000, "learn_start": 1_000, "past_states": 2}
LOOKED_AT = {
    "gru": {"recurrent": "gru", **MEMORY},
    "lstm, prioritized": {"recurrent": "lstm", "prioritized": True, **MEMORY},
    "rollouts": ROLLOUT,
    "chain, normalized": {"chain": 3, "refresh_period": 2, "normalize_observations": True},
    "noisy, averaged": {"noisy": True, "ema_decay": 0.9, "averaged_targets": 2},
    "categorical": {"head": "categorical", "v_min": -3.0, "v_max": 3.0, "atoms": 5},
    **KINDS,
}


@pytest.mark.cases(0)
@pytest.mark.parametrize("settings", LOOKED_AT.values(), ids=LOOKED_AT)
def test_nothing_that_only_looks_changes_a_variable(lab, settings):
    """With sequences, reading what a batch had observed once made a gradient step."""
    agent = lab.filled(**settings)
    agent.learn(20)
    # No unit of these is dormant.
    agent.state.load_weights({n: 0.1 + abs(w) for n, w in agent.state.weights().items()})
    agent.state.read()  # what compiled calls hold packed is in its variables too
    observation = np.float32([0.5, -0.5])
    looks = {
        "digest": agent.state.digest,
        "weights": agent.state.weights,
        "averaged weights": agent.state.averaged_weights,
        "saved": agent.state.read,
        "inspect": agent.inspect,
        "rows": agent.rows,
        "gradients": agent.learner.gradients.read,
        "observed": agent.learner.gradients.shown,
    }
    if not agent.config.is_recurrent:
        scopes = ("online",) if agent.config.rollout else ("online", "target")
        looks |= {of: lambda of=of: agent.q_values(observation, of) for of in scopes}
    looks["recycle"] = lambda: (
        agent.weight_resets.recycle(0.0).dormant and pytest.fail("one was dormant")
    )
    # Of rollouts: each pass over one begins by writing both anew, whoever makes it.
    scratch = {"replay/order", "replay/returns"}
    before, operations = everything(agent), lab.operations(agent)
    for name, look in looks.items():
        look()
        now = everything(agent)
        assert {of for of in before if now[of] != before[of]} - scratch == set(), name
    assert lab.operations(agent) == operations
