"""The answers to commands on their way into the log: made, written, shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from targetnet.rl_core.control.inbox import CommandFile, Inbox
from targetnet.rl_core.control.log import ControlLog, Entry
from targetnet.rl_core.files import RetryLater


class Position(NamedTuple):
    """The progress of a run."""

    tick: int  # time steps of all envs
    env_step: int
    update: int


class LogWriter:
    """Logs what was answered, then removes the command files and shows the answers.

    On a full disk entries wait until the log can be written; nothing is shown before.

    Args:
      log: of the run.
      inbox: holds the command files.
      position: returns the present progress, which every entry records.
      show: shows an entry after it was logged.
      warn: is told, once, that the log cannot be written.
    """

    def __init__(
        self,
        log: ControlLog,
        inbox: Inbox,
        position: Callable[[], Position],
        show: Callable[[Entry], None],
        warn: Callable[[str], None],
    ) -> None:
        self._log, self._inbox, self._position, self._show = log, inbox, position, show
        self._unwritten: list[Entry] = []  # applied or refused, but not yet logged
        self._answered: list[CommandFile] = []  # the command files of these entries
        self._logging = RetryLater(warn)

    @property
    def is_behind(self) -> bool:
        """True while entries wait to be written."""
        return bool(self._unwritten)

    def knows(self, command_id: str) -> bool:
        """Returns True if this command was answered before."""
        return command_id in self._log.ids or any(e.id == command_id for e in self._unwritten)

    def entry(
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
        """Makes an entry of now; with a `reason` it was refused."""
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
            **self._position()._asdict(),
        )

    def unreadable(self, command_file: CommandFile) -> Entry:
        """Makes the entry of a command file that cannot be read."""
        name = command_file.path.name.encode(errors="replace").decode()[:100]
        return self.entry(command_file.id, "unreadable", name, "?", reason=command_file.problem)

    def queue(self, entry: Entry) -> None:
        """Takes in an entry, to be written later."""
        self._unwritten.append(entry)

    def record(
        self, entries: Iterable[Entry] = (), command_files: Iterable[CommandFile] = ()
    ) -> None:
        """Takes entries and the command files that they answer; writes them if the disk allows."""
        self._unwritten += entries
        self._answered += command_files
        with self._logging.attempt():
            self.write()

    def write(self) -> None:
        """Writes the entries to the log, then removes their command files and shows the answers.

        Raises:
          RunDirError: the log cannot be written.
        """
        # The log of a resumed run already has the repeated entries; its truncated curves do not.
        new = [entry for entry in self._unwritten if entry.id not in self._log.ids]
        if new:
            self._log.append(new)
        entries, self._unwritten = self._unwritten, []
        command_files, self._answered = self._answered, []
        for command_file in command_files:
            self._inbox.remove(command_file)
        for entry in entries:
            self._show(entry)
