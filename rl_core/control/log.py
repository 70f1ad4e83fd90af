"""The log of everything that was asked of a run: the source of truth for repeating it.

One JSON object a line, appended by the run alone. A line is written and synced before the
command's file is removed: a crash in between leaves the file, whose id the log already has.

Each line ends with a seal over its own text and its place in the file, so a flipped digit and
a line that is missing in the middle are noticed, also by somebody who reads only the end. What
is missing at the end is noticed by those who know how long the log was: the run's state and
its checkpoints. Logs of version 0.1 have no seals and are read as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from rl_core.errors import RunDirError, reason_of
from rl_core.hyperparameters import as_text
from rl_core.regular_file import open_regular

_SEALED = re.compile(rb'(.*), "seal": "([0-9a-f]{16})"\}', re.DOTALL)
_BLOCK = 1 << 16  # bytes that are read at once on the way back from the end
_Moment = Annotated[float, Field(ge=0, le=1e11)]  # a calendar has it


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

    # No other keys: one of these with a letter changed would be its default instead.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    asked: FiniteFloat  # as the sender says
    time: _Moment
    who: str
    kind: Literal["set", "do", "unreadable"]
    name: str
    value: Any = None
    old: Any = None
    new: Any = None
    taken: bool = True
    reason: str | None = None
    tick: int = Field(ge=0)
    env_step: int = Field(ge=0)
    update: int = Field(ge=0)

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
            return f"rewind to what was learned at update {as_text(self.new)}, {where}"
        return f"{self.name} {where}"


class ControlLog:
    """Appends to a run's log and remembers which ids it has.

    A line that a crash cut short is dropped when the log is opened.

    Attributes:
      ids: of all entries.
      length: bytes of the whole lines.

    Raises:
      RunDirError: the log cannot be opened, or a line of it is damaged.
    """

    def __init__(self, path: Path) -> None:
        entries, self.length = _entries(path)
        self.ids = {entry.id for entry in entries}
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            self.closed = False
            os.ftruncate(self._file, self.length)
            os.lseek(self._file, self.length, os.SEEK_SET)
        except OSError as error:
            raise RunDirError(f"cannot write {path}: {error.strerror}") from None

    def append(self, entries: Iterable[Entry]) -> None:
        """Writes all of them, safe also across a power cut, before it returns.

        Raises:
          RunDirError: the disk is full, or gone; nothing of them is in the log.
        """
        entries = list(entries)
        data = b"".join(_lines(entries, self.length))
        end = self.length + len(data)
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            # Else the next line would be appended to half a line.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.length)
            os.lseek(self._file, self.length, os.SEEK_SET)
            raise RunDirError(f"cannot write {self._path}: {error.strerror}") from None
        self.length = end
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
      last: begins so many whole lines before the end, if `position` is not given.

    Attributes:
      position: byte up to which it was read.

    Raises:
      RunDirError: the log cannot be read.
    """

    def __init__(self, path: Path, *, position: int | None = None, last: int = 0) -> None:
        self._path = path
        self.position = _begin_of_last(path, last) if position is None else position

    def new(self) -> list[Entry]:
        """Whole lines that came since the last call.

        Raises:
          RunDirError: the log cannot be read, or a line of it is damaged.
        """
        with _reading(self._path), open_regular(self._path) as file:
            file.seek(self.position)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            entries = _parsed(self._path, whole, self.position)
            self.position += len(whole)
            return entries
        return []


def read_log(path: Path) -> list[Entry]:
    """The whole lines of a log; none if there is no file.

    Raises:
      RunDirError: it cannot be read, or a line of it is damaged.
    """
    return _entries(path)[0]


def entries_to_do(path: Path, done: Mapping[str, Any]) -> list[Entry]:
    """What a run logged after a checkpoint, or was still to do again when it was taken.

    Args:
      path: of the log.
      done: what `Steering.log_state` said for the checkpoint.

    Raises:
      RunDirError: the log cannot be read, or a line of it is damaged.
    """
    tail = LogTail(path, position=done["bytes"])
    before = [entry for entry in read_log(path) if entry.id in done["to_do"]]
    return [*before, *tail.new()]


def require_length(path: Path, length: int) -> None:
    """Checks that a log is still as long as it was.

    Raises:
      RunDirError: it is shorter than `length` bytes: answered commands are missing.
    """
    size = 0
    with _reading(path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size < length:
        raise RunDirError(
            f"{path} is damaged: it has {size:,} bytes and had {length:,}, so answered commands "
            "are missing"
        )


def _lines(entries: Iterable[Entry], position: int) -> Iterator[bytes]:
    """Each entry as the line that belongs at its place; the first one at `position`."""
    for entry in entries:
        body = _json(entry).encode()[:-1]
        line = body + b', "seal": "' + _seal(body, position) + b'"}\n'
        position += len(line)
        yield line


def _json(entry: Entry) -> str:
    try:
        return json.dumps(entry.model_dump(), allow_nan=False)
    except ValueError:  # a NaN that was refused; JSON has none
        return json.dumps(entry.model_copy(update={"value": str(entry.value)}).model_dump())


def _seal(body: bytes, position: int) -> bytes:
    return hashlib.sha256(b"%d " % position + body).hexdigest()[:16].encode()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Within, no file is no error; everything else is one line."""
    try:
        yield
    except FileNotFoundError:
        return
    except RunDirError:
        raise
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None


def _entries(path: Path) -> tuple[list[Entry], int]:
    """The entries of the whole lines, and how many bytes those are."""
    tail = LogTail(path, position=0)
    return tail.new(), tail.position


def _parsed(path: Path, whole: bytes, position: int) -> list[Entry]:
    """The entries of whole lines, the first of which is at byte `position`."""
    entries, sealed, first = [], False, position
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        # Line ends of the body itself are escaped in JSON.
        match = _SEALED.fullmatch(line)
        sealed = sealed or match is not None
        if sealed and (match is None or _seal(match[1], position) != match[2]):
            _damaged(path, number, first, position, "not what was written")
        try:
            text = match[1] + b"}" if match else line
            entries.append(Entry.model_validate(json.loads(text)))
        except (ValueError, RecursionError, ValidationError):
            _damaged(path, number, first, position, "no log entry")
        position += len(line) + 1
    return entries


def _damaged(path: Path, number: int, first: int, position: int, problem: str) -> NoReturn:
    where = f"the line at byte {position:,}" if first else f"line {number}"
    raise RunDirError(f"{path} is damaged: {where} is {problem}")


def _begin_of_last(path: Path, lines: int) -> int:
    """Where the last so many whole lines begin: half a line may follow them."""
    with _reading(path), open_regular(path) as file:
        end = file.seek(0, io.SEEK_END)
        left = lines + 1  # the end of the line before them is wanted
        while end > 0:
            begin = max(0, end - _BLOCK)
            file.seek(begin)
            block = file.read(end - begin)
            while (at := block.rfind(b"\n")) >= 0:
                left -= 1
                if left == 0:
                    return begin + at + 1
                block = block[:at]
            end = begin
    return 0
