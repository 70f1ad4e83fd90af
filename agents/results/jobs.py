"""Runs many child processes, a few at a time, and shows progress; Ctrl-C lets them save."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from agents.run.signals import stop_on_interrupt
from rl_core.errors import RlCoreError, in_one_line

_LOOK_SECONDS = 0.1
_REFRESH_SECONDS = 0.5  # between two queries of the children's progress
_TAIL_BYTES = 4_096

Progressed = tuple[int, int]  # (env steps done, env steps in all)


@dataclass(frozen=True)
class Job:
    """One child process.

    Attributes:
      name: name on the screen.
      command: program and arguments.
      log: file to which the child's output is appended.
      progress: returns the child's progress; None while it is unknown.
      finish: called once the child has ended well.
    """

    name: str
    command: list[str]
    log: Path
    progress: Callable[[], Progressed | None] = lambda: None
    finish: Callable[[], None] = lambda: None


@dataclass
class Ended:
    """Outcome of some jobs.

    Attributes:
      failed: one line for each job that failed.
      signal: SIGINT or SIGTERM if that signal ended the jobs early, else 0.
    """

    failed: list[str] = field(default_factory=list)
    signal: int = 0


def run_jobs(jobs: Sequence[Job], at_once: int, console: Console) -> Ended:
    """Runs all jobs, at most `at_once` at a time; a failed job does not stop the others.

    At the first Ctrl-C or SIGTERM each child gets one SIGINT and may save; at the second all
    children are killed.

    Raises:
      RlCoreError: a child cannot be started; the other children are killed.
      KeyboardInterrupt: the second Ctrl-C.
    """
    ended, waiting = Ended(), deque(jobs)
    running: list[_Child] = []
    with stop_on_interrupt() as stop, _Display(len(jobs), console) as display:
        try:
            while running or (waiting and not stop):
                while waiting and len(running) < at_once and not stop:
                    running.append(_Child(waiting.popleft()))
                if stop and not ended.signal:
                    ended.signal = stop.signal
                    display.line(f"stopping: {len(running)} at work; waiting until they have saved")
                    for child in running:
                        child.process.send_signal(signal.SIGINT)
                for child in [child for child in running if child.process.poll() is not None]:
                    running.remove(child)
                    display.ended(child, interrupted=bool(ended.signal))
                    if not child.process.returncode:
                        child.job.finish()
                    elif not ended.signal:
                        ended.failed.append(child.failure())
                        display.line(ended.failed[-1], style="red")
                display.update(running)
                time.sleep(_LOOK_SECONDS)
            ended.signal = stop.signal
        finally:
            for child in running:
                child.process.kill()
                child.process.wait()
    return ended


class _Child:
    """Running job, in its own process group so that a terminal's Ctrl-C does not reach it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        try:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            with job.log.open("ab") as log:
                self.process = subprocess.Popen(
                    job.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                    env=os.environ | {"OMP_NUM_THREADS": "1"},
                )
        except OSError as error:
            where = error.filename or job.command[0]
            raise RlCoreError(f"cannot start {job.name}: {where}: {error.strerror}") from None

    def failure(self) -> str:
        """Returns one line: the exit code or signal, the last line of output, the log's path."""
        code = self.process.returncode
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        last = last_line(self.job.log)
        words = f": {in_one_line(last)}" if last else ""
        return f"{self.job.name} failed ({how}){words}; log: {self.job.log}"


class _Display:
    """Progress bars for all jobs and for each child; plain lines without a terminal."""

    def __init__(self, jobs: int, console: Console) -> None:
        self._console, self._jobs, self._done = console, jobs, 0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._all = self._progress.add_task("all", total=jobs, count=f"0 / {jobs}")
        self._tasks: dict[str, TaskID] = {}
        self._next = 0.0

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def line(self, text: str, style: str = "") -> None:
        self._progress.console.print(
            text, highlight=False, soft_wrap=True, markup=False, style=style
        )

    def ended(self, child: _Child, *, interrupted: bool) -> None:
        """Removes the bar of a child that has ended and counts it."""
        self._progress.remove_task(self._task(child))
        del self._tasks[child.job.name]
        if interrupted:
            return
        self._done += 1
        count = f"{self._done} / {self._jobs}"
        self._progress.update(self._all, completed=self._done, count=count)
        if not self._console.is_terminal and not child.process.returncode:
            self.line(f"{child.job.name} done ({count})")

    def update(self, running: Sequence[_Child]) -> None:
        """Updates the bars, at most once per _REFRESH_SECONDS."""
        if self._console.is_terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH_SECONDS
            for child in running:
                done, total = child.job.progress() or (0, 0)
                count = f"{done:,} / {total:,} env steps" if total else ""
                self._progress.update(
                    self._task(child), completed=done, total=total or None, count=count
                )

    def _task(self, child: _Child) -> TaskID:
        name = child.job.name
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=None, count="")
        return self._tasks[name]


def last_line(path: Path) -> str:
    """Returns the last line of a text file that is not empty; "" if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
