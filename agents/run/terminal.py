"""The progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from agents.dqn.agent import DqnAgent
from agents.loops.evaluation import Watch
from agents.loops.plain import Tick
from agents.run.quiet import Startup
from rl_core.errors import ArgumentError, escaped, shown

_RECENT = 20  # episodes whose mean return is shown
_COMPILED = 1.0  # seconds: a first call that takes longer has compiled, a line says
_REFRESHES = 400  # of the bar, over the whole run
_STATUS_SECONDS, _LINE_SECONDS = 0.5, 60.0  # between two reports on a long evaluation


# The console of a function that was given none: "auto" shows progress where a person looks on.
ConsoleChoice = Console | Literal["auto"] | None


def console_for(choice: ConsoleChoice) -> Console:
    """Returns the console that shows a run's progress.

    Args:
      choice: a console; None for silence; "auto" for standard output if it is a terminal or a
        notebook, and silence elsewhere.

    Raises:
      ArgumentError: it is none of these.
    """
    if isinstance(choice, Console):
        return choice
    if choice is None:
        return Console(quiet=True)
    if choice != "auto":
        raise ArgumentError(f"console must be a rich Console, 'auto' or None, got {shown(choice)}")
    console = Console()
    # `is_terminal` alone is also true in a pipe if the user wants colors there (FORCE_COLOR).
    watched = console.is_jupyter or (console.is_terminal and console.file.isatty())
    return console if watched else Console(quiet=True)


class Display:
    """The progress of one run.

    Args:
      agent: its config says how long the run is.
      console: shows it; a terminal has a bar.
      startup: shown with the first tick.

    Attributes:
      due: env step at which the progress is shown next.
      recent_returns: of the last episodes.
    """

    def __init__(self, agent: DqnAgent, console: Console, startup: Startup | None = None) -> None:
        self._agent, self._console, self._startup = agent, console, startup
        self._called_at: float | None = None  # while a call that may compile is made
        total = agent.config.env_steps
        self.recent_returns: deque[float] = deque(maxlen=_RECENT)
        self._period = max(1, total // (_REFRESHES if console.is_terminal else 10))
        self.due = self._period
        self._progress = Progress(
            TextColumn("{task.completed:,.0f} / {task.total:,.0f} env steps"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[speed]:,.0f}/s"),
            _Left(),
            _State(self._compiling),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=total, speed=0.0, state="")

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def watched(self, ticks: Iterator[Tick]) -> Iterator[Tick]:
        """Passes the loop's ticks on; shows how long the first and the first updates took."""
        # A chain and not `yield from`: later ticks are passed on without any Python.
        return itertools.chain(self._until_it_learns(ticks), ticks)

    def _until_it_learns(self, ticks: Iterator[Tick]) -> Iterator[Tick]:
        """Passes ticks on until the first updates: XLA compiles inside the call that makes them."""
        updates, usual = self._agent.updates, 0.0
        while self._agent.updates == updates:
            begin = time.perf_counter()
            self._called_at = begin if self._may_learn() else None
            tick = next(ticks, None)
            self._called_at = None
            if tick is None:
                return
            seconds = time.perf_counter() - begin
            if self._startup:
                self.line(self._startup.describe())
                self._startup = None
            if self._agent.updates != updates and seconds - usual >= _COMPILED:
                self.line(f"compiled in {seconds - usual:.1f} s")
            if self._agent.learner.not_compiled:
                self.line(f"learning is not compiled: {self._agent.learner.not_compiled}")
            usual = seconds
            yield tick

    def tick(self, tick: Tick, env_steps_per_second: float) -> None:
        """Takes in one tick of the loop, and shows the progress now and then."""
        for episode in tick.episodes:
            self.recent_returns.append(episode.episode_return)
        if tick.env_step < self.due:
            return
        self.due = (tick.env_step // self._period + 1) * self._period
        state = self._state()
        self._progress.update(
            self._task, completed=tick.env_step, speed=env_steps_per_second, state=state
        )
        if not self._console.is_terminal:
            self.line(f"env step {tick.env_step:,}: {state}")

    def line(self, text: str) -> None:
        """Shows a line that stays, above the bar; escaped, as anybody's text may be in it."""
        self._progress.console.print(escaped(text), highlight=False, soft_wrap=True, markup=False)

    @contextlib.contextmanager
    def evaluating(self, episodes: int) -> Iterator[Watch]:
        """Shows the progress of an evaluation, in the bar while there is one."""
        if not self._progress.live.is_started:
            with evaluation_shown(self._console, episodes) as watch:
                yield watch
            return

        def show(text: str) -> None:
            self._progress.update(self._task, state=text)

        yield _watch(episodes, show, _STATUS_SECONDS)
        show(self._state())

    def _state(self) -> str:
        recent = f"{np.mean(self.recent_returns):,.1f}" if self.recent_returns else "-"
        epsilon = self._agent.hyperparameters["epsilon"]
        return f"return {recent}, epsilon {epsilon:.2f}"

    def _may_learn(self) -> bool:
        config, live = self._agent.config, self._agent.hyperparameters
        return config.loop == "compiled" or live.env_step >= config.learn_start

    def _compiling(self) -> bool:
        begin = self._called_at
        return begin is not None and time.perf_counter() - begin >= _COMPILED


@contextlib.contextmanager
def evaluation_shown(console: Console, episodes: int) -> Iterator[Watch]:
    """Yields a function that shows the progress of a long evaluation of `episodes`.

    On a terminal the progress goes away at the end; elsewhere it is a line now and then.
    """
    if not console.is_terminal:

        def line(text: str) -> None:
            console.print(text, highlight=False, soft_wrap=True)

        yield _watch(episodes, line, _LINE_SECONDS)
        return
    with console.status("evaluating") as status:
        yield _watch(episodes, status.update, _STATUS_SECONDS)


def _watch(episodes: int, show: Callable[[str], None], period: float) -> Watch:
    due = time.monotonic() + period

    def watch(done: int, env_steps: int) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + period
            show(f"evaluating: {done:,} of {episodes:,} episodes, {env_steps:,} env steps")

    return watch


class _Left(TimeRemainingColumn):
    """The time to the end of training, with a word that says so: "0:01:07 left"."""

    def render(self, task: Task) -> Text:
        return super().render(task).append(" left")


class _State(ProgressColumn):
    """The task's state, or "compiling ..." during a call that compiles.

    The progress bar renders it in a thread of its own, so also while the loop is inside a call.
    """

    def __init__(self, compiling: Callable[[], bool]) -> None:
        self._compiling = compiling
        super().__init__()

    def render(self, task: Task) -> Text:
        return Text("compiling ..." if self._compiling() else task.fields["state"])
