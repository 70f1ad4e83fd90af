"""A sink that hands points to another package's store, in a thread of its own.

A store keeps its own record of what it was given. When a run begins or goes on, the outbox asks the
store for that record and compares it with the run's event files: points that the store lacks are
sent, and points that it has already are not sent again. So a kill at any moment neither doubles nor
loses a point, and the training loop never waits for a store.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from targetnet.agents.sinks.interface import failures_of
from targetnet.rl_core.board.read_events import EventPoints, read_scalars
from targetnet.rl_core.files import RetryLater

_PERIOD = 1.0  # seconds between two deliveries
_LONGEST_PAUSE = 30.0  # seconds between two attempts while the store fails
_CLOSE_SECONDS = 30.0  # longest wait for the last delivery
_MOST_ROWS = 500  # in one delivery
_MOST_WAITING = 200_000  # rows in memory while the store fails; then the oldest go


class Store(Protocol):
    """One run's place in another package's storage. All calls come from one thread.

    Attributes:
      place: where the points go, for the terminal.
    """

    place: str

    def known(self) -> Iterable[tuple[str, int]]:
        """Gives tag and env step of every point that is there; called once, first of all."""

    def send(self, rows: Sequence[EventPoints]) -> None:
        """Stores points. After an exception the same rows come again."""

    def close(self, finished: bool) -> None:
        """Ends the run there; `finished` is False if it was stopped and may go on."""


class OutboxCloser:
    """The end of a run, for all its outboxes: they deliver the rest side by side.

    It begins when the first one is closed; nothing is reported to any of them after that.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._deadline = 0.0

    def begin(self) -> None:
        if not self.begun.is_set():
            self._deadline = time.monotonic() + _CLOSE_SECONDS
            self.begun.set()

    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


class Outbox:
    """A MetricSink in front of a store: takes scalars and the result, and no histogram or text.

    Args:
      name: of the store, for lines on the terminal.
      open_store: makes the store; called in the outbox's thread, again if it fails.
      earlier: the run's event files and their bytes, with the points of earlier sessions.
      warn: shows one line on the terminal.
      closing: shared by the outboxes of one run.
    """

    def __init__(
        self,
        name: str,
        open_store: Callable[[], Store],
        earlier: Mapping[Path, int],
        warn: Callable[[str], None],
        closing: OutboxCloser,
    ) -> None:
        self._name, self._open, self._earlier, self._warn = name, open_store, earlier, warn
        self._rows: deque[EventPoints] = deque(maxlen=_MOST_WAITING)  # from the loop's thread
        self._batch: list[EventPoints] = []  # on its way to the store
        self._known: Counter[tuple[str, int]] = Counter()
        self._store: Store | None = None
        self._retried = RetryLater(warn)
        self._time = 0.0
        self._finished = False
        self._closing = closing
        # A daemon: a store that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name=f"sink {name}", daemon=True)
        self._thread.start()

    def scalars(self, values: Mapping[str, float], env_step: int) -> None:
        # A store may tell two points of one curve at one env step apart by their milliseconds.
        self._time = _after(self._time, time.time())
        points = {tag: float(value) for tag, value in values.items()}
        self._rows.append(EventPoints(env_step, self._time, points))

    def result(self, values: Mapping[str, float], env_step: int) -> None:
        self.scalars({f"result/{name}": value for name, value in values.items()}, env_step)
        self._finished = True

    def close(self) -> None:
        """Delivers what waits, for a bounded time."""
        self._closing.begin()
        self._thread.join(self._closing.seconds_left())
        left = len(self._rows) + len(self._batch)
        if self._thread.is_alive():
            waited = f"no answer within {_CLOSE_SECONDS:g} s"
            self._warn(f"{self._name}: {waited}, the last {left:,} reports are not delivered")
        elif left:
            self._warn(f"{self._name}: the last {left:,} reports could not be delivered")

    def _work(self) -> None:
        pause, last = 0.0, False
        while not last:
            last = self._closing.begun.wait(pause)
            with self._retried.attempt(), failures_of(self._name):
                self._deliver()
            longer = min(_LONGEST_PAUSE, 2 * max(pause, _PERIOD))
            pause = longer if self._retried.failing else _PERIOD
        if self._store is not None:
            with self._retried.attempt(), failures_of(self._name):
                self._store.close(self._finished)

    def _deliver(self) -> None:
        if self._store is None:
            self._store = self._begin()
        while self._batch or self._rows:
            # Kept until it is delivered: each point is compared with the known ones only once.
            self._batch = self._batch or self._unknown(self._taken())
            self._store.send(self._batch)
            self._batch = []

    def _begin(self) -> Store:
        """Opens the store and sends it the points of earlier sessions that it lacks."""
        store = self._open()
        self._known = Counter(store.known())
        points, earlier = 0, self._of_earlier_sessions()
        while rows := list(itertools.islice(earlier, _MOST_ROWS)):
            lacking = self._unknown(rows)
            store.send(lacking)
            points += sum(len(row.values) for row in lacking)
        if points:
            self._warn(f"{self._name}: {points:,} earlier points were missing there and are sent")
        self._warn(f"{self._name}: {store.place}")
        return store

    def _of_earlier_sessions(self) -> Iterator[EventPoints]:
        moment = 0.0
        for path, size in sorted(self._earlier.items()):
            for row in read_scalars(path, most=size):
                moment = _after(moment, row.time)
                yield row._replace(time=moment)

    def _taken(self) -> list[EventPoints]:
        return [self._rows.popleft() for _ in range(min(len(self._rows), _MOST_ROWS))]

    def _unknown(self, rows: Iterable[EventPoints]) -> list[EventPoints]:
        """Leaves out the points that the store has; each of its points counts once."""
        found = []
        for row in rows:
            new = {t: v for t, v in row.values.items() if not self._is_known(t, row.env_step)}
            if new:
                found.append(row._replace(values=new))
        return found

    def _is_known(self, tag: str, env_step: int) -> bool:
        if self._known[tag, env_step] <= 0:
            return False
        self._known[tag, env_step] -= 1
        return True


def _after(before: float, moment: float) -> float:
    """Returns `moment`, or what is a millisecond after `before` if that is later; in seconds."""
    # In whole milliseconds: a sum of floats may be rounded to the millisecond before.
    return max(round(1_000 * moment), round(1_000 * before) + 1) / 1_000
