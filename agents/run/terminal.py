"""The progress of one run, as its screen shows it."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.evaluation import Watch
from targetnet.agents.loops.plain import Tick
from targetnet.agents.run.quiet import Startup
from targetnet.agents.run.screen import Screen
from targetnet.rl_core.schedules import next_multiple

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
      env_steps, done, speed, is_compiling: of a `targetnet.agents.run.screen.DisplayedRun`.
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
