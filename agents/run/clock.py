"""The clock of a run's training: it stands still during evaluations and pauses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class TrainingClock:
    """Counts seconds of training.

    Args:
      before: seconds of the sessions before a resume.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._began = time.perf_counter() - before

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Leaves out the time spent within."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._began += time.perf_counter() - begin
