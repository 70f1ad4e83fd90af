"""The log of all commands to a run; a repeat of the run follows this log.

The log has one JSON object per line, and only the run appends to it. A line is written and synced
before the command's file is removed; a crash between the two leaves the file, and the log already
has its id.

Each line ends with a seal over its text and its position in the file. The seal reveals a flipped
digit and a missing line in the middle, even to a reader of the last lines alone. Missing lines at
the end are revealed by the run's state and its checkpoints, which record the log's length. Logs of
version 0.1 have no seals and are accepted.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from targetnet.rl_core.control.commands import WEIGHT_ACTIONS, require_shallow
from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.files import open_regular, writing
from targetnet.rl_core.hyperparameters import as_text
from targetnet.rl_core.seal import sealed_line, unsealed_line

_BLOCK = 1 << 16  # bytes per read when the file is read backwards from its end
_Moment = Annotated[float, Field(ge=0, le=1e11)]  # seconds that a calendar can show


class Entry(BaseModel):
    """One command and its result.

    Attributes:
      id: id of the command.
      asked, time: when it was sent and when it was answered, in seconds since the epoch.
      who: cli, board, api, mcp, schedule for what the config plans, controller, or pbt for an
        exchange between members of a population.
      kind: set, do, or unreadable.
      name: name of the live value or of the action.
      value: the requested value; a replay sets it again.
      old, new: value before and after; for `do sync` the target's age; for `do rewind` the
        present update and the snapshot's update; for `do recycle` the dormant units and all.
      taken: False if the command was refused; `reason` says why.
      tick: time steps of all envs when it was applied; a replay applies it there.
      env_step, update: env steps and updates when it was applied.
    """

    # No other keys: a damaged letter in an optional key would silently give its default.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    asked: FiniteFloat  # by the sender's clock
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
        """Returns text such as "sync_period 500 -> 50 at update 12,431 (env step 49,724)"."""
        where = f"at update {self.update:,} (env step {self.env_step:,})"
        if not self.taken:
            what = f"{self.name} = {as_text(self.value)}" if self.kind == "set" else self.name
            return f"refused {what}: {self.reason}"
        if self.kind == "set":
            auto = " (auto)" if self.value == "auto" and self.who != "schedule" else ""
            return f"{self.name} {as_text(self.old)} -> {as_text(self.new)}{auto} {where}"
        if self.name == "rewind":
            return f"rewind to the snapshot of update {as_text(self.new)}, {where}"
        if self.name == "recycle" and self.value is None:
            return f"recycle: {self._units()} {where}"
        if self.name in WEIGHT_ACTIONS:
            units = f": {self._units()}" if self.name == "recycle" else ""
            return f"{self.name} {as_text(self.value)}{units} {where}"
        if self.name == "copy" and isinstance(self.value, dict):
            update = as_text(self.value.get("update"))
            return f"copy of {as_text(self.value.get('member'))} (its update {update}) {where}"
        if self.name == "lend" and isinstance(self.value, dict):
            return f"copied by {as_text(self.value.get('members'))} {where}"
        return f"{self.name} {where}"

    def _units(self) -> str:
        return f"{as_text(self.old)} of {as_text(self.new)} units"


class ControlLog:
    """A run's log, opened for appending.

    Opening drops an incomplete last line, which a crash can leave.

    Attributes:
      ids: ids of all entries.
      length: bytes of all complete lines.

    Raises:
      RunDirError: the log cannot be opened, or a line is damaged.
    """

    def __init__(self, path: Path) -> None:
        entries, self.length = _entries(path)
        self.ids = {entry.id for entry in entries}
        self._path = path
        with writing(path):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            self.closed = False
            os.ftruncate(self._file, self.length)

    def append(self, entries: Iterable[Entry]) -> None:
        """Writes and syncs entries; after the return they survive a power cut.

        Raises:
          RunDirError: the disk cannot be written; the log then has none of the entries.
        """
        entries = list(entries)
        data = b"".join(_lines(entries, self.length))
        end = self.length + len(data)
        with writing(self._path):
            try:
                # At its place: whatever interrupts this, the next try writes over it.
                position = self.length
                while data:
                    written = os.pwrite(self._file, data, position)
                    data, position = data[written:], position + written
                os.fsync(self._file)
            except OSError:
                # Otherwise the next line would follow half a line.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self.length)
                raise
        self.length = end
        self.ids.update(entry.id for entry in entries)

    def close(self) -> None:
        """Closes the log; may be called only once."""
        self.closed = True
        os.close(self._file)


class LogTail:
    """A reader of a growing log.

    Args:
      path: path of the log, which may be created later.
      position: byte at which to begin, the end of a line; None begins at the end of the log.
      last: number of complete lines before the end at which to begin, if `position` is None.
      most: bytes to read at a time, for a log that may be huge or damaged; None reads all.

    Attributes:
      position: byte up to which the log was read.

    Raises:
      RunDirError: the log cannot be read, or `most` bytes hold no whole line.
    """

    def __init__(
        self,
        path: Path,
        *,
        position: int | None = None,
        last: int = 0,
        most: int | None = None,
    ) -> None:
        self._path, self._most = path, most
        self.position = _start_of_last(path, last, most) if position is None else position

    def new(self) -> list[Entry]:
        """Returns the entries of the complete lines since the last call, or the first of them.

        Raises:
          RunDirError: the log cannot be read, or a line is damaged.
        """
        with _reading(self._path), open_regular(self._path) as file:
            file.seek(self.position)
            data = file.read(-1 if self._most is None else self._most)
            if self._most is not None and len(data) == self._most and b"\n" not in data:
                raise _line_too_long(self._path, self._most)
            whole = data[: data.rfind(b"\n") + 1]
            entries = _parsed(self._path, whole, self.position)
            self.position += len(whole)
            return entries
        return []


def read_log(path: Path) -> list[Entry]:
    """Returns all entries of a log; none if there is no file.

    Raises:
      RunDirError: the log cannot be read, or a line is damaged.
    """
    return _entries(path)[0]


def entries_to_do(path: Path, done: Mapping[str, Any]) -> list[Entry]:
    """Returns the entries that a run resumed from a checkpoint has to apply again.

    These are the entries after the checkpoint, and entries that the run itself, after an earlier
    resume, had still to apply when it wrote the checkpoint.

    Args:
      path: path of the log.
      done: the checkpoint's `Steering.log_state`.

    Raises:
      RunDirError: the log cannot be read, or a line is damaged.
    """
    tail = LogTail(path, position=done["bytes"])
    before = [entry for entry in read_log(path) if entry.id in done["to_do"]]
    return [*before, *tail.new()]


def require_length(path: Path, length: int) -> None:
    """Checks that a log has at least `length` bytes.

    Raises:
      RunDirError: the log is shorter, so answered commands are missing.
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
    """Yields the line of each entry; the first line begins at byte `position`."""
    for entry in entries:
        line = sealed_line(_json(entry).encode(), position)
        position += len(line)
        yield line


def _json(entry: Entry) -> str:
    try:
        return json.dumps(entry.model_dump(), allow_nan=False)
    except ValueError:  # a refused NaN, which JSON cannot represent
        return json.dumps(entry.model_copy(update={"value": str(entry.value)}).model_dump())


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Ignores a missing file inside this context; raises every other error as RunDirError."""
    try:
        yield
    except FileNotFoundError:
        return
    except RunDirError:
        raise
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None


def _entries(path: Path) -> tuple[list[Entry], int]:
    """Returns the entries of the complete lines, and the number of bytes of these lines."""
    tail = LogTail(path, position=0)
    return tail.new(), tail.position


def _parsed(path: Path, whole: bytes, position: int) -> list[Entry]:
    """Returns the entries of complete lines; the first line begins at byte `position`."""
    entries, sealed, first = [], False, position
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        # A text has no raw newline: JSON escapes newlines.
        try:
            text = unsealed_line(line, position)
        except ValueError:
            _damaged(path, number, first, position, "not what was written")
        sealed = sealed or text is not None
        if sealed and text is None:
            _damaged(path, number, first, position, "not what was written")
        try:
            fields = json.loads(text or line)
            if isinstance(fields, dict):
                require_shallow(fields)  # a deep one could be read, and not be written again
            entries.append(Entry.model_validate(fields))
        except (ValueError, RecursionError, ValidationError):
            _damaged(path, number, first, position, "no log entry")
        position += len(line) + 1
    return entries


def _damaged(path: Path, number: int, first: int, position: int, problem: str) -> NoReturn:
    where = f"the line at byte {position:,}" if first else f"line {number}"
    raise RunDirError(f"{path} is damaged: {where} is {problem}")


def _line_too_long(path: Path, most: int) -> RunDirError:
    return RunDirError(f"{path} is damaged: {most:,} bytes of it hold no whole line")


def _start_of_last(path: Path, lines: int, most: int | None) -> int:
    """Returns the byte at which the last `lines` complete lines begin.

    If they have more than `most` bytes, it is the first line that begins in the last `most` bytes.
    """
    with _reading(path), open_regular(path) as file:
        end = size = file.seek(0, io.SEEK_END)
        left = lines + 1  # the newline before the first of these lines counts too
        start = None  # of the first line found so far
        while end > 0:
            if most is not None and size - end >= most:
                if start is None:
                    raise _line_too_long(path, most)
                return start
            begin = max(0, end - _BLOCK)
            file.seek(begin)
            block = file.read(end - begin)
            while (at := block.rfind(b"\n")) >= 0:
                left -= 1
                start = begin + at + 1
                if left == 0:
                    return start
                block = block[:at]
            end = begin
    return 0
