"""Steering inside the run: applies commands at safe points and logs each of them."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from rl_core.control.commands import ACTIONS, SetCommand, set_command
from rl_core.control.files import ControlFiles, RunLock, clear_leftovers, submit
from rl_core.control.inbox import Inbox, Letter
from rl_core.control.log import ControlLog, Entry
from rl_core.control.retry import Retried
from rl_core.control.state import StatePublisher, Status
from rl_core.errors import RlCoreError
from rl_core.hyperparameters import Hyperparameters, plain

_now = time.monotonic
POLL_SECONDS = 0.02  # a poll with cold caches costs 40 us
# Actions that a repeat of the run applies again; the other actions do not change the training.
REPEATED_ACTIONS = ("sync", "snapshot", "rewind")
# A resumed run also evaluates again, because an evaluation adds a point to a curve.
RESUMED_ACTIONS = (*REPEATED_ACTIONS, "evaluate")


class Refused(RlCoreError, ValueError):
    """A command that cannot be carried out now."""


class Position(NamedTuple):
    """The progress of a run."""

    tick: int  # time steps of all envs
    env_step: int
    update: int


class Due(NamedTuple):
    """The next moment with work for a safe point: whichever of the three comes first."""

    tick: float
    env_step: float
    time: float  # from time.monotonic


class Steered(Protocol):
    """A run that can be steered."""

    @property
    def position(self) -> Position:
        """The present progress; the log records it with each change."""

    def do(self, action: str, value: int | None) -> tuple[Any, Any]:
        """Runs one of ACTIONS; returns the changed value before and after.

        Raises:
          RlCoreError: the action is impossible now.
        """

    def changed(self) -> None:
        """Prepares for a live value that was just set, before anything uses the value."""

    def answered(self, entry: Entry) -> None:
        """Shows a command, taken or refused, after it was logged."""

    def report(self) -> Mapping[str, Any]:
        """Returns the fields of RunState other than position and live values."""

    def warn(self, text: str) -> None:
        """Shows one line to the user."""


class Steering:
    """The steering of one run: applies commands at safe points and logs them.

        with Steering(agent.hyperparameters, ControlFiles(run), steered) as steering:
            for tick in loop:
                steering.safe_point()

    Live values set from Python are logged like commands. A value set in the thread that made this
    object is applied at once; a value set in another thread goes through the inbox.

    On a full disk the run continues: answered commands wait until the log can be written, no
    further commands are taken, and heartbeats are skipped.

    Args:
      live: the values that may be set.
      files: the control files of an existing run directory.
      steered: the run, which carries out the actions.
      script: entries of a log, to apply again at their recorded ticks.
      repeats: True if the script is another run's log; then every other change is refused. False
        if the script is what this run logged after the checkpoint from which it was resumed.
      lock: the directory's lock, if the caller already holds it; `close` releases it.

    Attributes:
      refusal: the reason for which changes are refused now; None if changes are accepted.

    Raises:
      RunDirError: another process runs this directory, or the directory cannot be written.
    """

    def __init__(
        self,
        live: Hyperparameters,
        files: ControlFiles,
        steered: Steered,
        script: Iterable[Entry] = (),
        *,
        repeats: bool = False,
        lock: RunLock | None = None,
    ) -> None:
        self._live, self._files, self._steered = live, files, steered
        files.make()
        self._lock = lock or RunLock(files)
        clear_leftovers(files)
        self._log = ControlLog(files.log)
        self._inbox = Inbox(files)
        self._publisher = StatePublisher(files, live)
        self._unwritten: list[Entry] = []  # applied or refused, but not yet logged
        self._answered: list[Letter] = []  # the letters of these entries
        self._logging, self._publishing = Retried(steered.warn), Retried(steered.warn)
        self.refusal: str | None = "this run repeats another one" if repeats else None
        # Sort by tick: a change made after a resume may have an earlier tick than an entry that
        # was logged before the crash.
        actions = REPEATED_ACTIONS if repeats else RESUMED_ACTIONS
        again = sorted((e for e in script if is_repeated(e, actions)), key=lambda e: e.tick)
        self._script = deque(again)
        self._script_tick = self._script[0].tick if self._script else math.inf
        self._corners = deque(c for c in _corners(live) if c[0] > live.env_step)
        self._corner_env_step = self._corners[0][0] if self._corners else math.inf
        self._applied_again: set[tuple[int, str, str]] = set()  # tick, name, repr of value
        self._next_poll = 0.0
        self._thread = threading.get_ident()
        live.door = self._from_python

    def __enter__(self) -> Steering:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Writes the log and releases the lock; a second call does nothing.

        Raises:
          RunDirError: answered commands cannot be logged.
        """
        self._live.door = self._live.set
        if self._log.closed:
            return
        try:
            self._write_down()
        finally:
            self._log.close()
            self._lock.release()

    def safe_point(self) -> None:
        """Applies the due commands and changes. Call it between two calls into the graph."""
        position = self._steered.position
        if position.tick >= self._script_tick:
            self._repeat(position.tick)
        if position.env_step >= self._corner_env_step:
            self._pass_corners(position.env_step)
        if _now() >= self._next_poll:
            self.poll()

    @property
    def due(self) -> Due:
        """The moment before which a safe point has no work and may be skipped."""
        return Due(self._script_tick, self._corner_env_step, self._next_poll)

    def log_state(self) -> dict[str, Any]:
        """Returns the log's length and the ids of entries still to apply, for a checkpoint.

        First logs every command that was applied so far, including those of the same poll as the
        command that asks for the checkpoint.

        Raises:
          RunDirError: the log cannot be written.
        """
        self._write_down()
        return {"bytes": self._log.length, "to_do": [entry.id for entry in self._script]}

    def poll(self) -> None:
        """Answers the commands in the inbox, and publishes the state if it is due."""
        if self._unwritten:
            self._try_to_write_down()
        answered = not self._unwritten and self._take(self._inbox.letters())
        now = _now()
        self._next_poll = now + POLL_SECONDS
        if answered or self._publisher.due(now):
            self.publish()

    def publish(self, status: Status | None = None) -> None:
        """Writes the state now; `status` replaces the status of the run's report."""
        report = dict(self._steered.report())
        if status:
            report["status"] = status
        more = {"actions": list(ACTIONS), "log_bytes": self._log.length}
        with self._publishing.attempt():
            self._publisher.publish(report | self._steered.position._asdict() | more)

    # Sources of changes: the inbox, Python, a script, a schedule.

    def _take(self, letters: list[Letter]) -> bool:
        """Answers the new letters and removes all; returns True if any was new."""
        any_new = False
        for letter in letters:
            if letter.id not in self._log.ids and letter.id not in self._unwritten_ids():
                # On a line of its own: the answer to `checkpoint` replaces the list `_unwritten`.
                entry = self._answer(letter)
                self._unwritten.append(entry)
                any_new = True
        self._answered += letters
        self._try_to_write_down()
        return any_new

    def _unwritten_ids(self) -> set[str]:
        return {entry.id for entry in self._unwritten}

    def _answer(self, letter: Letter) -> Entry:
        command = letter.command
        if command is None:
            name = letter.path.name.encode(errors="replace").decode()[:100]
            return self._entry(letter.id, "unreadable", name, "?", reason=letter.problem)
        value = command.value
        if isinstance(command, SetCommand):
            kind, name = "set", command.name
        else:
            kind, name = "do", command.do
        old, new, reason = None, None, None
        try:
            if kind == "set" or name in REPEATED_ACTIONS:
                self._refuse_changes()
            if isinstance(command, SetCommand):
                old, new = self._set(name, value)
            else:
                old, new = self._steered.do(name, command.value)
        except RlCoreError as error:
            reason = str(error)
        return self._entry(
            command.id, kind, name, command.who, value, old, new, asked=command.time, reason=reason
        )

    def _from_python(self, name: str, value: Any) -> None:
        if threading.get_ident() != self._thread:
            self._live.knob(name)
            submit(self._files, set_command(name, plain(value), "api"))
            return
        new_id = uuid.uuid4().hex
        try:
            self._refuse_changes()
            old, new = self._set(name, value)
        except RlCoreError as error:
            shown = value if isinstance(value, int | float | str) else str(value)
            self._record([self._entry(new_id, "set", name, "api", shown, reason=str(error))])
            raise
        asked = value if isinstance(value, str) else new
        if (self._steered.position.tick, name, repr(asked)) in self._applied_again:
            return  # the program of a resumed run made the same change again
        self._record([self._entry(new_id, "set", name, "api", asked, old, new)])

    def _repeat(self, tick: int) -> None:
        entries = []
        while self._script and self._script[0].tick <= tick:
            e = self._script.popleft()
            old, new = (
                self._set(e.name, e.value) if e.kind == "set" else self._steered.do(e.name, e.value)
            )
            self._applied_again.add((e.tick, e.name, repr(e.value)))
            entries.append(self._entry(e.id, e.kind, e.name, e.who, e.value, old, new))
        self._script_tick = self._script[0].tick if self._script else math.inf
        self._record(entries)

    def _pass_corners(self, env_step: int) -> None:
        entries = []
        while self._corners and self._corners[0][0] <= env_step:
            step, name, old, new = self._corners.popleft()
            if self._live.source(name) == "schedule":
                corner = f"schedule-{name}-{step}"
                entries.append(self._entry(corner, "set", name, "schedule", "auto", old, new))
        self._corner_env_step = self._corners[0][0] if self._corners else math.inf
        self._record(entries)

    def _refuse_changes(self) -> None:
        if self.refusal:
            raise Refused(f"changes are refused: {self.refusal}")

    def _set(self, name: str, value: Any) -> tuple[Any, Any]:
        change = self._live.set(name, value)
        self._steered.changed()
        return plain(change.old), plain(change.new)

    # Log entries.

    def _entry(
        self,
        entry_id: str,
        kind: Any,
        name: str,
        who: str,
        value: Any = None,
        old: Any = None,
        new: Any = None,
        *,
        asked: float | None = None,
        reason: str | None = None,
    ) -> Entry:
        now = time.time()
        return Entry(
            id=entry_id,
            asked=now if asked is None else asked,
            time=now,
            who=who,
            kind=kind,
            name=name,
            value=value,
            old=old,
            new=new,
            taken=reason is None,
            reason=reason,
            **self._steered.position._asdict(),
        )

    def _record(self, entries: Iterable[Entry]) -> None:
        self._unwritten += entries
        self._try_to_write_down()

    def _try_to_write_down(self) -> None:
        with self._logging.attempt():
            self._write_down()

    def _write_down(self) -> None:
        """Writes the entries to the log, then removes their letters and shows the answers."""
        # The log of a resumed run already has the repeated entries; its truncated curves do not.
        new = [entry for entry in self._unwritten if entry.id not in self._log.ids]
        if new:
            self._log.append(new)
        entries, self._unwritten = self._unwritten, []
        letters, self._answered = self._answered, []
        for letter in letters:
            self._inbox.remove(letter)
        for entry in entries:
            self._steered.answered(entry)


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
