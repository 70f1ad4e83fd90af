"""Changes of a run that are known beforehand: recorded entries, schedules' corners and actions.

Orders hold when a run is moved to another machine: `pause` and `stop`. A person who resumes a run
wants it to go on, whatever it was told before. A run whose machine has died is resumed by nobody:
whoever moves it says so in `control/moved`, and what the run was told meanwhile still holds. It
stays paused, and ends at the time step at which it was stopped. The log has these orders already,
so nothing is logged again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from targetnet.rl_core.control.commands import WEIGHT_ACTIONS
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import Entry, read_log
from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.files import open_regular, read_regular
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.schedules import next_multiple

SCHEDULE = "schedule"  # who makes the changes that the config plans
CONTROLLER = "controller"  # who makes the changes of a controller
PBT = "pbt"  # who makes the changes of an exchange between members of a population
# Actions of such an exchange: to copy another member, and to be copied, which changes nothing.
EXCHANGES = ("copy", "lend")
_LATE = (CONTROLLER, PBT)  # they act after what is due at a time step, such as an evaluation
# Actions that a repeat of the run applies again; the other actions do not change the training.
REPEATED_ACTIONS = ("sync", "snapshot", "rewind", *WEIGHT_ACTIONS, *EXCHANGES)
# A resumed run also evaluates again, because an evaluation adds a point to a curve.
RESUMED_ACTIONS = (*REPEATED_ACTIONS, "evaluate")


class Decision(NamedTuple):
    """A change that a controller wants: as `SetCommand` or `DoCommand` has it."""

    kind: Literal["set", "do"]
    name: str
    value: Any


class PlannedAction(NamedTuple):
    """An action that the config makes again and again.

    It is made at the first safe point at which as many env steps are done as a multiple of
    `every`; once, if several multiples were passed since the last safe point.

    Attributes:
      do: one of ACTIONS; value: what follows it.
      every: env steps.
      until: last env step at which it may be due; None: the run's end.
    """

    do: str
    value: Any
    every: int
    until: int | None = None

    def last(self, env_step: int) -> int:
        """Returns the last env step up to `env_step` at which it was due; 0: none was."""
        end = env_step if self.until is None else min(env_step, self.until)
        return end // self.every * self.every

    def next(self, env_step: int) -> float:
        """Returns the first env step after `env_step` at which it is due; infinity: none is."""
        due = next_multiple(env_step, self.every)
        return due if self.until is None or due <= self.until else math.inf


class Timetable:
    """Entries of a log to apply again, corners of schedules to log, and actions of the config.

    What is due up to the present env step when this is made counts as done: a safe point, and
    after it a checkpoint, came there.

    Args:
      live: whose schedules.
      planned: the config's actions.
      script: entries of a log.
      repeats: True if the script is another run's log; False if it is what this run logged after
        the checkpoint from which it was resumed.
      orders: entries that are applied again whatever they are.

    Attributes:
      tick: of the next entry; infinity after the last one.
      env_step: of the next corner or action; infinity after the last one.
    """

    def __init__(
        self,
        live: Hyperparameters,
        script: Iterable[Entry],
        *,
        repeats: bool,
        planned: Sequence[PlannedAction] = (),
        orders: Sequence[Entry] = (),
    ) -> None:
        # Sort by tick: a change made after a resume may have an earlier tick than an entry that
        # was logged before the crash.
        actions = REPEATED_ACTIONS if repeats else RESUMED_ACTIONS
        again = [*(e for e in script if is_repeated(e, actions)), *orders]
        self._script = deque(sorted(again, key=lambda e: e.tick))
        self._corners = deque(c for c in _corners(live) if c[0] > live.env_step)
        self._live, self._planned, self._planned_to = live, planned, live.env_step
        self._look_ahead()

    @property
    def to_do(self) -> list[str]:
        """The ids of the entries that are left."""
        return [entry.id for entry in self._script]

    def add(self, entries: Iterable[Entry]) -> None:
        """Adds entries of now, after all that there are."""
        self._script.extend(entries)
        self._look_ahead()

    def entries(self, tick: int, *, late: bool = False) -> Iterator[Entry]:
        """Yields the entries up to `tick`, each once.

        Args:
          late: it is time for those of a controller or an exchange too; else they are left, and
            with them what was logged after them.
        """
        while self._script and self._script[0].tick <= tick:
            if self._script[0].who in _LATE and not late:
                break
            yield self._script.popleft()
        self._look_ahead()

    def corners(self, env_step: int) -> Iterator[tuple[str, str, Any, Any]]:
        """Yields the corners up to `env_step`, each once, but those of values that were set.

        Of each its id, the name, the value at the corner before and here.
        """
        while self._corners and self._corners[0][0] <= env_step:
            step, name, old, new = self._corners.popleft()
            if self._live.source(name) == "schedule":
                yield f"schedule-{name}-{step}", name, old, new
        self._look_ahead()

    def planned(self, env_step: int) -> Iterator[tuple[str, PlannedAction]]:
        """Yields the config's actions that are due up to `env_step`, each with an id of its own."""
        before, self._planned_to = self._planned_to, env_step
        for number, planned in enumerate(self._planned):
            if planned.next(before) <= env_step:
                yield f"schedule-{planned.do}-{number}-{planned.last(env_step)}", planned
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.tick = self._script[0].tick if self._script else math.inf
        actions = [planned.next(self._planned_to) for planned in self._planned]
        self.env_step = min([*actions, self._corners[0][0] if self._corners else math.inf])


def is_repeated(entry: Entry, actions: Collection[str] = REPEATED_ACTIONS) -> bool:
    """Returns True if a repeat of the run applies this entry; schedules act by themselves."""
    if not entry.taken or entry.who == SCHEDULE:
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


NOTE_OF_NEW = b"0"  # the content of `control/moved` for a run that begins: all its orders hold
_ORDERS = ("pause", "resume", "stop")
_MOST_BYTES = 20


class PersistentOrders(NamedTuple):
    """The orders that a run was given and that still hold.

    Attributes:
      paused: it was paused last of all.
      stops: entries of the log by which it ends at their time steps.
    """

    paused: bool = False
    stops: tuple[Entry, ...] = ()


def note_of_move(log: Path) -> bytes:
    """Returns the content of `control/moved` for a run with this log: its orders from here on hold.

    Raises:
      RunDirError: the log cannot be read.
    """
    try:
        with open_regular(log) as file:
            count = sum(line.endswith(b"\n") for line in file)
    except FileNotFoundError:
        count = 0
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {log}: {reason_of(error)}") from None
    return str(count).encode()


def standing_orders(files: ControlFiles) -> PersistentOrders:
    """Returns the orders that hold; none unless the run was moved.

    Raises:
      RunDirError: a file is damaged or cannot be read.
    """
    try:
        text = read_regular(files.moved, most=_MOST_BYTES)
    except FileNotFoundError:
        return PersistentOrders()
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {files.moved}: {reason_of(error)}") from None
    if not text.isdigit():
        raise RunDirError(f"{files.moved} is damaged: it has no number of entries")
    orders = [entry for entry in read_log(files.log)[int(text) :] if _is_order(entry)]
    return PersistentOrders(
        bool(orders) and orders[-1].name == "pause",
        tuple(entry for entry in orders if entry.name == "stop"),
    )


def _is_order(entry: Entry) -> bool:
    return entry.taken and entry.kind == "do" and entry.name in _ORDERS
