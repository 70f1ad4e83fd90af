"""Changes of a run: carried out, or refused, at a safe point, and logged."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.log_writer import LogWriter, Position
from targetnet.rl_core.control.timetable import (
    CONTROLLER,
    REPEATED_ACTIONS,
    SCHEDULE,
    Decision,
    Timetable,
)
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.hyperparameters import Hyperparameters, plain


class Refused(RlCoreError, ValueError):
    """A command that cannot be carried out now."""


class SteerableRun(Protocol):
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
        """Keeps a snapshot if there are any: a live value was set, and nothing has used it yet."""

    def answered(self, entry: Entry) -> None:
        """Shows a command, taken or refused, after it was logged."""

    def report(self) -> Mapping[str, Any]:
        """Returns the fields of RunState other than position and live values."""

    def warn(self, text: str) -> None:
        """Shows one line to the user."""


class Changes:
    """Carries out the changes of one run, and logs each of them.

    Args:
      live: the values that may be set.
      steered: the run, which carries out the actions.
      log_writer: writes the log.
      timetable: changes that are known beforehand.
      refusal: as the attribute.

    Attributes:
      refusal: the reason for which changes are refused now; None if changes are accepted.
    """

    def __init__(
        self,
        live: Hyperparameters,
        steered: SteerableRun,
        log_writer: LogWriter,
        timetable: Timetable,
        refusal: str | None,
    ) -> None:
        self._live, self._steered, self._log_writer = live, steered, log_writer
        self._timetable, self.refusal = timetable, refusal
        self._applied_again: set[tuple[int, str, str]] = set()  # tick, name, repr of value

    def carry_out(
        self, new_id: str, kind: str, name: str, who: str, value: Any, **how: Any
    ) -> Entry:
        """Carries out a command, or refuses it; returns the entry that says so."""
        old, new, reason = None, None, None
        try:
            if who != SCHEDULE and (kind == "set" or name in REPEATED_ACTIONS):
                self._refuse()
            old, new = self._do(kind, name, value)
        except RlCoreError as error:
            reason = str(error)
        entry = self._log_writer.entry
        return entry(new_id, kind, name, who, value, old, new, reason=reason, **how)

    def set(self, name: str, value: Any) -> None:
        """Sets a live value at once, for the program that trains.

        Raises:
          Refused: changes are refused now.
          BoundsError: the value is out of bounds.
        """
        new_id, entry = uuid.uuid4().hex, self._log_writer.entry
        try:
            self._refuse()
            old, new = self._do("set", name, value)
        except RlCoreError as error:
            shown = value if isinstance(value, int | float | str) else str(value)
            self._log_writer.record([entry(new_id, "set", name, "api", shown, reason=str(error))])
            raise
        asked = value if isinstance(value, str) else new
        if (self._steered.position.tick, name, repr(asked)) in self._applied_again:
            return  # the program of a resumed run made the same change again
        self._log_writer.record([entry(new_id, "set", name, "api", asked, old, new)])

    def apply_recorded(self, *, late: bool = False) -> None:
        """Makes the recorded changes that are due, or were.

        Args:
          late: also those that come after what is due at a time step, such as an evaluation.
        """
        entries = []
        for e in self._timetable.entries(self._steered.position.tick, late=late):
            old, new = self._do(e.kind, e.name, e.value)
            self._applied_again.add((e.tick, e.name, repr(e.value)))
            entries.append(self._log_writer.entry(e.id, e.kind, e.name, e.who, e.value, old, new))
        self._log_writer.record(entries)

    def pass_schedules(self, env_step: int) -> None:
        """Logs the corners of schedules up to an env step, and makes the config's actions."""
        entries, entry = [], self._log_writer.entry
        for new_id, name, old, new in self._timetable.corners(env_step):
            entries.append(entry(new_id, "set", name, SCHEDULE, "auto", old, new))
        for new_id, planned in self._timetable.planned(env_step):
            entries.append(self.carry_out(new_id, "do", planned.do, SCHEDULE, planned.value))
        self._log_writer.record(entries)

    def apply_decisions(self, decisions: Iterable[Decision]) -> None:
        """Makes what a controller has decided at this time step.

        What it had decided here before a crash, and is in the log, was made by `apply_recorded`: an
        entry's id is its time step and its place among the decisions.
        """
        tick = self._steered.position.tick
        for i, of in enumerate(decisions):
            new_id = f"controller-{tick}-{i}"
            if not self._log_writer.knows(new_id):
                # One by one: a checkpoint among them has to know of those before it.
                self._log_writer.queue(
                    self.carry_out(new_id, of.kind, of.name, CONTROLLER, of.value)
                )
        self._log_writer.record()

    def _do(self, kind: str, name: str, value: Any) -> tuple[Any, Any]:
        if kind != "set":
            return self._steered.do(name, value)
        change = self._live.set(name, value)
        self._steered.changed()
        return plain(change.old), plain(change.new)

    def _refuse(self) -> None:
        if self.refusal:
            raise Refused(f"changes are refused: {self.refusal}")
