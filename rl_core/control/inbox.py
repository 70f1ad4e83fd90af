"""Reader of the inbox for the run; an unchanged inbox costs one `stat`."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from targetnet.rl_core.control.commands import MAX_BYTES, BadCommand, Command, parse_command
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.errors import reason_of
from targetnet.rl_core.files import open_regular

_FILE = re.compile(r"\d{1,20}-([0-9a-f]{32})\.json")
# A directory's time stamp advances in ticks of some milliseconds. A file that arrives in the same
# tick as the last listing leaves the time stamp unchanged, so a recent one is not trusted.
_SETTLED_NS = 100_000_000
_AT_ONCE = 256  # command files per call, so that a flood of them does not stop the training
# They change nothing of the training. (A live value of one's own may be called `stop` too.)
_NEVER_WAIT = (("do", "stop"), ("do", "pause"), ("do", "resume"), ("do", "checkpoint"))


@dataclass(frozen=True)
class CommandFile:
    """One file of the inbox: a command, or the problem that makes it unreadable."""

    path: Path
    id: str
    command: Command | None
    problem: str | None


class Inbox:
    """The command files in a run's inbox, oldest first.

    A resumed run makes the changes again that it logged after its checkpoint. New commands wait
    until all of them are made, so the log keeps its order: even another value that is set first
    would take a snapshot, and a recorded `rewind` would go back to that one.

    Args:
      files: of the run.
      is_behind: says whether a recorded change is still to come.
    """

    def __init__(
        self,
        files: ControlFiles,
        is_behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._path, self._is_behind = files.inbox, is_behind
        self._stat_path = str(files.inbox)
        self._seen_ns = -1
        self._not_removable: set[str] = set()

    def command_files(self) -> list[CommandFile]:
        """Returns at most 256 of the command files; costs one `stat` if nothing changed."""
        try:
            changed_ns = os.stat(self._stat_path).st_mtime_ns  # noqa: PTH116 - polled often
            if changed_ns == self._seen_ns:
                return []
            settled = time.time_ns() - changed_ns > _SETTLED_NS
            names = sorted(self._names())
        except OSError:  # the directory was removed or cannot be read, so no command file can come
            return []
        self._seen_ns = changed_ns if settled and len(names) <= _AT_ONCE else -1
        found = [_read(self._path / name) for name in names[:_AT_ONCE]]
        command_files = [command_file for command_file in found if command_file is not None]
        in_turn = [
            command_file for command_file in command_files if not self._must_wait(command_file)
        ]
        if len(in_turn) < len(command_files):
            self._seen_ns = -1  # look again, though the directory stays as it is
        return in_turn

    def remove(self, command_file: CommandFile) -> None:
        """Removes a command file, or ignores it from now on if it cannot be removed."""
        try:
            command_file.path.unlink(missing_ok=True)
        except OSError:
            self._not_removable.add(command_file.path.name)

    def _must_wait(self, command_file: CommandFile) -> bool:
        if command_file.command is None or command_file.command.what in _NEVER_WAIT:
            return False
        return self._is_behind()

    def _names(self) -> list[str]:
        names = {path.name for path in self._path.iterdir()} - self._not_removable
        return [name for name in names if name.endswith(".json") and name[0] != "."]


def is_command_file(name: str) -> bool:
    """Says whether a file of this name is a command file."""
    return bool(_FILE.fullmatch(name))


def _read(path: Path) -> CommandFile | None:
    """Reads a command file; returns None if it was withdrawn since the listing."""
    data = b""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
        command = parse_command(data)
        match = _FILE.fullmatch(path.name)
        if match is None or match[1] != command.id:
            raise BadCommand("the file's name is not <time>-<id of the command>.json")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return CommandFile(path, _id_of_unreadable(path, data), None, reason_of(error))
    return CommandFile(path, command.id, command, None)


def _id_of_unreadable(path: Path, data: bytes) -> str:
    """Returns an id for an unreadable file; the same file has the same id after a crash."""
    return hashlib.sha256(os.fsencode(path.name) + b"\0" + data).hexdigest()[:32]
