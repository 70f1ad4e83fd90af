"""The clock of a run's training, which stands still during evaluations and pauses; its speed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

_LEAST_SECONDS = 5.0  # of which a speed says something


class TrainingClock:
    """Counts seconds of training.

    Args:
      before: seconds of the sessions before a resume.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._began = time.perf_counter() - before
        self._stopped_at: float | None = None

    @property
    def seconds(self) -> float:
        now = time.perf_counter() if self._stopped_at is None else self._stopped_at
        return now - self._began

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Leaves out the time spent within; a pause within an evaluation is a part of that."""
        if self._stopped_at is not None:
            yield
            return
        self._stopped_at = begin = time.perf_counter()
        try:
            yield
        finally:
            self._stopped_at = None
            self._began += time.perf_counter() - begin


class Speed:
    """Env steps and updates per second, from one point of their curves to the next.

    Args:
      clock: of the training.
      env_step, updates: so many were made when it begins.
    """

    def __init__(self, clock: TrainingClock, env_step: int, updates: int) -> None:
        self._clock, self._env_steps_per_second = clock, 0.0
        self._last = env_step, updates, clock.seconds

    def point(self, env_step: int, updates: int) -> tuple[float, float]:
        """Returns both since the last point; here is the next one."""
        env_step_then, updates_then, then = self._last
        self._last = env_step, updates, self._clock.seconds
        seconds = max(self._last[2] - then, 1e-9)
        self._env_steps_per_second = (env_step - env_step_then) / seconds
        return self._env_steps_per_second, (updates - updates_then) / seconds

    def at(self, env_step: int) -> float:
        """Returns the env steps per second since the last point.

        A time that is too short says nothing: then it is what that point says.
        """
        env_step_then, _, then = self._last
        seconds = self._clock.seconds - then
        if seconds < _LEAST_SECONDS:
            return self._env_steps_per_second
        return (env_step - env_step_then) / seconds
