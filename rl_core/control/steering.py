"""Steering inside the run: applies commands at safe points and logs each of them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from targetnet.rl_core.control.changes import Changes, SteerableRun
from targetnet.rl_core.control.commands import ACTIONS, set_command
from targetnet.rl_core.control.files import ControlFiles, RunLock, submit
from targetnet.rl_core.control.inbox import CommandFile, Inbox
from targetnet.rl_core.control.log import ControlLog, Entry
from targetnet.rl_core.control.log_writer import LogWriter
from targetnet.rl_core.control.state import RunStatus, StatePublisher
from targetnet.rl_core.control.timetable import Decision, PlannedAction, Timetable
from targetnet.rl_core.files import RetryLater
from targetnet.rl_core.hyperparameters import Hyperparameters, plain

_now = time.monotonic
# A poll finds nothing of itself in the caches: each 0.02 s it was a third and more of what a whole
# run costs beside its bare loop. Each 0.05 s a change is in force within 50 ms (`make bench`).
POLL_SECONDS = 0.05


class Due(NamedTuple):
    """The next moment with work for a safe point: whichever of the three comes first."""

    tick: float
    env_step: float
    time: float  # from time.monotonic


class Steering:
    """The steering of one run: applies commands at safe points and logs them.

        with Steering(agent.hyperparameters, ControlFiles(run), steered) as steering:
            for tick in loop:
                steering.safe_point()

    Live values set from Python are logged like commands. In the thread that made this object they
    are applied at once; from another thread they go through the inbox.

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
      planned: actions that the config makes by itself.
      orders: entries of this run's log that still hold, which are applied again too; see
        `standing_orders`.

    Raises:
      RunDirError: another process runs this directory, or the directory cannot be written.
    """

    def __init__(
        self,
        live: Hyperparameters,
        files: ControlFiles,
        steered: SteerableRun,
        script: Iterable[Entry] = (),
        *,
        repeats: bool = False,
        lock: RunLock | None = None,
        planned: Sequence[PlannedAction] = (),
        orders: Sequence[Entry] = (),
    ) -> None:
        self._live, self._files, self._steered = live, files, steered
        files.make()
        self._lock = lock or RunLock(files)
        self._log = ControlLog(files.log)
        # In a repeat of another run every command file is refused, and none waits for that.
        self._inbox = Inbox(files, lambda: not repeats and bool(self._timetable.to_do))
        self._publisher, self._publishing = StatePublisher(files, live), RetryLater(steered.warn)
        self._log_writer = LogWriter(
            self._log, self._inbox, lambda: steered.position, steered.answered, steered.warn
        )
        self._timetable = Timetable(live, script, repeats=repeats, planned=planned, orders=orders)
        refusal = "this run repeats another one" if repeats else None
        self._changes = Changes(live, steered, self._log_writer, self._timetable, refusal)
        self._next_poll, self._thread = 0.0, threading.get_ident()
        live.setter = self._from_python

    def __enter__(self) -> Steering:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Writes the log and releases the lock; a second call does nothing.

        Raises:
          RunDirError: answered commands cannot be logged.
        """
        self._live.setter = self._live.set
        if self._log.closed:
            return
        try:
            self._log_writer.write()
        finally:
            self._log.close()
            self._lock.release()

    def safe_point(self) -> None:
        """Applies the due commands and changes. Call it between two calls into the graph."""
        position = self._steered.position
        # First what the config plans: in the recorded run too it came before every command here.
        if position.env_step >= self._timetable.env_step:
            self._changes.pass_schedules(position.env_step)
        if position.tick >= self._timetable.tick:
            self._apply_recorded()
        if _now() >= self._next_poll:
            self.poll()

    def exchange(self, entries: Iterable[Entry] = ()) -> None:
        """Applies what exchanges of a population change here, and `entries` of one made now.

        Call it after `safe_point`, and after what is due there, such as an evaluation.
        """
        self._timetable.add(entries)
        self._apply_recorded(late=True)

    def apply_decisions(self, decisions: Iterable[Decision]) -> None:
        """Applies what a controller decided here; call it where `exchange` may be called."""
        self._apply_recorded(late=True)
        self._changes.apply_decisions(decisions)

    def stop(self) -> None:
        """Stops the run here, as a command `stop` does, for the program that trains."""
        entry = self._changes.carry_out(uuid.uuid4().hex, "do", "stop", "api", None)
        self._log_writer.record([entry])

    def refuse(self, reason: str) -> None:
        """Refuses changes from now on."""
        self._changes.refusal = reason

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
        self._log_writer.write()
        return {"bytes": self._log.length, "to_do": self._timetable.to_do}

    def poll(self) -> None:
        """Answers the commands in the inbox, and publishes the state if it is due."""
        if self._log_writer.is_behind:
            self._log_writer.record()
        answered = not self._log_writer.is_behind and self._take(self._inbox.command_files())
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

    def _take(self, command_files: list[CommandFile]) -> bool:
        """Answers the new command files and removes all; returns True if any was new."""
        any_new = False
        for command_file in command_files:
            # A missing file was withdrawn meanwhile.
            is_there = command_file.path.is_symlink() or command_file.path.exists()
            if is_there and not self._log_writer.knows(command_file.id):
                command, any_new = command_file.command, True
                if command is None:
                    entry = self._log_writer.unreadable(command_file)
                else:
                    kind, name = command.what
                    entry = self._changes.carry_out(
                        command.id, kind, name, command.who, command.value, asked=command.time
                    )
                self._log_writer.queue(entry)
        self._log_writer.record(command_files=command_files)
        return any_new

    def _from_python(self, name: str, value: Any) -> None:
        if threading.get_ident() == self._thread:
            self._changes.set(name, value)
            return
        self._live.knob(name)
        submit(self._files, set_command(name, plain(value), "api"))

    def _apply_recorded(self, *, late: bool = False) -> None:
        self._next_poll = 0.0  # a command file may have waited for this
        self._changes.apply_recorded(late=late)
