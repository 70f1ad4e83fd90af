"""Changes of a run that are known beforehand: recorded entries, and corners of schedules."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any

from rl_core.control.log import Entry
from rl_core.hyperparameters import Hyperparameters

PBT = "pbt"  # who makes the changes of an exchange between members of a population
# Actions of such an exchange: to copy another member, and to be copied, which changes nothing.
EXCHANGES = ("copy", "lend")
# Actions that a repeat of the run applies again; the other actions do not change the training.
REPEATED_ACTIONS = ("sync", "snapshot", "rewind", *EXCHANGES)
# A resumed run also evaluates again, because an evaluation adds a point to a curve.
RESUMED_ACTIONS = (*REPEATED_ACTIONS, "evaluate")


class Timetable:
    """Entries of a log to apply again, and corners of schedules to log, each at its time.

    Args:
      live: whose schedules.
      script: entries of a log.
      repeats: True if the script is another run's log; False if it is what this run logged after
        the checkpoint from which it was resumed.

    Attributes:
      tick: of the next entry; infinity after the last one.
      env_step: of the next corner; infinity after the last one.
    """

    def __init__(self, live: Hyperparameters, script: Iterable[Entry], *, repeats: bool) -> None:
        # Sort by tick: a change made after a resume may have an earlier tick than an entry that
        # was logged before the crash.
        actions = REPEATED_ACTIONS if repeats else RESUMED_ACTIONS
        again = sorted((e for e in script if is_repeated(e, actions)), key=lambda e: e.tick)
        self._script = deque(again)
        self._corners = deque(c for c in _corners(live) if c[0] > live.env_step)
        self._look_ahead()

    @property
    def to_do(self) -> list[str]:
        """The ids of the entries that are left."""
        return [entry.id for entry in self._script]

    @property
    def values_to_set(self) -> set[str]:
        """The names of the live values that entries which are left will set."""
        return {entry.name for entry in self._script if entry.kind == "set"}

    def add(self, entries: Iterable[Entry]) -> None:
        """Adds entries of now, after all that there are."""
        self._script.extend(entries)
        self._look_ahead()

    def entries(self, tick: int, *, exchange: bool = False) -> Iterator[Entry]:
        """Yields the entries up to `tick`, each once.

        Args:
          exchange: it is time for those of an exchange too; else they are left, and with them
            what was logged after them.
        """
        while self._script and self._script[0].tick <= tick:
            if self._script[0].who == PBT and not exchange:
                break
            yield self._script.popleft()
        self._look_ahead()

    def corners(self, env_step: int) -> Iterator[tuple[int, str, Any, Any]]:
        """Yields the corners up to `env_step`, each once: env step, name, value before and here."""
        while self._corners and self._corners[0][0] <= env_step:
            yield self._corners.popleft()
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.tick = self._script[0].tick if self._script else math.inf
        self.env_step = self._corners[0][0] if self._corners else math.inf


def is_repeated(entry: Entry, actions: Collection[str] = REPEATED_ACTIONS) -> bool:
    """Returns True if a repeat of the run applies this entry; schedules act by themselves."""
    if not entry.taken or entry.who == "schedule":
        return False
    return entry.kind == "set" or (entry.kind == "do" and entry.name in actions)


def _corners(live: Hyperparameters) -> list[tuple[int, str, Any, Any]]:
    """Returns (env step, name, value at the previous corner, value here) of all schedules' corners.

    Sorted by env step.
    """
    found: list[tuple[int, str, Any, Any]] = []
    for name in live:
        schedule = live.configured(name)
        if not hasattr(schedule, "corners"):
            continue
        steps = schedule.corners()
        values = [schedule.value_at(step) for step in (0, *steps)]
        if live.knob(name).whole:
            values = [round(value) for value in values]
        found += [(step, name, *pair) for step, pair in zip(steps, pairwise(values), strict=True)]
    return sorted(found)
