"""What a run shows on the terminal: a progress bar, or plain lines where there is none.

Imports: agents.dqn, agents.runner.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from agents.dqn import DqnAgent
from agents.runner import Tick

_RECENT = 20  # episodes whose mean return is shown
_REFRESHES = 400  # of the bar, over the whole run


class Display:
    """Progress of one run.

    Args:
      agent: whose config says how long the run is.
      console: where; its width and whether it is a terminal decide the form.

    Attributes:
      recent_returns: of the last episodes.
    """

    def __init__(self, agent: DqnAgent, console: Console) -> None:
        self._agent, self._console = agent, console
        total = agent.config.env_steps
        self.recent_returns: deque[float] = deque(maxlen=_RECENT)
        self._period = max(1, total // (_REFRESHES if console.is_terminal else 10))
        self._next = self._period
        self._progress = Progress(
            TextColumn("{task.completed:,.0f} / {task.total:,.0f} env steps"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[speed]:,.0f}/s"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
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

    def tick(self, tick: Tick, env_steps_per_second: float) -> None:
        self.recent_returns.extend(e.episode_return for e in tick.episodes)
        if tick.env_step < self._next:
            return
        self._next = (tick.env_step // self._period + 1) * self._period
        state = self._state()
        self._progress.update(
            self._task, completed=tick.env_step, speed=env_steps_per_second, state=state
        )
        if not self._console.is_terminal:
            self.line(f"env step {tick.env_step:,}: {state}")

    def line(self, text: str) -> None:
        """A line that stays, above the bar."""
        self._progress.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _state(self) -> str:
        recent = f"{np.mean(self.recent_returns):,.1f}" if self.recent_returns else "-"
        epsilon = self._agent.hyperparameters["epsilon"]
        return f"return {recent}, epsilon {epsilon:.2f}"
