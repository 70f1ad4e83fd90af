"""The log of everything that was asked of a run: the source of truth for repeating it.

One JSON object a line, appended by the run alone. A line is written and synced before the
command's file is removed: a crash in between leaves the file, whose id the log already has.

Imports: rl_core.errors, rl_core.hyperparameters.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from rl_core.errors import RunDirError
from rl_core.hyperparameters import as_text


class Entry(BaseModel):
    """One command and what became of it.

    Attributes:
      id: of the command.
      asked, time: seconds since the epoch, when it was sent and when it was answered.
      who: cli, board, api, or schedule for a corner that a schedule passed.
      kind: set, do, or unreadable.
      name: of the live value or of the action.
      value: as asked for; this is what a replay sets.
      old, new: the value before and after; of `do sync` the target's age, of `do rewind` the
        update now and the one of the snapshot.
      taken: False if it was refused; `reason` says why.
      tick: time steps of all envs until then: where a replay applies it.
      env_step, update: how far the run was.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    id: str
    asked: float
    time: float
    who: str
    kind: Literal["set", "do", "unreadable"]
    name: str
    value: Any = None
    old: Any = None
    new: Any = None
    taken: bool = True
    reason: str | None = None
    tick: int
    env_step: int
    update: int

    def describe(self) -> str:
        """For people: "sync_period 500 -> 50 at update 12,431 (env step 49,724)"."""
        where = f"at update {self.update:,} (env step {self.env_step:,})"
        if not self.taken:
            what = f"{self.name} = {as_text(self.value)}" if self.kind == "set" else self.name
            return f"refused {what}: {self.reason}"
        if self.kind == "set":
            auto = " (auto)" if self.value == "auto" and self.who != "schedule" else ""
            return f"{self.name} {as_text(self.old)} -> {as_text(self.new)}{auto} {where}"
        if self.name == "rewind":
            return f"rewind to what was learned at update {self.new:,}, {where}"
        return f"{self.name} {where}"


class ControlLog:
    """Appends to a run's log and remembers which ids it has.

    A line that a crash cut short is dropped when the log is opened.

    Raises:
      RunDirError: the log cannot be opened, or a line of it is damaged.
    """

    def __init__(self, path: Path) -> None:
        entries, length = _entries(path)
        self.ids = {entry.id for entry in entries}
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            self.closed = False
            os.ftruncate(self._file, length)
            os.lseek(self._file, length, os.SEEK_SET)
            self._length = length
        except OSError as error:
            raise RunDirError(f"cannot write {path}: {error.strerror}") from None

    def append(self, entries: Iterable[Entry]) -> None:
        """Writes all of them, safe also across a power cut, before it returns.

        Raises:
          RunDirError: the disk is full, or gone; nothing of them is in the log.
        """
        entries = list(entries)
        data = "".join(_line(entry) for entry in entries).encode()
        end = self._length + len(data)
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            # Else the next line would be appended to half a line.
            os.ftruncate(self._file, self._length)
            os.lseek(self._file, self._length, os.SEEK_SET)
            raise RunDirError(f"cannot write {self._path}: {error.strerror}") from None
        self._length = end
        self.ids.update(entry.id for entry in entries)

    def close(self) -> None:
        """Call it once."""
        self.closed = True
        os.close(self._file)


class LogTail:
    """Reads a growing log.

    Args:
      path: of the log; it need not be there yet.
      position: byte to begin at, the end of a line; None for the end of the last whole line.
    """

    def __init__(self, path: Path, *, position: int | None = None) -> None:
        self._path = path
        # Not the size: half a line may be there, that is being written or will be dropped.
        self.position = _whole(path) if position is None else position

    def new(self) -> list[Entry]:
        """Whole lines that came since the last call."""
        if _size(self._path) <= self.position:
            return []
        with self._path.open("rb") as file:
            file.seek(self.position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.position += len(whole)
        return _parsed(self._path, whole)


def read_log(path: Path) -> list[Entry]:
    """The whole lines of a log; none if there is no file.

    Raises:
      RunDirError: a line of it is damaged.
    """
    return _entries(path)[0]


def _line(entry: Entry) -> str:
    try:
        return json.dumps(entry.model_dump(), allow_nan=False) + "\n"
    except ValueError:  # a NaN that was refused; JSON has none
        return json.dumps(entry.model_copy(update={"value": str(entry.value)}).model_dump()) + "\n"


def _entries(path: Path) -> tuple[list[Entry], int]:
    """The entries of the whole lines, and how many bytes those are."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise RunDirError(f"cannot read {path}: {error.strerror}") from None
    length = data.rfind(b"\n") + 1
    return _parsed(path, data[:length]), length


def _parsed(path: Path, whole: bytes) -> list[Entry]:
    entries = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entries.append(Entry.model_validate(json.loads(line)))
        except (ValueError, ValidationError):
            raise RunDirError(f"{path} is damaged: line {number} is no log entry") from None
    return entries


def _whole(path: Path) -> int:
    """How many bytes the whole lines have."""
    try:
        return path.read_bytes().rfind(b"\n") + 1
    except FileNotFoundError:
        return 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
