"""Ctrl-C as a request: the run stops at its next safe point. A second one is immediate.

Imports: nothing of ours.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class StopRequest:
    """True once somebody asked the run to stop."""

    def __init__(self) -> None:
        self._requested = False

    def __bool__(self) -> bool:
        return self._requested

    def set(self) -> None:
        self._requested = True


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Within, Ctrl-C sets the request instead of raising; the second one raises."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        if request:
            raise KeyboardInterrupt
        request.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
