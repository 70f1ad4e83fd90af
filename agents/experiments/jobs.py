"""Runs many processes, a few at a time, and shows progress; Ctrl-C lets them save."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from targetnet.agents.cluster.process import last_line
from targetnet.agents.cluster.tree import JobInputs
from targetnet.agents.experiments.places import HERE, Place
from targetnet.agents.run.process import stop_on_interrupt
from targetnet.rl_core.console import say
from targetnet.rl_core.errors import RlCoreError, in_one_line

_FAILED = 1
# Exit codes of a command that a signal ended, and that has saved.
_SAVED_BY_SIGNAL = 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP
_LOOK_SECONDS = 0.1
_WATCH_SECONDS = 0.5  # between two looks at what a child has written
_REFRESH_SECONDS = 0.5  # between two queries of the jobs' progress

Progressed = tuple[int, int]  # (env steps done, env steps in all)


@dataclass(frozen=True)
class Job:
    """One process.

    Attributes:
      name: name on the screen.
      command: program and arguments.
      log: file to which the process's output is appended.
      progress: returns the child's progress; None while it is unknown.
      finish: called once the child has ended well, or had done enough; returns a line for the
        screen, or "". An RlCoreError that it raises is the job's failure.
      fail: called with one line once the child has failed; returns False if that is no failure
        of the whole.
      enough: says whether the child has done enough; it then gets a SIGINT and may save.
      tries: how often it is begun, if a signal ends it that nobody here has sent.
      portable: what it needs to run on another machine; None keeps it on this one.
    """

    name: str
    command: list[str]
    log: Path
    progress: Callable[[], Progressed | None] = lambda: None
    finish: Callable[[], str | None] = lambda: None
    fail: Callable[[str], bool] = lambda line: True
    enough: Callable[[], bool] = lambda: False
    tries: int = 1
    portable: JobInputs | None = None


@dataclass
class JobOutcome:
    """Outcome of some jobs.

    Attributes:
      failed: one line for each job that failed.
      signal: SIGINT, SIGTERM or SIGHUP if that signal ended the jobs early, else 0.
    """

    failed: list[str] = field(default_factory=list)
    signal: int = 0

    @property
    def exit_code(self) -> int:
        """Exit code of the command."""
        if self.signal:
            return 128 + self.signal
        return _FAILED if self.failed else 0


def run_jobs(
    jobs: Iterable[Job | None],
    at_once: int,
    console: Console,
    *,
    total: int | None = None,
    title: Callable[[], str] = lambda: "all",
    place: Place = HERE,
) -> JobOutcome:
    """Runs all jobs, at most `at_once` at a time; a failed job does not stop the others.

    At the first Ctrl-C, SIGTERM or SIGHUP each child gets one SIGINT and may save; at the second
    all children are killed. If this process is killed, each child gets a SIGINT too.

    Args:
      jobs: each is taken once there is room for it. None says that no further one can begin yet:
        they are asked again after another has ended.
      total: their number, if `jobs` has no length.
      title: name of the bar of all jobs.
      place: where they run.

    Raises:
      RlCoreError: a child cannot be started, or `jobs` raises it; the other children are killed.
      KeyboardInterrupt: the second Ctrl-C.
    """
    ended, source = JobOutcome(), _Source(jobs)
    if total is None:
        assert isinstance(jobs, Sequence)
        total = len(jobs)
    running: list[_RunningJob] = []
    with stop_on_interrupt() as stop, _JobsDisplay(total, console, title) as display:
        try:
            while running or (source.has_more and not stop):
                while len(running) < at_once and not stop and (job := source.take()) is not None:
                    running.append(_RunningJob(job, place, display.line))
                if stop and not ended.signal:
                    ended.signal = stop.signal
                    display.line(f"stopping: {len(running)} at work; waiting until they have saved")
                    for child in running:
                        child.process.interrupt()
                for child in [child for child in running if child.process.poll() is not None]:
                    running.remove(child)
                    if not stop and child.may_be_tried_again():
                        display.line(f"{child.failure()}; begun again", style="yellow")
                        running.append(_RunningJob(child.job, place, display.line, child.tries + 1))
                        continue
                    _take_end_of(child, ended, display)
                    source.ask_again()
                for child in running:
                    child.watch()
                display.update({child.job.name: child.job.progress for child in running})
                time.sleep(_LOOK_SECONDS)
            ended.signal = stop.signal
        finally:
            for child in running:
                child.process.kill()
            for child in running:
                child.process.wait()
    return ended


def _take_end_of(child: _RunningJob, ended: JobOutcome, display: _JobsDisplay) -> None:
    job, name = child.job, child.job.name
    if child.process.poll() == 0 or child.had_enough:
        try:
            said = job.finish()
        except RlCoreError as error:  # what it left cannot be used
            line, failed = f"{name} failed: {error}", True
        else:
            display.ended(name, said or ("" if display.has_bars else f"{name} done"))
            return
    elif ended.signal:
        display.gone(name)
        return
    else:
        line = child.failure()
        failed = job.fail(line)
    display.ended(name)
    if failed:
        ended.failed.append(line)
    display.line(line, style="red")


class _Source:
    """The jobs that are still to be begun."""

    def __init__(self, jobs: Iterable[Job | None]) -> None:
        self._jobs: Iterator[Job | None] = iter(jobs)
        self._may_ask, self.has_more = True, True

    def take(self) -> Job | None:
        """Returns the next job; None if none can begin now."""
        if not self._may_ask or not self.has_more:
            return None
        try:
            job = next(self._jobs)
        except StopIteration:
            self.has_more = False
            return None
        self._may_ask = job is not None
        return job

    def ask_again(self) -> None:
        self._may_ask = True


class _RunningJob:
    """Running job."""

    def __init__(self, job: Job, place: Place, say: Callable[[str], None], tries: int = 1) -> None:
        self.job, self.had_enough, self.tries = job, False, tries
        self._next = 0.0
        # Only this machine takes what cannot leave it.
        where = HERE if job.portable is None else place
        self.process = where.start(job.name, job.command, job.log, job.portable, say)

    def watch(self) -> None:
        """Ends the child if it has done enough."""
        if self.had_enough or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _WATCH_SECONDS
        if self.job.enough():
            self.had_enough = True
            self.process.interrupt()

    def may_be_tried_again(self) -> bool:
        """Says whether a signal has ended it, though it had not done enough."""
        code = self.process.poll()
        by_signal = code is not None and (code < 0 or code in _SAVED_BY_SIGNAL)
        return by_signal and not self.had_enough and self.tries < self.job.tries

    def failure(self) -> str:
        """Returns one line: how it ended, the last line of output, the log's path."""
        last = last_line(self.job.log)
        words = f": {in_one_line(last)}" if last else ""
        return f"{self.job.name} failed ({self.process.how}){words}; log: {self.job.log}"


class _JobsDisplay:
    """Progress bars for all jobs and for each child; plain lines without a terminal.

    Args:
      jobs: their number.
      title: returns the name of the bar of all jobs.

    Attributes:
      has_bars: whether there is a terminal.
    """

    def __init__(
        self, jobs: int, console: Console, title: Callable[[], str] = lambda: "all"
    ) -> None:
        self.has_bars = console.is_terminal
        self._jobs, self._done, self._title = jobs, 0, title
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not self.has_bars,
        )
        self._all = self._progress.add_task(title(), total=jobs, count=f"0 / {jobs}")
        self._tasks: dict[str, TaskID] = {}
        self._next = 0.0

    def __enter__(self) -> _JobsDisplay:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def line(self, text: str, style: str = "") -> None:
        say(self._progress.console, text, style)

    def ended(self, name: str, line: str = "") -> None:
        """Counts a job that has ended, and removes its bar.

        Args:
          line: for the screen; none is shown if it is empty.
        """
        self.gone(name)
        self._done += 1
        count = f"{self._done} / {self._jobs}"
        self._progress.update(
            self._all, completed=self._done, count=count, description=self._title()
        )
        if line:
            self.line(f"{line} ({count})")

    def gone(self, name: str) -> None:
        """Removes the bar of a job that was interrupted."""
        if name in self._tasks:
            self._progress.remove_task(self._tasks.pop(name))

    def update(self, running: Mapping[str, Callable[[], Progressed | None]]) -> None:
        """Updates the bars, at most once per _REFRESH_SECONDS.

        Args:
          running: name of each job at work, and what returns its progress.
        """
        if self.has_bars and time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH_SECONDS
            for name, progress in running.items():
                done, total = progress() or (0, 0)
                count = f"{done:,} / {total:,} env steps" if total else ""
                self._progress.update(
                    self._task(name), completed=done, total=total or None, count=count
                )

    def _task(self, name: str) -> TaskID:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=None, count="")
        return self._tasks[name]
