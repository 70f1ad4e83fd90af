"""Blocks that updates leave alone, by hand and by schedule."""

import pytest

from targetnet.rl_core.errors import ConfigError, RlCoreError, UnknownName
from targetnet.rl_core.optimizers.freeze import AllExempt

TORSO_THEN_HEAD = [{"exempt": ["head"], "updates": 3}, {"exempt": ["torso"], "updates": 2}]


def moved(lab, agent, updates):
    """The blocks that a phase of `updates` changed."""
    before = agent.state.weights()
    agent.learn(updates)
    after = agent.state.weights()
    names = {name.split("/")[0] for name in before}
    return {name for name in names if not lab.same(lab.block(before, name), lab.block(after, name))}


def test_an_exempt_block_keeps_every_bit_until_auto(lab):
    agent = lab.used()
    assert moved(lab, agent, 3) == {"torso", "head"}
    agent.hyperparameters["exempt"] = ["torso"]
    assert moved(lab, agent, 3) == {"head"}
    agent.hyperparameters["exempt"] = ["head"]
    assert moved(lab, agent, 3) == {"torso"}
    agent.hyperparameters["exempt"] = "auto"
    assert moved(lab, agent, 3) == {"torso", "head"}


@pytest.mark.thorough
def test_each_of_three_blocks_can_be_left_alone_with_any_other(lab):
    agent = lab.filled(dueling=True)
    blocks = {"torso", "value", "advantage"}
    for exempt in ({"torso"}, {"value"}, {"torso", "value"}, {"value", "advantage"}, set()):
        agent.hyperparameters["exempt"] = exempt
        assert moved(lab, agent, 2) == blocks - exempt


@pytest.mark.thorough
def test_an_exempt_block_also_stays_in_a_phase_of_many_updates(lab):
    agent = lab.used(updates_per_learn=4)
    agent.hyperparameters["exempt"] = "torso"
    assert moved(lab, agent, 4) == {"head"}
    agent.hyperparameters["exempt"] = "auto"
    assert moved(lab, agent, 4) == {"torso", "head"}


def test_an_unknown_block_is_refused_with_the_nearest(lab):
    agent = lab.used()
    with pytest.raises(UnknownName, match="did you mean 'torso'"):
        agent.hyperparameters["exempt"] = ["tors"]
    assert agent.hyperparameters["exempt"] == frozenset()


def test_leaving_every_block_alone_is_refused(lab):
    agent = lab.used()
    with pytest.raises(AllExempt):
        agent.hyperparameters["exempt"] = ["torso", "head"]
    assert agent.hyperparameters["exempt"] == frozenset()


@pytest.mark.cases(1)
@pytest.mark.parametrize("updates_per_learn", [1, 4], ids=["single", "fused"])
def test_a_schedules_arms_take_turns_at_their_exact_updates(lab, updates_per_learn):
    agent = lab.used(freeze=TORSO_THEN_HEAD, updates_per_learn=updates_per_learn)
    turns = [moved(lab, agent, 1) for _ in range(8)]
    torso, head = {"torso"}, {"head"}
    assert turns == [torso] * 3 + [head] * 2 + [torso] * 3


@pytest.mark.cases(1)
@pytest.mark.parametrize("updates_per_learn", [1, 4], ids=["single", "fused"])
def test_a_phase_is_cut_at_the_update_on_which_an_arm_ends(lab, updates_per_learn):
    settings = {"freeze": TORSO_THEN_HEAD, "updates_per_learn": updates_per_learn}
    agent = lab.used(**settings)
    updates = agent.updates
    assert moved(lab, agent, 2) == {"torso"}
    assert moved(lab, agent, 4) == {"torso", "head"}  # 1 + 2 + 1
    assert agent.learner.freeze.position == (0, 1)
    assert moved(lab, agent, 2) == {"torso"}
    assert moved(lab, agent, 2) == {"head"}
    assert agent.updates == updates + 10


@pytest.mark.thorough
def test_where_a_phase_is_cut_does_not_change_a_bit(lab):
    whole, parts = (lab.filled(freeze=TORSO_THEN_HEAD) for _ in range(2))
    whole.learn(12)
    for updates in (3, 2, 1, 1, 1, 2, 2):
        parts.learn(updates)
    assert lab.same(whole.state.weights(), parts.state.weights())
    assert whole.learner.freeze.position == parts.learner.freeze.position == (0, 2)  # 12 - 2 * 5


def test_the_present_arm_is_the_live_value(lab):
    agent = lab.used(freeze=TORSO_THEN_HEAD, updates_per_learn=1)
    assert agent.hyperparameters["exempt"] == {"head"}
    agent.learn(3)
    assert agent.hyperparameters["exempt"] == {"torso"}
    assert agent.hyperparameters.source("exempt") == "schedule"


def test_an_override_holds_against_the_schedule_until_auto(lab):
    agent = lab.used(freeze=TORSO_THEN_HEAD, updates_per_learn=1)
    agent.hyperparameters["exempt"] = []
    assert moved(lab, agent, 7) == {"torso", "head"}
    assert [moved(lab, agent, 1) for _ in range(7)] == [{"torso", "head"}] * 7
    agent.hyperparameters["exempt"] = "auto"
    assert len(moved(lab, agent, 1)) == 1


def test_an_arms_length_may_be_shortened_below_what_it_has_done(lab):
    agent = lab.filled(freeze=[{"exempt": ["head"], "updates": 50}, TORSO_THEN_HEAD[1]])
    assert moved(lab, agent, 10) == {"torso"}
    agent.hyperparameters["arm_0_updates"] = 5
    assert moved(lab, agent, 2) == {"head"}
    assert moved(lab, agent, 5) == {"torso"}


@pytest.mark.parametrize(
    "exempt", [["tors"], ["torso", "head"], ["value"]], ids=["unknown", "all", "not built"]
)
def test_an_arm_of_blocks_that_cannot_be_left_alone_is_refused_when_the_agent_is_made(lab, exempt):
    with pytest.raises(RlCoreError):
        lab.agent(freeze=[{"exempt": exempt, "updates": 3}])


def test_an_arm_of_no_updates_is_refused(lab):
    with pytest.raises((ConfigError, ValueError), match="updates"):
        lab.config(freeze=[{"exempt": ["torso"], "updates": 0}])
