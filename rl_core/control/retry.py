"""Writing that may fail for a while, as on a full disk, and must not end the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rl_core.errors import RunDirError


class Retried:
    """Tells of a failure once, until it has worked again.

    Args:
      warn: is told, in one line.

    Attributes:
      failing: whether the last attempt failed.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self.failing = False

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Within, a RunDirError is told and goes no further; whoever writes tries again later."""
        try:
            yield
        except RunDirError as error:
            self.failed(error)
        else:
            self.failing = False

    def failed(self, error: RunDirError) -> None:
        """Tells of a failure that happened elsewhere."""
        if not self.failing:
            self._warn(f"{error}; the run goes on and will try again")
        self.failing = True
