"""Writing that must not end the run if it fails for a while, for example on a full disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from targetnet.rl_core.errors import RunDirError


class RetryLater:
    """A repeated attempt that warns of the first failure only, until an attempt succeeds.

    Args:
      warn: called with the warning, one line.

    Attributes:
      failing: True if the last attempt failed.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self.failing = False

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Turns a RunDirError inside this context into a warning; the caller tries again later."""
        try:
            yield
        except RunDirError as error:
            self.failed(error)
        else:
            self.failing = False

    def failed(self, error: RunDirError) -> None:
        """Warns of a failure that happened outside `attempt`."""
        if not self.failing:
            self._warn(f"{error}; the run goes on and will try again")
        self.failing = True
