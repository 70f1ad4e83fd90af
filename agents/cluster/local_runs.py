"""The runs of a job at home: their locks, and the command files in their inboxes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from targetnet.agents.saved.directory import CONFIG, MACHINES
from targetnet.rl_core.control.commands import MAX_BYTES
from targetnet.rl_core.control.files import ControlFiles, RunLock
from targetnet.rl_core.control.inbox import is_command_file
from targetnet.rl_core.control.persistent_orders import NOTE_OF_NEW, note_of_move
from targetnet.rl_core.regular_file import read_regular


class LocalRuns:
    """The runs of a job.

    Whoever steers them here need not know that they are elsewhere: each is locked, as a run that is
    alive, and command files to it are handed on.

    Args:
      path: of the run, or of the population that holds all runs.
      runs: of it, as `tree.runs_in` names them.
    """

    def __init__(self, path: Path, runs: Collection[str]) -> None:
        self._path, self._runs = path, runs
        self._locks: dict[str, RunLock] = {}
        self._begun = False  # the first runs were locked
        self._sent: set[str] = set()  # command files that the node was given
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
            there = (self._path / run / CONFIG).exists()
            if run not in self._locks and (there or run == ""):
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
            if not (place / CONFIG).exists():
                shutil.rmtree(ControlFiles(place).directory, ignore_errors=True)
                with contextlib.suppress(OSError):
                    (place / MACHINES).unlink(missing_ok=True)
                    place.rmdir()
            lock.release()
        self._locks.clear()

    def begin(self) -> None:
        """Begins with a new node, which was given no command file yet."""
        self._sent.clear()

    def moved(self) -> Iterator[tuple[str, bytes]]:
        """Yields the runs that a node goes on with, and for each the content of `control/moved`."""
        for run, note in self._notes.items():
            if (self._path / run / CONFIG).exists():
                yield run, note

    def command_files(self) -> Iterator[tuple[str, str, bytes]]:
        """Yields the command files that the node was not given yet: run, name and content."""
        for run in self._locks:
            inbox = ControlFiles(self._path / run).inbox
            for path in sorted(inbox.glob("*.json")):
                if f"{run}{path.name}" not in self._sent and is_command_file(path.name):
                    with contextlib.suppress(OSError, ValueError):  # withdrawn, or no command file
                        yield run, path.name, read_regular(path, most=MAX_BYTES)

    def posted(self, run: str, name: str) -> None:
        """Notes that the node has a command file."""
        self._sent.add(f"{run}{name}")

    def withdrawn(self) -> list[tuple[str, str]]:
        """Returns run and name of the node's command files that their senders took back."""
        command_files = [(run, name) for run, _, name in (of.rpartition("/") for of in self._sent)]
        return [
            (f"{run}/" if run else "", name)
            for run, name in command_files
            if not (ControlFiles(self._path / run).inbox / name).exists()
        ]

    def answered(self, waiting: Collection[str]) -> None:
        """Removes the command files that the node has answered; the answers are here already.

        Args:
          waiting: command files that wait on the node.
        """
        for command_file in self._sent.difference(waiting):
            run, _, name = command_file.rpartition("/")
            (ControlFiles(self._path / run).inbox / name).unlink(missing_ok=True)
            self._sent.discard(command_file)
