"""The terminal of one run, or of several at once: a bar, and lines above it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, TypeVar, cast

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.evaluation import Watch
from targetnet.agents.loops.plain import Tick
from targetnet.agents.run.process import Startup
from targetnet.rl_core.console import console_guarded, say
from targetnet.rl_core.errors import ArgumentError, quoted
from targetnet.rl_core.schedules import next_multiple

_REFRESHES = 400  # of the bar, over the whole run
_LINES = 10  # about the progress where there is no bar, over the whole run
_STATUS_SECONDS, _LINE_SECONDS = 0.5, 60.0  # between two reports on a long evaluation


# The console of a function that was given none: "auto" shows progress where a person looks on.
ConsoleChoice = Console | Literal["auto"] | None
F = TypeVar("F", bound=Callable[..., Any])


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
        raise ArgumentError(f"console must be a rich Console, 'auto' or None, got {quoted(choice)}")
    console = Console()
    # `is_terminal` alone is also true in a pipe if the user wants colors there (FORCE_COLOR).
    watched = console.is_jupyter or (console.is_terminal and console.file.isatty())
    return console if watched else Console(quiet=True)


def shows_progress(function: F) -> F:
    """Decorates a function that takes a `console`: one that cannot be written does not end it."""

    @functools.wraps(function)
    def call(*arguments: Any, console: ConsoleChoice = "auto", **named: Any) -> Any:
        chosen = console_for(console)
        with console_guarded(chosen):
            return function(*arguments, console=chosen, **named)

    return cast("F", call)


class DisplayedRun(Protocol):
    """A run whose progress is shown.

    Attributes:
      env_steps: how long it is; done: env steps so far; speed: env steps per second.
      is_compiling: whether it is in a call that takes long because it compiles.
    """

    env_steps: int
    done: int
    speed: float

    @property
    def is_compiling(self) -> bool: ...

    @property
    def mean_return(self) -> float | None:
        """Mean of the last episodes; None before the first has ended."""

    def state(self) -> str:
        """A few words on how it is."""


class Screen:
    """Shows runs; the bar is there as long as one of them, or their owner, is inside `with`.

    Args:
      console: shows it; a terminal has a bar.

    Attributes:
      console: the same.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._runs: list[DisplayedRun] = []
        self._users, self._lines = 0, 0
        self._progress = Progress(
            TextColumn("{task.completed:,.0f} / {task.total:,.0f} env steps"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[speed]:,.0f}/s"),
            _Left(),
            _State(lambda: any(run.is_compiling for run in self._runs)),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=0, speed=0.0, state="")

    def add(self, run: DisplayedRun) -> int:
        """Shows one more run; returns how many env steps may pass between two reports on it."""
        self._runs.append(run)
        self._progress.update(self._task, total=self._total)
        return max(1, run.env_steps // (_REFRESHES if self.console.is_terminal else _LINES))

    def __enter__(self) -> Screen:
        self._users += 1
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._progress.stop()

    def report(self, run: DisplayedRun) -> None:
        """Shows how far the runs are, because `run` is further now."""
        runs, state = self._runs, self._state(run)
        done, speed = sum(run.done for run in runs), sum(run.speed for run in runs)
        self._progress.update(self._task, completed=done, speed=speed, state=state)
        if self.console.is_terminal:
            return
        if len(runs) == 1:
            self.line(f"env step {done:,}: {state}")
        elif done * _LINES // self._total > self._lines:
            self._lines = done * _LINES // self._total
            self.line(f"env step {done:,} of {self._total:,} of all members: {state}")

    def line(self, text: str) -> None:
        """Shows a line that stays, above the bar; escaped, as anybody's text may be in it."""
        say(self._progress.console, text)

    @contextlib.contextmanager
    def evaluating(self, run: DisplayedRun, episodes: int) -> Iterator[Watch]:
        """Shows the progress of an evaluation, in the bar while there is one."""
        if len(self._runs) > 1:  # the others go on meanwhile
            yield lambda done, env_steps: None
            return
        if not self._progress.live.is_started:
            with evaluation_shown(self.console, episodes) as watch:
                yield watch
            return

        def show(text: str) -> None:
            self._progress.update(self._task, state=text)

        yield _watch(episodes, show, _STATUS_SECONDS)
        show(run.state())

    @property
    def _total(self) -> int:
        return sum(run.env_steps for run in self._runs)

    def _state(self, run: DisplayedRun) -> str:
        if len(self._runs) == 1:
            return run.state()
        returns = [of.mean_return for of in self._runs if of.mean_return is not None]
        if not returns:
            return f"{len(self._runs)} members"
        return f"{len(self._runs)} members, return {min(returns):,.1f} to {max(returns):,.1f}"


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


Look = Callable[[Tick], str | None]
_RECENT = 20  # episodes whose mean return is shown
_COMPILED = 1.0  # seconds: a first call that takes longer has compiled, a line says


class Display:
    """The progress of one run.

    Args:
      agent: its config says how long the run is.
      screen: shows it, perhaps among others.
      startup: shown with the first tick.
      name: begins its lines, where it is one of several.

    Attributes:
      due: env step at which the progress is shown next.
      recent_returns: of the last episodes.
      env_steps, done, speed, is_compiling: of a `targetnet.agents.run.display.DisplayedRun`.
    """

    def __init__(
        self, agent: DqnAgent, screen: Screen, startup: Startup | None = None, name: str = ""
    ) -> None:
        self._agent, self._screen, self._startup = agent, screen, startup
        self._begin_of_line = f"{name}: " if name else ""
        self._called_at: float | None = None  # while a call that may compile is made
        self.recent_returns: deque[float] = deque(maxlen=_RECENT)
        self.env_steps, self.done, self.speed = agent.config.env_steps, 0, 0.0
        self._period = self.due = screen.add(self)

    def __enter__(self) -> Display:
        self._screen.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.__exit__()

    def watched(self, ticks: Iterator[Tick], look: Look = lambda tick: None) -> Iterator[Tick]:
        """Passes the loop's ticks on; shows how long the first and the first updates took.

        Args:
          ticks: of the loop.
          look: asked for a line about each tick until it has one, or the agent learns.
        """
        # A chain and not `yield from`: later ticks are passed on without any Python.
        return itertools.chain(self._until_it_learns(ticks, look), ticks)

    def _until_it_learns(self, ticks: Iterator[Tick], look: Look) -> Iterator[Tick]:
        """Passes ticks on until the first updates: XLA compiles inside the call that makes them."""
        updates, usual, told = self._agent.updates, 0.0, None
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
            if not told and (told := look(tick)):
                self.detail(told)
            usual = seconds
            yield tick

    def tick(self, tick: Tick, speed: Callable[[int], float]) -> None:
        """Takes in one tick of the loop, and shows the progress now and then.

        Args:
          tick: the tick.
          speed: gives the env steps per second, as of an env step.
        """
        for episode in tick.episodes:
            self.recent_returns.append(episode.episode_return)
        if tick.env_step < self.due:
            return
        self.due = next_multiple(tick.env_step, self._period)
        self.done, self.speed = tick.env_step, speed(tick.env_step)
        self._screen.report(self)

    def line(self, text: str) -> None:
        """Shows a line that stays, above the bar; escaped, as anybody's text may be in it."""
        self._screen.line(f"{self._begin_of_line}{text}")

    def detail(self, text: str) -> None:
        """Shows a line about a run alone; of many it would be one too many."""
        if not self._begin_of_line:
            self.line(text)

    def evaluating(self, episodes: int) -> contextlib.AbstractContextManager[Watch]:
        """Shows the progress of an evaluation, in the bar while there is one."""
        return self._screen.evaluating(self, episodes)

    @property
    def mean_return(self) -> float | None:
        return float(np.mean(self.recent_returns)) if self.recent_returns else None

    def state(self) -> str:
        recent = "-" if self.mean_return is None else f"{self.mean_return:,.1f}"
        epsilon = self._agent.hyperparameters["epsilon"]
        return f"return {recent}, epsilon {epsilon:.2f}"

    @property
    def is_compiling(self) -> bool:
        begin = self._called_at
        return begin is not None and time.perf_counter() - begin >= _COMPILED

    def _may_learn(self) -> bool:
        config, live = self._agent.config, self._agent.hyperparameters
        return (
            config.loop == "compiled" or config.rollout > 0 or live.env_step >= config.learn_start
        )
