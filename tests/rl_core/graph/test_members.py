"""A member's parts: copied once each, with calls that load the member first."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

from targetnet.rl_core.graph.engine import Call
from targetnet.rl_core.graph.members import MemberRebinder
from targetnet.rl_core.graph.scopes import MemberPart


class Clock(MemberPart):
    per_member: ClassVar = {"ages": list, "known": lambda: None}

    def __init__(self):
        self.ages, self.known, self.variable = [7], 3, object()


class Learner(MemberPart):
    per_member: ClassVar = {"updates": int}

    def __init__(self, config, call):
        self.config, self.call, self.updates = config, call, 5
        self.clock = Clock()
        self.calls = {"one": call, "none": 1}


class State(MemberPart):
    def __init__(self, learner):
        self.learner, self.clock, self.plain = learner, learner.clock, {"a": [1]}
        learner.state = self  # a circle


@pytest.fixture
def tape():
    return []


@pytest.fixture
def first(tape):
    def call(values):
        tape.append("called")
        return None, call

    return State(Learner("first", Call(lambda values: (call(values), call), [], lambda made: made)))


@pytest.fixture
def rebind(first, tape):
    member = SimpleNamespace(engine=None, activate=lambda: tape.append("loaded"))
    return MemberRebinder([(first.learner.config, "second")], member)


def test_each_part_is_copied_once_and_all_that_hangs_on_it_follows(first, rebind):
    own = rebind(first)
    assert own is not first and own.learner is not first.learner
    assert own.learner.state is own and own.learner.clock is own.clock
    assert rebind(first.learner) is own.learner
    assert own.plain is first.plain  # no part, and no call in it: shared
    assert own.clock.variable is first.clock.variable


def test_a_member_begins_with_first_values_and_its_own_objects(first, rebind):
    own = rebind(first)
    assert own.learner.updates == 0 and own.clock.ages == [] and own.clock.known is None
    assert own.learner.config == "second"
    assert (first.learner.updates, first.clock.ages, first.learner.config) == (5, [7], "first")


def test_its_calls_load_it_first_and_those_of_the_first_agent_do_not(first, rebind, tape):
    own = rebind(first)
    own.learner.call()
    own.learner.calls["one"]()
    assert tape == ["loaded", "called"] * 2
    first.learner.call()
    first.learner.calls["one"]()
    assert tape[4:] == ["called"] * 2
    assert own.learner.calls["none"] == 1


def test_what_is_put_stands_in_a_parts_place(first, rebind):
    rebind.put(first.learner.clock, "another clock")
    own = rebind(first)
    assert own.clock == own.learner.clock == "another clock"


def test_a_list_of_parts_is_refused_since_all_members_would_share_them(first, rebind):
    first.plain = [first.clock]
    with pytest.raises(AssertionError):
        rebind(first)
