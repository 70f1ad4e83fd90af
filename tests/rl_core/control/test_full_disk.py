"""A disk that is full for a while: the run goes on, and nothing that was answered is lost."""

import os

import pytest

from targetnet.rl_core.control import state as state_module
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.files import RetryLater

FULL = OSError(28, "No space left on device")


@pytest.fixture
def disk(monkeypatch):
    """What is written to the log and as the state fails while `disk.full` is true."""

    class Disk:
        full = False

    write, write_whole = os.pwrite, state_module.write_whole

    def write_or_not(file, data, at):
        if Disk.full:
            raise FULL
        return write(file, data, at)

    def write_whole_or_not(path, data, **settings):
        if Disk.full:
            raise FULL
        write_whole(path, data, **settings)

    monkeypatch.setattr(os, "pwrite", write_or_not)
    monkeypatch.setattr(state_module, "write_whole", write_whole_or_not)
    return Disk


def test_a_heartbeat_that_cannot_be_written_is_one_warning(bench, disk, monkeypatch):
    monkeypatch.setattr(bench.steering._publisher, "due", lambda now: True)
    bench.move()
    disk.full = True
    bench.move(5)
    (warning,) = bench.run.warnings
    assert "state.json: No space left on device; the run goes on" in warning
    disk.full = False
    bench.move()
    disk.full = True
    bench.move(2)
    assert len(bench.run.warnings) == 2  # it had worked in between


def test_an_answer_waits_until_the_log_can_be_written(bench, disk):
    bench.move()
    bench.command(1, name="sync_period", value=50)
    disk.full = True
    bench.move(3)
    assert bench.live["sync_period"] == 50
    assert bench.log == [] and len(bench.inbox) == 1 and bench.run.entries == []
    disk.full = False
    bench.move()
    (entry,) = bench.log
    assert (entry.new, entry.tick) == (50, 2) and bench.inbox == []
    assert bench.run.entries == [entry]


def test_no_command_is_taken_while_an_answer_waits(bench, disk):
    """A client that gets no answer takes its command back, and is told that nothing changed."""
    bench.move()
    bench.command(1, name="sync_period", value=50)
    disk.full = True
    bench.move()
    bench.command(2, name="sync_period", value=60)
    bench.move(3)
    assert bench.live["sync_period"] == 50
    disk.full = False
    bench.move()
    assert bench.live["sync_period"] == 60
    assert [entry.new for entry in bench.log] == [50, 60]


def test_what_is_set_from_python_meanwhile_is_logged_later_where_it_was(bench, disk):
    bench.move(3)
    disk.full = True
    bench.live["sync_period"] = 50
    bench.move(4)
    disk.full = False
    bench.move()
    assert [(e.new, e.tick) for e in bench.log] == [(50, 3)]


def test_a_checkpoint_does_not_speak_of_a_log_that_lacks_answers(bench, disk):
    bench.move()
    disk.full = True
    bench.live["sync_period"] = 50
    with pytest.raises(RunDirError, match="No space left"):
        bench.steering.log_state()
    disk.full = False
    size = bench.files.log.stat().st_size
    state = bench.steering.log_state()
    assert state["bytes"] == bench.files.log.stat().st_size > size


def test_a_run_that_ends_with_answers_not_in_the_log_says_so(bench, disk):
    bench.move()
    disk.full = True
    bench.live["sync_period"] = 50
    with pytest.raises(RunDirError, match=r"cannot write .*log\.jsonl"):
        bench.steering.close()
    disk.full = False
    bench.steering.close()  # a second call does nothing


def test_another_error_than_of_the_disk_is_not_swallowed():
    retried = RetryLater(lambda text: None)
    with pytest.raises(ZeroDivisionError), retried.attempt():
        _ = 1 / 0
