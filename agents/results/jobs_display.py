"""Progress of many jobs on the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from targetnet.rl_core.console import say

_REFRESH_SECONDS = 0.5  # between two queries of the jobs' progress

Progressed = tuple[int, int]  # (env steps done, env steps in all)


class JobsDisplay:
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

    def __enter__(self) -> JobsDisplay:
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
