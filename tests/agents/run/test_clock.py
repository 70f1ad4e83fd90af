"""The clock of the training stands still during evaluations and pauses."""

import types

import pytest

from targetnet.agents.run import clock as clock_module
from targetnet.agents.run.clock import TrainingClock


@pytest.fixture
def now(monkeypatch):
    """A clock that a test moves by hand."""
    time = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(clock_module, "time", types.SimpleNamespace(perf_counter=lambda: time.now))
    return time


def test_it_counts_the_seconds_that_are_not_left_out_and_those_before_a_resume(now):
    clock = TrainingClock(before=7.0)
    now.now += 2
    with clock.stopped():
        now.now += 50
        assert clock.seconds == 9.0  # it stands still
    now.now += 1
    assert clock.seconds == 10.0  # 7 + 2 + 1


def test_a_pause_within_an_evaluation_is_left_out_once(now):
    clock = TrainingClock()
    now.now += 2
    with clock.stopped():
        now.now += 10
        with clock.stopped():
            now.now += 20
        now.now += 30
        assert clock.seconds == 2.0
    now.now += 1
    assert clock.seconds == 3.0


def test_time_until_an_exception_is_left_out_too(now):
    clock = TrainingClock()
    with pytest.raises(RuntimeError), clock.stopped():
        now.now += 50
        raise RuntimeError
    now.now += 1
    assert clock.seconds == 1.0
