"""Turns Ctrl-C, SIGTERM and SIGHUP into a request: the run stops at its next safe point.

A second signal ends it at once.
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
        self.signal = 0  # the signal that asked; 0 if none has

    def __bool__(self) -> bool:
        return self.signal > 0

    def set(self, signum: int = signal.SIGINT) -> None:
        self.signal = int(signum)


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Makes the first Ctrl-C, SIGTERM or SIGHUP within set the request; the second one raises.

    A SIGHUP that is ignored, as under nohup, still is.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        if not request:
            request.set(signum)
        elif signum != signal.SIGHUP:  # the shell and the system send one each
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
