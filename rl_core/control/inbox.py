"""The run's side of the inbox: one `stat` when nothing has come."""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from rl_core.control.commands import MAX_BYTES, BadCommand, Command, parse
from rl_core.control.files import ControlFiles
from rl_core.errors import reason_of
from rl_core.regular_file import open_regular

_FILE = re.compile(r"\d{1,20}-([0-9a-f]{32})\.json")
# A directory's time stamp advances in ticks of some milliseconds: a file that comes in the same
# tick as the last look would otherwise never be seen.
_SETTLED_NS = 100_000_000
_AT_ONCE = 256  # letters: a flood of them must not keep the run from training


@dataclass(frozen=True)
class Letter:
    """One file of the inbox: a command, or why it is none."""

    path: Path
    id: str
    command: Command | None
    problem: str | None


class Inbox:
    """Lists what has come, oldest first."""

    def __init__(self, files: ControlFiles) -> None:
        self._path = files.inbox
        self._stat_path = str(files.inbox)
        self._seen_ns = -1
        self._immovable: set[str] = set()

    def letters(self) -> list[Letter]:
        """What is there and was not removed, a few at a time. One `stat` if nothing changed."""
        try:
            changed_ns = os.stat(self._stat_path).st_mtime_ns  # noqa: PTH116 - polled often
            if changed_ns == self._seen_ns:
                return []
            settled = time.time_ns() - changed_ns > _SETTLED_NS
            names = sorted(self._names())
        except OSError:  # somebody removed the directory, or closed it: nothing can come
            return []
        self._seen_ns = changed_ns if settled and len(names) <= _AT_ONCE else -1
        found = (_read(self._path / name) for name in names[:_AT_ONCE])
        return [letter for letter in found if letter is not None]

    def remove(self, letter: Letter) -> None:
        """Takes a letter out; what cannot be removed, a directory say, is not listed again."""
        try:
            letter.path.unlink(missing_ok=True)
        except OSError:
            self._immovable.add(letter.path.name)

    def _names(self) -> list[str]:
        names = {path.name for path in self._path.iterdir()} - self._immovable
        return [name for name in names if name.endswith(".json") and name[0] != "."]


def _read(path: Path) -> Letter | None:
    """None if it was withdrawn in between."""
    data = b""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
        command = parse(data)
        match = _FILE.fullmatch(path.name)
        if match is None or match[1] != command.id:
            raise BadCommand("the file's name is not <time>-<id of the command>.json")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return Letter(path, _stand_in_id(path, data), None, reason_of(error))
    return Letter(path, command.id, command, None)


def _stand_in_id(path: Path, data: bytes) -> str:
    """The same for the same file, so that a refusal is logged once also across a crash."""
    return hashlib.sha256(os.fsencode(path.name) + b"\0" + data).hexdigest()[:32]
