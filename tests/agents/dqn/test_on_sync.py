"""What a copy of the target does to Adam."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import ConfigError

ARMS = [{"exempt": ["head"], "updates": 2}, {"exempt": ["torso"], "updates": 2}]


def adam_of(agent):
    """Returns (slots, step counters as beta ** t), by their names."""
    saved = agent.state.read().variables
    slots = {n: v for n, v in saved.items() if n.endswith(("/Adam", "/Adam_1"))}
    powers = {n: float(v) for n, v in saved.items() if "beta1_power" in n or "beta2_power" in n}
    assert len(slots) == 8 and len(powers) == 4
    return slots, powers


def first_steps(powers):
    return all(v == np.float32(0.9 if "beta1" in n else 0.999) for n, v in powers.items())


@pytest.mark.cases(0)
@pytest.mark.parametrize("phases", [(1, 1, 1), (3,)], ids=["single", "fused"])
@pytest.mark.parametrize("kind", ["reset_moments", "reset_time"])
def test_after_a_copy_the_next_step_counts_as_the_first(lab, phases, kind):
    settings = {"updates_per_learn": 2, "sync_period": 3}
    agent, plain = lab.filled(**settings, on_sync=[kind]), lab.filled(**settings)
    for updates in phases:
        assert not first_steps(adam_of(agent)[1]) or agent.updates == 0
        for of in (agent, plain):
            of.learn(updates)
    slots, powers = adam_of(agent)
    assert first_steps(powers) and not first_steps(adam_of(plain)[1])
    for name, wanted in adam_of(plain)[0].items():
        assert np.any(wanted)
        np.testing.assert_array_equal(slots[name], 0 if kind == "reset_moments" else wanted)
    # Until then nothing was different, and from then on it is.
    assert lab.same(agent.state.weights(), plain.state.weights())
    for of in (agent, plain):
        of.learn(1)
    assert not lab.same(agent.state.weights(), plain.state.weights())


@pytest.mark.thorough
def test_single_and_fused_updates_agree_over_several_copies(lab):
    settings = {"updates_per_learn": 2, "sync_period": 3, "on_sync": ["reset_moments"]}
    single, fused = (lab.filled(**settings) for _ in range(2))
    for _ in range(10):
        single.learn(1)
    fused.learn(10)
    for name, value in single.state.weights().items():
        np.testing.assert_allclose(fused.state.weights()[name], value, rtol=1e-4, atol=1e-6)
    assert adam_of(single)[1] == pytest.approx(adam_of(fused)[1])


@pytest.mark.thorough
def test_a_copy_by_hand_resets_too(lab):
    agent = lab.filled(updates_per_learn=2, on_sync=["reset_moments"])
    agent.learn(4)
    agent.sync()
    slots, powers = adam_of(agent)
    assert first_steps(powers) and not any(map(np.any, slots.values()))


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("phases", [(1,) * 4, (4,)], ids=["single", "fused"])
def test_blocks_that_are_left_alone_are_reset_too(lab, phases):
    agent = lab.filled(
        updates_per_learn=2, sync_period=4, freeze=ARMS, on_sync=["reset_moments"]
    )  # fmt: skip
    for updates in phases:
        agent.learn(updates)
    slots, powers = adam_of(agent)
    assert first_steps(powers) and not any(map(np.any, slots.values()))


def test_a_word_that_is_none_of_them_is_refused():
    with pytest.raises(ConfigError, match="on_sync"):
        DqnConfig(on_sync=["reset_everything"])
