"""Several functions in one thread, each of which goes on in its turn."""

import time

import pytest

from targetnet.agents.population.scheduler import CooperativeScheduler


def test_each_goes_on_where_it_gave_its_turn():
    turns, seen = CooperativeScheduler(slice_seconds=0), []

    def member(name, rounds):
        for number in range(rounds):
            seen.append(f"{name}{number}")
            turns.give()
        return name * 2

    calls = [lambda: member("a", 3), lambda: member("b", 1), lambda: member("c", 2)]
    assert turns.all(calls) == ["aa", "bb", "cc"]
    assert seen == ["a0", "b0", "c0", "a1", "c1", "a2"]


def test_a_turn_lasts_for_a_while():
    turns, seen = CooperativeScheduler(slice_seconds=1_000), []

    def member(name):
        for _ in range(3):
            seen.append(name)
            turns.give()

    turns.all([lambda: member("a"), lambda: member("b")])
    assert seen == ["a", "a", "a", "b", "b", "b"]


def test_who_rests_holds_up_nobody_and_comes_back():
    turns, seen = CooperativeScheduler(slice_seconds=0), []

    def resting():
        turns.rest(0.5)
        seen.append("rested")

    def working():
        for _ in range(5):
            seen.append("work")
            turns.give()

    turns.all([resting, working])
    assert seen == ["work"] * 5 + ["rested"]


def test_where_all_rest_the_thread_sleeps(monkeypatch):
    slept = []
    real = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(seconds) or real(seconds))
    turns = CooperativeScheduler()
    turns.all([lambda: turns.rest(0.03), lambda: turns.rest(0.06)])
    assert 0 < len(slept) <= 4


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_if_one_raises_the_others_end_and_clean_up(error):
    turns, ended = CooperativeScheduler(slice_seconds=0), []

    def member(name):
        try:
            while True:
                turns.give()
        finally:
            turns.give()  # as a loop does that saves
            turns.rest(1_000)
            ended.append(name)

    def faulty():
        turns.give()
        raise error

    with pytest.raises(type(error)):
        turns.all([lambda: member("a"), faulty, lambda: member("b"), lambda: member("c")])
    assert sorted(ended) == ["a", "b", "c"]


def test_a_cleaning_up_that_fails_keeps_nobody_from_it():
    turns, ended = CooperativeScheduler(slice_seconds=0), []

    def member(name):
        try:
            while True:
                turns.give()
        finally:
            ended.append(name)
            raise OSError(name)

    def faulty():
        turns.give()
        raise KeyboardInterrupt

    with pytest.raises((OSError, KeyboardInterrupt)):
        turns.all([lambda: member("a"), lambda: member("b"), faulty])
    assert sorted(ended) == ["a", "b"]


def test_one_that_was_never_there_needs_no_end():
    turns, seen = CooperativeScheduler(slice_seconds=0), []

    def faulty():
        raise ValueError

    with pytest.raises(ValueError):
        turns.all([faulty, lambda: seen.append("never")])
    assert seen == []


def test_requests_of_a_kind_are_served_together_and_those_for_last_after_all_others():
    turns, served = CooperativeScheduler(), []

    def serve(numbers):
        served.append(("early", numbers))
        return [number * 2 for number in numbers]

    def serve_last(numbers):
        served.append(("last", numbers))
        return [number * 3 for number in numbers]

    def member(number):
        doubled = turns.ask(serve, number) if number < 3 else None
        return doubled, turns.ask(serve_last, number, last=True)

    calls = [lambda n=n: member(n) for n in range(1, 5)]
    assert turns.all(calls) == [(2, 3), (4, 6), (None, 9), (None, 12)]
    assert served == [("early", (1, 2)), ("last", (3, 4, 1, 2))]


def test_who_asks_waits_for_everyone_elses_turn_and_no_longer():
    """One that goes on for many turns is not waited for."""
    turns, seen = CooperativeScheduler(slice_seconds=0), []

    def asking():
        for _ in range(3):
            turns.ask(lambda requests: [seen.append("served") for _ in requests], 0, last=True)

    def working():
        for _ in range(3):
            seen.append("work")
            turns.give()

    turns.all([asking, working])
    assert seen == ["work", "served"] * 3


def test_one_that_asks_while_all_end_is_served_at_once():
    turns, served = CooperativeScheduler(), []

    def asking():
        try:
            turns.rest(60)
        finally:
            served.append(turns.ask(lambda requests: [of + 1 for of in requests], 1))

    def failing():
        raise KeyError("of mine")

    with pytest.raises(KeyError, match="of mine"):
        turns.all([asking, failing])
    assert served == [2]
