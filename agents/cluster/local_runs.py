"""The runs of a job at home: locked, as runs that are alive, with inboxes that are handed on."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from targetnet.agents.saved.directory import CONFIG, MACHINES
from targetnet.rl_core.control.commands import MAX_BYTES
from targetnet.rl_core.control.files import ControlFiles, RunLock
from targetnet.rl_core.control.inbox import is_command_file
from targetnet.rl_core.control.timetable import NOTE_OF_NEW, note_of_move
from targetnet.rl_core.files import read_regular


class LocalRuns:
    """The runs below a path, as `tree.runs_in` names them.

    Whoever steers them here need not know that they are elsewhere.
    """

    def __init__(self, path: Path, runs: Collection[str]) -> None:
        self._path, self._runs = path, runs
        self._locks: dict[str, RunLock] = {}
        self._begun = False  # the first runs were locked
        self._sent: set[str] = set()  # command files that the node was given, by run and name
        self._notes: dict[str, bytes] = {}  # of the moment at which the job began: `control/moved`

    def lock(self) -> list[str]:
        """Locks the runs that are here and not locked yet; returns them.

        A run that has nothing here yet is locked at once, a member of a population once it has a
        config: its directory must hold nothing before.

        Raises:
          RunDirError: another process runs one of them, or it cannot be read or written.
        """
        new = []
        for run in self._runs:
            if run not in self._locks and (run == "" or self._has_begun(run)):
                (self._path / run).mkdir(parents=True, exist_ok=True)
                files = ControlFiles(self._path / run)
                files.make()
                self._locks[run] = RunLock(files)
                # All of the log of a run that appears later is of this job.
                self._notes[run] = NOTE_OF_NEW if self._begun else note_of_move(files.log)
                new.append(run)
        self._begun = True
        return new

    def locked(self) -> list[str]:
        """Returns the runs that are locked."""
        return [*self._locks]

    def release(self) -> None:
        """Releases all locks; a run that never began leaves nothing."""
        for run, lock in self._locks.items():
            place = self._path / run
            if not self._has_begun(run):
                shutil.rmtree(ControlFiles(place).directory, ignore_errors=True)
                with contextlib.suppress(OSError):
                    (place / MACHINES).unlink(missing_ok=True)
                    place.rmdir()
            lock.release()
        self._locks.clear()

    def handover(self) -> Iterator[tuple[str, bytes]]:
        """Yields what a new node gets for the runs that go on: path and content of each file.

        It is the orders that hold and the command files that wait. Command files that are there
        when a run begins wait for older changes that it makes again.
        """
        self._sent.clear()
        for run in filter(self._has_begun, self._notes):
            yield f"{run}control/moved", self._notes[run]
            for key, data in self._waiting(run):
                self._sent.add(key)
                yield f"{run}control/inbox/{key.removeprefix(run)}", data

    def post(self) -> dict[str, bytes | None]:
        """Returns the command files that the node was not given yet, by run and name.

        None takes one back that its sender has withdrawn.
        """
        withdrawn = {key: None for key in self._sent if not self._at_home(key).exists()}
        return withdrawn | {key: data for run in self._locks for key, data in self._waiting(run)}

    def answered(self, posted: Collection[str], waiting: Collection[str]) -> None:
        """Removes the command files that the node has answered; the answers are here already.

        Those in `posted` were taken by the node now, those in `waiting` wait there.
        """
        self._sent.update(posted)
        for key in self._sent.difference(waiting):
            self._at_home(key).unlink(missing_ok=True)
            self._sent.discard(key)

    def _waiting(self, run: str) -> Iterator[tuple[str, bytes]]:
        for path in sorted(ControlFiles(self._path / run).inbox.glob("*.json")):
            if f"{run}{path.name}" not in self._sent and is_command_file(path.name):
                with contextlib.suppress(OSError, ValueError):  # withdrawn, or no command file
                    yield f"{run}{path.name}", read_regular(path, most=MAX_BYTES)

    def _at_home(self, key: str) -> Path:
        run, _, name = key.rpartition("/")
        return ControlFiles(self._path / run).inbox / name

    def _has_begun(self, run: str) -> bool:
        return (self._path / run / CONFIG).exists()
