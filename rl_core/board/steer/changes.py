"""Entries of a run's log for the page, and the commands of the page that no run has read yet.

What a dead run has not read is taken back. Otherwise it would lie in its inbox, and change the run
when it is resumed, maybe days later.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
from pathlib import Path
from typing import Any, NamedTuple

from targetnet.rl_core.control.client import PendingCommands
from targetnet.rl_core.control.commands import ACTIONS
from targetnet.rl_core.control.log import Entry, LogTail
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.hyperparameters import NO_BLOCKS

FIRST_ENTRIES = 500  # in the first answer to a page
MOST_BYTES = 4 << 20  # of the log in one answer; 500 entries have about 200 kB
_NAME = re.compile(r"[A-Za-z]\w{0,99}", re.ASCII)


class LogSegment(NamedTuple):
    """Part of a log; `begin` and `end` are positions in it, in bytes."""

    entries: list[Entry]
    begin: int
    end: int


def read_changes(log: Path, position: int) -> LogSegment:
    """Returns the entries after `position`; if that is 0, or no near place, the newest entries.

    Raises:
      RunDirError: the log cannot be read, or it is damaged.
    """
    # A log may have millions of lines, or a line of gigabytes: read only its end.
    if position > 0 and 0 <= _size(log) - position <= MOST_BYTES:
        # Damaged from there on, or another run's log in its place: its end tells which.
        with contextlib.suppress(RunDirError):
            return _read(LogTail(log, position=position, most=MOST_BYTES))
    return _read(LogTail(log, last=FIRST_ENTRIES, most=MOST_BYTES))


def _read(tail: LogTail) -> LogSegment:
    begin = tail.position
    return LogSegment(tail.new(), begin, tail.position)


def for_page(run: Path, entry: Entry) -> dict[str, Any]:
    """Returns an entry's fields, its text, and the shell command that does the same or None."""
    return entry.model_dump() | {
        "text": entry.describe(),
        "command": as_command(run, entry),
    }


def as_command(run: Path, entry: Entry) -> str | None:
    """Returns "targetnet set RUN name=value" for a change, or None if no command makes it.

    Refused commands and changes by a schedule have none. The text goes into somebody's shell, and
    directory and log may be another person's: everything is quoted, and control characters, which
    a terminal may obey, are not passed on.
    """
    if not entry.taken or entry.who == "schedule":
        return None
    words = ["targetnet", entry.kind, str(run)]
    if entry.kind == "set" and _NAME.fullmatch(entry.name):
        value = _as_argument(entry.value)
        if value is None:
            return None
        words.append(f"{entry.name}={value}")
    elif entry.kind == "do" and entry.name in ACTIONS:
        words.append(entry.name)
        if isinstance(entry.value, int | float | str):
            given = str(entry.value).split()
            if any(word.startswith("-") for word in given):  # it would be read as an option
                return None
            words += given
    else:
        return None
    command = shlex.join(words)
    return command if command.isprintable() else None


def _as_argument(value: Any) -> str | None:
    """Returns a live value as the command line takes it: 0.5, 50, auto, head,torso."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return ",".join(value) or NO_BLOCKS
    return value if isinstance(value, str) and value else None


def _size(log: Path) -> int:
    try:
        return log.lstat().st_size
    except OSError:  # the reader says what is wrong, or reads nothing
        return 0


class UnreadCommands:
    """Commands that no run has read yet."""

    def __init__(self) -> None:
        self._unread: dict[Path, list[PendingCommands]] = {}
        self._lock = threading.Lock()

    def add(self, run: Path, asked: PendingCommands) -> None:
        """Notes commands that were sent to a run."""
        with self._lock:
            before = [of for of in self._unread.get(run, ()) if of.is_unread]
            self._unread[run] = [*before, asked]

    def take_back(self, run: Path) -> None:
        """Withdraws what a run that is not alive has not read.

        Raises:
          RunDirError: a command cannot be removed from the inbox.
        """
        with self._lock:
            unread = self._unread.pop(run, ())
        for asked in unread:
            asked.withdraw()
