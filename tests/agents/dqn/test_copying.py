"""What one member has learned is copied to another one: in the graph, and through arrays."""

import numpy as np
import pytest

from targetnet.rl_core.errors import ScopeMismatch
from tests.agents.dqn.several import KINDS, configs, made, train
from tests.agents.dqn.test_population import batcher, loop, population

pytestmark = pytest.mark.usefixtures("own_agents")


def same(one, other):
    assert one.keys() == other.keys() and one
    return [name for name in one if not np.array_equal(one[name], other[name])]


def rows(agent):
    return {
        name: np.array(column)
        for name, column in agent.state.contents.time_steps(
            0, agent.state.contents.written()
        ).items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "averaging",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "averaging"),
    ],
)
def test_a_member_takes_over_what_another_has_learned_and_nothing_else(kind):
    all_of = population(configs(kind, past_states=1))
    giver, taker = all_of.members
    train(giver)
    train(taker, 17)
    given, before = giver.state.learned.read(), taker.state.read()
    own_rows, of_giver = rows(taker), giver.state.digest()
    operations = len(giver.engine.graph.get_operations())
    all_of.copy(giver, taker)
    after = taker.state.read()
    assert same(taker.state.learned.read(), given) == []
    # Weights, their older and averaged copies, the optimizer's slots and powers, the target's age.
    names, slot = [*given], {"sgd": "SGD", "rmsprop": "RMSProp"}.get(kind, "Adam")
    # Of a chain with a shared torso the targets are heads alone.
    for part in ("online/torso", "target/", slot, f"{slot}_1", "beta1_power", "target_age"):
        assert any(part in name for name in names), part
    changed = {
        n for n in after.variables if not np.array_equal(after.variables[n], before.variables[n])
    }
    assert changed and changed <= given.keys()
    assert "counters/updates" not in given and taker.updates != giver.updates
    assert after.host == before.host and same(rows(taker), own_rows) == []
    assert giver.state.digest() == of_giver
    assert taker.learner.target_age == giver.learner.target_age
    assert len(giver.engine.graph.get_operations()) == operations
    # From there on it is an agent that was given the same arrays.
    alone = made(configs(kind, past_states=1)[1])
    train(alone, 17)
    alone.state.learned.replace(given)
    np.testing.assert_array_equal(train(alone, 13), train(taker, 13))
    assert alone.state.digest() == taker.state.digest()
    alone.close()
    all_of.close()


@pytest.mark.slow  # it compiles
def test_so_does_one_that_learns_jointly():
    """Moments are in their packed form then, and a time step waits to be stored."""
    several = batcher(past_states=1)
    all_of = population(several)
    giver, taker = all_of.members
    assert giver.batched is not None
    loop(giver)
    loop(taker, 17)
    given = giver.state.learned.read()
    loop(giver, 2)  # ends with a time step that waits
    all_of.copy(giver, taker)
    assert same(giver.state.learned.read(), taker.state.learned.read()) == []
    alone = made(several[1])
    loop(alone, 17)
    alone.state.learned.replace(giver.state.learned.read())
    np.testing.assert_array_equal(loop(alone), loop(taker))
    assert alone.state.digest() == taker.state.digest()
    assert same(given, taker.state.learned.read()) != []
    alone.close()
    all_of.close()


@pytest.mark.thorough
def test_what_a_member_took_over_is_undone_by_a_rewind():
    all_of = population(configs("scalar", past_states=2))
    giver, taker = all_of.members
    train(giver)
    train(taker, 17)
    before = taker.state.learned.read()
    taker.state.snapshot()
    all_of.copy(giver, taker)
    taker.state.rewind()
    assert same(taker.state.learned.read(), before) == []
    all_of.close()


def test_what_another_kind_of_agent_has_learned_is_refused(lab):
    one, other = lab.agent(), lab.agent(hidden=(9,))
    learned = one.state.learned.read()
    with pytest.raises(ScopeMismatch, match=r"online/torso/.* should be"):
        other.state.learned.replace(learned)
    digest = one.state.digest()
    with pytest.raises(ScopeMismatch, match="counters/updates"):
        one.state.learned.replace(learned | {"counters/updates": np.int64(3)})
    del learned["counters/target_age"]
    with pytest.raises(ScopeMismatch, match="counters/target_age"):
        one.state.learned.replace(learned)
    assert one.state.digest() == digest
