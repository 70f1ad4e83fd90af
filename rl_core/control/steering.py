"""The run's side of its control directory: takes commands at safe points and logs each."""

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
POLL_SECONDS = 0.02  # a poll in a cold cache costs 40 us
# What a repeat of the run does again; the others leave no trace in what is learned.
REPEATED_ACTIONS = ("sync", "snapshot", "rewind")
# What a resumed run does again: also what leaves a point in a curve.
RESUMED_ACTIONS = (*REPEATED_ACTIONS, "evaluate")


class Refused(RlCoreError, ValueError):
    """A command that cannot be carried out now."""


class Position(NamedTuple):
    """How far a run is."""

    tick: int  # time steps of all envs
    env_step: int
    update: int


class Due(NamedTuple):
    """When there is something to do: at whichever comes first."""

    tick: float
    env_step: float
    time: float  # of time.monotonic


class Steered(Protocol):
    """A run that can be steered."""

    @property
    def position(self) -> Position:
        """How far it is: where in the log a change belongs that is made now."""

    def do(self, action: str, value: int | None) -> tuple[Any, Any]:
        """Carries out one of ACTIONS; returns what it changed, before and after.

        Raises:
          RlCoreError: it cannot be done now.
        """

    def changed(self) -> None:
        """Called when a live value was set, before anything feels it."""

    def answered(self, entry: Entry) -> None:
        """Called once a command is in the log, taken or refused."""

    def report(self) -> Mapping[str, Any]:
        """What RunState has beside position and live values."""

    def warn(self, text: str) -> None:
        """Shows one line to whoever watches the run."""


class Steering:
    """Takes commands for one run.

        with Steering(agent.hyperparameters, ControlFiles(run), steered) as steering:
            for tick in loop:
                steering.safe_point()

    Setting a live value from Python goes the same way and is logged the same: at once in the
    thread that made this, from another thread through the inbox.

    On a full disk the run goes on: what was answered waits until the log can be written, no more
    commands are taken meanwhile, and a heartbeat is left out.

    Args:
      live: the values that may be set.
      files: of a run directory that exists.
      steered: carries out actions.
      script: entries of a log, which are applied again at their recorded ticks.
      repeats: the script is another run's, and every other change is refused; else it is what
        this run logged after the checkpoint that it was resumed from.
      lock: of the directory, if it is held already; it is let go of by `close`.

    Attributes:
      refusal: why no change is taken now; None if it is.

    Raises:
      RunDirError: another process runs this directory, or it cannot be written.
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
        self._unwritten: list[Entry] = []  # applied or refused, not in the log yet
        self._answered: list[Letter] = []  # that they answer
        self._logging, self._publishing = Retried(steered.warn), Retried(steered.warn)
        self.refusal: str | None = "this run repeats another one" if repeats else None
        # By tick: what was set after a resume may come before what was logged before the crash.
        actions = REPEATED_ACTIONS if repeats else RESUMED_ACTIONS
        again = sorted((e for e in script if is_repeated(e, actions)), key=lambda e: e.tick)
        self._script = deque(again)
        self._script_tick = self._script[0].tick if self._script else math.inf
        self._corners = deque(c for c in _corners(live) if c[0] > live.env_step)
        self._corner_env_step = self._corners[0][0] if self._corners else math.inf
        self._known: set[tuple[int, str, str]] = set()  # what was done again
        self._next_poll = 0.0
        self._thread = threading.get_ident()
        live.door = self._from_python

    def __enter__(self) -> Steering:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the run; a second call does nothing.

        Raises:
          RunDirError: what was answered cannot be written into the log.
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
        """Between two calls into the graph: applies what is due."""
        position = self._steered.position
        if position.tick >= self._script_tick:
            self._repeat(position.tick)
        if position.env_step >= self._corner_env_step:
            self._pass_corners(position.env_step)
        if _now() >= self._next_poll:
            self.poll()

    @property
    def due(self) -> Due:
        """Until then a safe point does nothing, and may be left out."""
        return Due(self._script_tick, self._corner_env_step, self._next_poll)

    def log_state(self) -> dict[str, Any]:
        """What a checkpoint has to know of the log: which entries it has, which are to be done.

        Everything that was applied until now is in the log when this returns, also what came
        in the same poll as the command that asks for the checkpoint.

        Raises:
          RunDirError: the log cannot be written.
        """
        self._write_down()
        return {"bytes": self._log.length, "to_do": [entry.id for entry in self._script]}

    def poll(self) -> None:
        """Takes what lies in the inbox, and publishes the state if it is time."""
        if self._unwritten:
            self._try_to_write_down()
        answered = not self._unwritten and self._take(self._inbox.letters())
        now = _now()
        self._next_poll = now + POLL_SECONDS
        if answered or self._publisher.due(now):
            self.publish()

    def publish(self, status: Status | None = None) -> None:
        """Writes the state now, under another status if one is given."""
        report = dict(self._steered.report())
        if status:
            report["status"] = status
        more = {"actions": list(ACTIONS), "log_bytes": self._log.length}
        with self._publishing.attempt():
            self._publisher.publish(report | self._steered.position._asdict() | more)

    # Where commands come from: the inbox, Python, a script, a schedule.

    def _take(self, letters: list[Letter]) -> bool:
        """Answers those that are new, and removes all; whether any was new."""
        any_new = False
        for letter in letters:
            if letter.id not in self._log.ids and letter.id not in self._unwritten_ids():
                # Apart: a checkpoint that it asks for writes down what came before.
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
        if (self._steered.position.tick, name, repr(asked)) in self._known:
            return  # a resumed run came to the same line of its program again
        self._record([self._entry(new_id, "set", name, "api", asked, old, new)])

    def _repeat(self, tick: int) -> None:
        entries = []
        while self._script and self._script[0].tick <= tick:
            e = self._script.popleft()
            old, new = (
                self._set(e.name, e.value) if e.kind == "set" else self._steered.do(e.name, e.value)
            )
            self._known.add((e.tick, e.name, repr(e.value)))
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
            raise Refused(f"no change is taken: {self.refusal}")

    def _set(self, name: str, value: Any) -> tuple[Any, Any]:
        change = self._live.set(name, value)
        self._steered.changed()
        return plain(change.old), plain(change.new)

    # What becomes of them.

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
        """Brings the log up to date; only then are letters removed and answers shown."""
        # A run that was resumed has some of them already; the curves were cut and lack them.
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
    """Whether a repeat of the run applies this entry; a schedule's corners come by themselves."""
    if not entry.taken or entry.who == "schedule":
        return False
    return entry.kind == "set" or (entry.kind == "do" and entry.name in actions)


def _corners(live: Hyperparameters) -> list[tuple[int, str, Any, Any]]:
    """(env step, name, value at the corner before, value here) of every schedule, in order."""
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
