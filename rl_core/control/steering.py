"""Steering inside the run: applies commands at safe points and logs each of them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rl_core.control.commands import ACTIONS, set_command
from rl_core.control.files import ControlFiles, RunLock, clear_leftovers, submit
from rl_core.control.inbox import Inbox, Letter
from rl_core.control.log import ControlLog, Entry
from rl_core.control.recorder import Position, Recorder
from rl_core.control.retry import Retried
from rl_core.control.state import RunStatus, StatePublisher
from rl_core.control.timetable import REPEATED_ACTIONS, SCHEDULE, Planned, Timetable
from rl_core.errors import RlCoreError
from rl_core.hyperparameters import Hyperparameters, plain

_now = time.monotonic
POLL_SECONDS = 0.02  # a poll with cold caches costs 40 us


class Refused(RlCoreError, ValueError):
    """A command that cannot be carried out now."""


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

    def do(self, action: str, value: Any) -> tuple[Any, Any]:
        """Runs one of ACTIONS or EXCHANGES; returns the changed value before and after.

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

    Live values set from Python are logged like commands. In the thread that made this object they
    are applied at once; from another thread they go through the inbox.

    On a full disk the run continues: no further commands are taken, and heartbeats are skipped.

    Args:
      live: the values that may be set.
      files: the control files of an existing run directory.
      steered: the run, which carries out the actions.
      script: entries of a log, to apply again at their recorded ticks.
      repeats: True if the script is another run's log; then every other change is refused. False
        if the script is what this run logged after the checkpoint from which it was resumed.
      lock: the directory's lock, if the caller already holds it; `close` releases it.
      planned: actions that the config makes by itself.

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
        planned: Sequence[Planned] = (),
    ) -> None:
        self._live, self._files, self._steered = live, files, steered
        files.make()
        self._lock = lock or RunLock(files)
        clear_leftovers(files)
        self._log = ControlLog(files.log)
        self._inbox = Inbox(files, lambda: self._timetable.values_to_set)
        self._publisher, self._publishing = StatePublisher(files, live), Retried(steered.warn)
        self._recorder = Recorder(
            self._log, self._inbox, lambda: steered.position, steered.answered, steered.warn
        )
        self.refusal: str | None = "this run repeats another one" if repeats else None
        self._timetable = Timetable(live, script, repeats=repeats, planned=planned)
        self._applied_again: set[tuple[int, str, str]] = set()  # tick, name, repr of value
        self._next_poll, self._thread = 0.0, threading.get_ident()
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
            self._recorder.write()
        finally:
            self._log.close()
            self._lock.release()

    def safe_point(self) -> None:
        """Applies the due commands and changes. Call it between two calls into the graph."""
        position = self._steered.position
        # First what the config plans: in the recorded run too it came before every command here.
        if position.env_step >= self._timetable.env_step:
            self._pass_schedules(position.env_step)
        if position.tick >= self._timetable.tick:
            self._repeat(position.tick)
        if _now() >= self._next_poll:
            self.poll()

    def exchange(self, entries: Iterable[Entry] = ()) -> None:
        """Applies what exchanges of a population change here, and `entries` of one made now.

        Call it after `safe_point`, and after what is due there, such as an evaluation.
        """
        self._timetable.add(entries)
        self._repeat(self._steered.position.tick, exchange=True)

    @property
    def due(self) -> Due:
        """The moment before which a safe point has no work and may be skipped."""
        return Due(self._timetable.tick, self._timetable.env_step, self._next_poll)

    def log_state(self) -> dict[str, Any]:
        """Returns the log's length and the ids of entries still to apply, for a checkpoint.

        First logs every command that was applied so far, also those of the poll that is going on.

        Raises:
          RunDirError: the log cannot be written.
        """
        self._recorder.write()
        return {"bytes": self._log.length, "to_do": self._timetable.to_do}

    def poll(self) -> None:
        """Answers the commands in the inbox, and publishes the state if it is due."""
        if self._recorder.is_behind:
            self._recorder.record()
        answered = not self._recorder.is_behind and self._take(self._inbox.letters())
        now = _now()
        self._next_poll = now + POLL_SECONDS
        if answered or self._publisher.due(now):
            self.publish()

    def publish(self, status: RunStatus | None = None) -> None:
        """Writes the state now; `status` replaces the status of the run's report."""
        report = {**self._steered.report(), **({"status": status} if status else {})}
        more = {"actions": list(ACTIONS), "log_bytes": self._log.length}
        with self._publishing.attempt():
            self._publisher.publish(report | self._steered.position._asdict() | more)

    def _take(self, letters: list[Letter]) -> bool:
        """Answers the new letters and removes all; returns True if any was new."""
        any_new = False
        for letter in letters:
            if not self._recorder.knows(letter.id):
                of, any_new = letter.command, True
                self._recorder.wait(
                    self._tried(of.id, *of.what, of.who, of.value, asked=of.time)
                    if of
                    else self._recorder.unreadable(letter)
                )
        self._recorder.record(letters=letters)
        return any_new

    def _tried(self, new_id: str, kind: str, name: str, who: str, value: Any, **how: Any) -> Entry:
        """Carries out a command, or refuses it; returns the entry that says so."""
        old, new, reason = None, None, None
        try:
            if who != SCHEDULE and (kind == "set" or name in REPEATED_ACTIONS):
                self._refuse_changes()
            old, new = self._carry_out(kind, name, value)
        except RlCoreError as error:
            reason = str(error)
        entry = self._recorder.entry
        return entry(new_id, kind, name, who, value, old, new, reason=reason, **how)

    def _carry_out(self, kind: str, name: str, value: Any) -> tuple[Any, Any]:
        if kind != "set":
            return self._steered.do(name, value)
        change = self._live.set(name, value)
        self._steered.changed()
        return plain(change.old), plain(change.new)

    def _from_python(self, name: str, value: Any) -> None:
        if threading.get_ident() != self._thread:
            self._live.knob(name)
            submit(self._files, set_command(name, plain(value), "api"))
            return
        new_id, entry = uuid.uuid4().hex, self._recorder.entry
        try:
            self._refuse_changes()
            old, new = self._carry_out("set", name, value)
        except RlCoreError as error:
            shown = value if isinstance(value, int | float | str) else str(value)
            self._recorder.record([entry(new_id, "set", name, "api", shown, reason=str(error))])
            raise
        asked = value if isinstance(value, str) else new
        if (self._steered.position.tick, name, repr(asked)) in self._applied_again:
            return  # the program of a resumed run made the same change again
        self._recorder.record([entry(new_id, "set", name, "api", asked, old, new)])

    def _repeat(self, tick: int, *, exchange: bool = False) -> None:
        entries, self._next_poll = [], 0.0  # a letter may have waited for this
        for e in self._timetable.entries(tick, exchange=exchange):
            old, new = self._carry_out(e.kind, e.name, e.value)
            self._applied_again.add((e.tick, e.name, repr(e.value)))
            entries.append(self._recorder.entry(e.id, e.kind, e.name, e.who, e.value, old, new))
        self._recorder.record(entries)

    def _pass_schedules(self, env_step: int) -> None:
        entries, entry = [], self._recorder.entry
        for new_id, name, old, new in self._timetable.corners(env_step):
            entries.append(entry(new_id, "set", name, SCHEDULE, "auto", old, new))
        for new_id, planned in self._timetable.planned(env_step):
            entries.append(self._tried(new_id, "do", planned.do, SCHEDULE, planned.value))
        self._recorder.record(entries)

    def _refuse_changes(self) -> None:
        if self.refusal:
            raise Refused(f"changes are refused: {self.refusal}")
