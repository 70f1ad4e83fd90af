"""Whose turn it is: arms that follow each other, cut phases, lengths changed while running."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targetnet.rl_core import Arm, FreezeSchedule

HEAD, TORSO = frozenset({"head"}), frozenset({"torso"})


def schedule(*lengths):
    """Arms 0, 1, ... of these lengths; arm i leaves block i alone."""
    return FreezeSchedule([Arm(frozenset({str(i)}), n) for i, n in enumerate(lengths)])


def turns(phases):
    """One arm number per update."""
    return [int(*exempt) for exempt, count in phases for _ in range(count)]


def test_a_phase_is_cut_where_an_arm_ends():
    arms = FreezeSchedule([Arm(TORSO, 5), Arm(HEAD, 3)])
    assert list(arms.phases(4)) == [(TORSO, 4)]
    assert list(arms.phases(4)) == [(TORSO, 1), (HEAD, 3)]  # ends with the arm
    assert list(arms.phases(18)) == [(TORSO, 5), (HEAD, 3), (TORSO, 5), (HEAD, 3), (TORSO, 2)]
    assert list(arms.phases(3)) == [(TORSO, 3)]


def test_no_phase_is_empty_and_together_they_are_what_was_asked_for():
    arms = schedule(1, 2)
    phases = list(arms.phases(100))
    assert all(count >= 1 for _, count in phases)
    assert sum(count for _, count in phases) == 100
    assert list(arms.phases(0)) == []


def test_the_position_is_the_arm_and_the_updates_done_in_it():
    arms = schedule(5, 3)
    assert arms.position == (0, 0)
    list(arms.phases(4))
    assert arms.position == (0, 4) and (arms.arm, arms.exempt) == (0, {"0"})
    list(arms.phases(3))
    assert arms.position == (1, 2) and (arms.arm, arms.exempt) == (1, {"1"})


def test_arm_and_exempt_tell_of_the_next_update():
    arms = schedule(2, 1)
    seen = []
    for _ in range(7):
        told = (arms.arm, arms.exempt)
        ((exempt, count),) = arms.phases(1)
        assert told == (int(*exempt), exempt) and count == 1
        seen.append(told[0])
    assert seen == [0, 0, 1, 0, 0, 1, 0]


def test_a_position_taken_up_again_goes_on_where_it_was():
    for done in range(20):
        one, other = schedule(5, 3, 1), schedule(5, 3, 1)
        list(one.phases(done))
        other.position = one.position
        assert turns(one.phases(20)) == turns(other.phases(20))


def test_phases_move_on_only_as_they_are_taken():
    arms = schedule(2, 2)
    phases = arms.phases(10)
    assert arms.position == (0, 0)
    next(phases)
    assert arms.arm == 1  # the first arm is done, and no more


def test_a_length_changed_while_running_holds_from_the_present_turn_on():
    arms = schedule(5, 5)
    assert turns(arms.phases(2)) == [0, 0]
    arms.set_length(0, 3)
    assert turns(arms.phases(3)) == [0, 1, 1]
    arms.set_length(1, 6)
    assert turns(arms.phases(5)) == [1, 1, 1, 1, 0]


def test_an_arm_already_older_than_its_new_length_ends_now():
    arms = schedule(10, 2)
    list(arms.phases(7))
    arms.set_length(0, 4)
    assert (arms.arm, arms.exempt) == (1, {"1"})
    assert turns(arms.phases(7)) == [1, 1, 0, 0, 0, 0, 1]


def test_a_length_changed_between_the_parts_of_a_phase_holds_for_the_rest_of_it():
    arms = schedule(2, 2)
    seen = []
    for exempt, count in arms.phases(9):
        seen.append((int(*exempt), count))
        arms.set_length(1, 3)
    assert seen == [(0, 2), (1, 3), (0, 2), (1, 2)]


def test_the_length_of_an_arm_that_waits_holds_at_its_turn():
    arms = schedule(2, 2)
    arms.set_length(1, 1)
    assert turns(arms.phases(6)) == [0, 0, 1, 0, 0, 1]


def test_one_arm_holds_for_ever_and_is_never_cut():
    arms = FreezeSchedule.constant({"torso"})
    assert list(arms.phases(1_000)) == [(TORSO, 1_000)]
    assert list(arms.phases(1)) == [(TORSO, 1)]
    assert arms.exempt == TORSO and arms.arm == 0
    assert FreezeSchedule.constant().exempt == frozenset()


def test_as_a_hyperparameter_its_value_is_the_present_exempt_set_at_any_env_step():
    arms = schedule(1, 1)
    assert arms.value_at(0) == arms.value_at(10_000) == {"0"}
    list(arms.phases(1))
    assert arms.value_at(0) == {"1"}


def test_an_exempt_set_may_be_given_as_any_collection():
    assert Arm(["head", "torso", "head"], 1).exempt == frozenset({"head", "torso"})


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    parts=st.lists(st.integers(1, 10), min_size=1, max_size=12),
    start=st.integers(0, 30),
)
def test_phases_of_any_size_give_the_same_turns_as_phases_of_one(lengths, parts, start):
    whole, cut, single = schedule(*lengths), schedule(*lengths), schedule(*lengths)
    for arms in (whole, cut, single):
        list(arms.phases(start))
    total = sum(parts)
    one_by_one = [turn for _ in range(total) for turn in turns(single.phases(1))]
    assert turns(whole.phases(total)) == one_by_one
    assert [turn for part in parts for turn in turns(cut.phases(part))] == one_by_one
    assert whole.arm == cut.arm == single.arm
    # and the obvious twin: every arm as often as it is long, round and round
    round_ = [arm for arm, length in enumerate(lengths) for _ in range(length)]
    wanted = list(itertools.islice(itertools.cycle(round_), start, start + total))
    assert one_by_one == wanted


@given(
    lengths=st.lists(st.integers(1, 6), min_size=2, max_size=3),
    moves=st.lists(st.tuples(st.integers(1, 7), st.integers(0, 1), st.integers(1, 6)), max_size=8),
)
def test_phases_and_single_updates_agree_also_when_lengths_change(lengths, moves):
    whole, single = schedule(*lengths), schedule(*lengths)
    for updates, arm, length in moves:
        assert turns(whole.phases(updates)) == [
            turn for _ in range(updates) for turn in turns(single.phases(1))
        ]
        whole.set_length(arm, length)
        single.set_length(arm, length)
        assert (whole.arm, whole.exempt) == (single.arm, single.exempt)


@pytest.mark.parametrize("length", [0, -1, 1.5, 2.0, True, "3", None])
def test_a_length_that_is_no_number_of_updates_is_refused(length):
    words = f"whole number of updates >= 1, got {length!r}"
    with pytest.raises(ValueError, match=words):
        Arm(HEAD, length)
    arms = schedule(2, 2)
    with pytest.raises(ValueError, match=words):
        arms.set_length(0, length)
    assert turns(arms.phases(4)) == [0, 0, 1, 1]  # as if never asked


def test_a_schedule_without_arms_is_refused():
    with pytest.raises(ValueError, match="at least one arm"):
        FreezeSchedule([])


def test_its_text_has_each_arm_and_how_long_it_lasts():
    assert str(FreezeSchedule([Arm(HEAD, 5_000), Arm(HEAD | TORSO, 3)])) == (
        "head for 5,000, head+torso for 3 updates"
    )
    assert str(FreezeSchedule.constant(HEAD)) == "head"
    assert str(FreezeSchedule.constant()) == "none"
