"""Child processes: how many at once, what they get, and how one fails."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from targetnet.agents.cluster.nodes import NoNodeLeft
from targetnet.agents.cluster.process import last_line
from targetnet.agents.cluster.tree import JobInputs
from targetnet.agents.experiments.jobs import Job, run_jobs
from targetnet.rl_core.errors import RlCoreError

QUIET = Console(quiet=True)


@pytest.fixture
def job(tmp_path):
    def job(name, code):
        return Job(name, [sys.executable, "-c", code], tmp_path / "logs" / f"{name}.log")

    return job


@pytest.mark.thorough
def test_at_most_so_many_are_at_work_at_once_and_all_get_their_turn(tmp_path, job):
    code = """
import pathlib, sys, time
here = pathlib.Path({place!r})
(here / {name!r}).touch()
time.sleep(0.2)
print(len(list(here.iterdir())))
(here / {name!r}).unlink()
"""
    place = tmp_path / "at work"
    place.mkdir()
    jobs = [job(name, code.format(place=str(place), name=name)) for name in "abcde"]
    ended = run_jobs(jobs, 2, QUIET)
    assert (ended.failed, ended.signal) == ([], 0)
    assert {int(last_line(job.log)) for job in jobs} <= {1, 2}


def test_a_child_that_fails_is_one_line_and_the_others_go_on(job, capsys):
    jobs = [job("bad", "print('well'); raise SystemExit('no\\n such env\\n\\n')"), job("good", "")]
    ended = run_jobs(jobs, 1, Console(width=40))
    line = f"bad failed (exit code 1): such env; log: {jobs[0].log}"
    assert ended.failed == [line]
    assert capsys.readouterr().out.splitlines() == [line, "good done (2 / 2)"]


def test_a_child_that_was_killed_says_by_which_signal(job):
    (line,) = run_jobs([job("killed", "import os; os.kill(os.getpid(), 9)")], 1, QUIET).failed
    assert line.startswith("killed failed (signal 9); log: ")


KILLED_TWICE = """
import os, pathlib
place = pathlib.Path({place!r})
times = len(list(place.iterdir()))
(place / str(times)).touch()
if times < 2:
    os.kill(os.getpid(), {signal})
"""


@pytest.mark.cases(2)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(("tries", "failed"), [(3, 0), (2, 1), (1, 1)])
def test_a_child_that_a_signal_ended_is_begun_again(job, tmp_path, capsys, number, tries, failed):
    place = tmp_path / "times"
    place.mkdir()
    once = job("killed", KILLED_TWICE.format(place=str(place), signal=int(number)))
    ended = run_jobs([replace(once, tries=tries)], 1, Console(width=200))
    assert len(ended.failed) == failed
    assert len(list(place.iterdir())) == tries
    said = capsys.readouterr().out
    assert said.count("begun again") == tries - 1
    assert f"killed failed (signal {int(number)})" in said


def test_a_log_is_gone_on_with(job):
    for word in ("first", "second"):
        run_jobs([job("one", f"print({word!r})")], 1, QUIET)
    assert job("one", "").log.read_text().split() == ["first", "second"]


def test_a_program_that_is_not_there_is_one_line(tmp_path):
    missing = Job("gone", [str(tmp_path / "no-program")], tmp_path / "log")
    with pytest.raises(RlCoreError, match=r"cannot start gone: .*no-program: No such file"):
        run_jobs([missing], 1, QUIET)


def test_the_terminal_shows_a_bar_for_each_child(tmp_path, capsys):
    code = "import time; time.sleep(0.5)"
    job = Job("a", [sys.executable, "-c", code], tmp_path / "log", lambda: (250, 1_000))
    run_jobs([job], 1, Console(force_terminal=True, width=100))
    out = capsys.readouterr().out
    assert "250 / 1,000 env steps" in out and "0 / 1" in out


def test_the_last_line_of_a_log_is_the_last_that_says_anything(tmp_path):
    (tmp_path / "log").write_text("x" * 10_000 + "\nlast\n\n  \n")
    assert last_line(tmp_path / "log") == "last"
    assert last_line(tmp_path / "none") == ""


def test_a_job_that_cannot_begin_yet_is_asked_for_again_once_another_has_ended(job):
    tape = []

    def jobs():
        tape.append("a")
        yield job("a", "")
        while "a ended" not in tape:
            tape.append("not yet")
            yield None
        tape.append("b")
        yield job("b", "")

    first = jobs()
    of_a = next(first)

    def with_end():
        yield Job(of_a.name, of_a.command, of_a.log, finish=lambda: tape.append("a ended"))
        yield from first

    ended = run_jobs(with_end(), 2, QUIET, total=2)
    assert ended.failed == []
    assert tape == ["a", "not yet", "a ended", "b"]


def test_a_child_that_has_done_enough_is_interrupted_and_counts_as_ended_well(tmp_path, capsys):
    code = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(130))\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "time.sleep(60)"
    )
    begun = tmp_path / "begun"
    command = [sys.executable, "-c", code, str(begun)]
    asked = []

    def enough():
        asked.append(begun.exists())
        return asked[-1]

    job = Job("a", command, tmp_path / "log", finish=lambda: "a had enough", enough=enough)
    ended = run_jobs([job], 1, Console(width=80))
    assert (ended.failed, ended.signal) == ([], 0)
    assert capsys.readouterr().out == "a had enough (1 / 1)\n"
    assert asked.count(True) == 1  # nobody is interrupted twice


def test_a_failure_may_be_no_failure_of_the_whole(tmp_path, capsys):
    said = []

    def fail(line):
        said.append(line)
        return False

    job = Job("a", [sys.executable, "-c", "raise SystemExit('no')"], tmp_path / "log", fail=fail)
    assert run_jobs([job], 1, Console(width=200)).failed == []
    assert said == capsys.readouterr().out.splitlines() != []


def test_children_are_interrupted_if_their_parent_is_killed(tmp_path):
    child = (
        "import os, pathlib, signal, sys, time\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "def end(*_):\n"
        "    (here / 'interrupted').touch()\n"
        "    sys.exit(130)\n"
        "signal.signal(signal.SIGINT, end)\n"
        "(here / 'begun').touch()\n"
        "time.sleep(60)"
    )
    parent = (
        "import sys; from pathlib import Path; from rich.console import Console\n"
        "from targetnet.agents.experiments.jobs import Job, run_jobs\n"
        f"run_jobs([Job('a', [sys.executable, '-c', {child!r}, sys.argv[1]], "
        "Path(sys.argv[1]) / 'log')], 1, Console())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    _wait_for(tmp_path / "begun")
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait_for(tmp_path / "interrupted")


def _wait_for(path):
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class NowhereLeft:
    """A place that ends: the last node for its jobs has a fault."""

    def __init__(self):
        self.tape = []

    def start(self, name, *_):
        return Nowhere(name, self.tape)


class Nowhere:
    how = ""

    def __init__(self, name, tape):
        self._name, self._tape = name, tape

    def poll(self):
        if self._name == "first":
            return None
        raise NoNodeLeft("no node of the Ray cluster can be used any more: one: it is full")

    def kill(self):
        self._tape.append(f"{self._name} killed")

    def wait(self):
        pass


def test_a_place_that_ends_is_no_failure_of_its_jobs(tmp_path):
    place = NowhereLeft()

    def said(name):
        return lambda *_: place.tape.append(f"{name} ended")

    jobs = [
        Job(name, [], tmp_path / "log", finish=said(name), fail=said(name),
            portable=JobInputs(tmp_path, []))
        for name in ("first", "second")
    ]  # fmt: skip
    with pytest.raises(NoNodeLeft):
        run_jobs(jobs, 2, QUIET, place=place)
    assert place.tape == ["first killed", "second killed"]
