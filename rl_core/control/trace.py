"""A checksum per time step: where two runs of the same history begin to differ.

The time steps are read from the replay's rows some hundred at a time, so the loop pays nothing
for them. Four bytes a time step, little-endian. Checkpoints and the digest at a run's end keep a
CRC-32 of the file, so a damaged trace is not taken for a run that came out different.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from rl_core.errors import RunDirError, reason_of
from rl_core.regular_file import open_regular

_BYTES = 4  # of one checksum
_ODD = 2_654_435_761  # times an odd number: wherever one word differs, so does the sum


def checksums(columns: Sequence[np.ndarray | None]) -> np.ndarray:
    """[T] uint32 of columns [T, ...] of any kind: equal bits, equal checksums.

    A column that is None counts as if it were not in the sequence.
    """
    there = [np.ascontiguousarray(c) for c in columns if c is not None]
    T = len(there[0])
    parts = [c.reshape(T, -1).view(np.uint8) for c in there]
    size = sum(part.shape[1] for part in parts)
    parts.append(np.zeros((T, -size % 4), np.uint8))
    words = np.concatenate(parts, axis=1).view("<u4")  # [T, W]
    factors = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint32) * np.uint32(_ODD)
    return (words * factors).sum(axis=1, dtype=np.uint32)


class TraceFile:
    """Appends to a run's trace.

    Args:
      path: of the file, which is made if it is not there.
      length: time steps that are kept; what the file has beyond them is dropped.
      crc: of these, where it is known.

    Attributes:
      crc: CRC-32 of everything that was appended, written yet or not.

    Raises:
      RunDirError: the file has fewer time steps or others, or it cannot be written.
    """

    def __init__(self, path: Path, length: int = 0, crc: int | None = None) -> None:
        self.crc = require_trace(path, length, crc)
        self._path, self._end = path, _BYTES * length
        self._unwritten = b""
        with _writing(path):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            os.ftruncate(self._file, self._end)

    def append(self, values: np.ndarray) -> None:
        """Adds checksums; `write` brings them to the disk."""
        data = values.astype("<u4").tobytes()
        self.crc = crc32(data, self.crc)
        self._unwritten += data

    def write(self) -> None:
        """Writes what was appended.

        Raises:
          RunDirError: the disk is full, or gone; the next call tries again.
        """
        with _writing(self._path):
            while self._unwritten:
                # At a fixed place: what was written by half is written over.
                written = os.pwrite(self._file, self._unwritten, self._end)
                self._unwritten, self._end = self._unwritten[written:], self._end + written

    def close(self) -> None:
        """Call it once."""
        os.close(self._file)


def require_trace(path: Path, length: int, crc: int | None = None) -> int:
    """Checks that a trace begins with what was written, and changes nothing.

    Args:
      path: of the file; none is an empty trace.
      length: time steps.
      crc: of these; None does not look at them.

    Returns:
      The CRC-32 of the first `length` time steps.

    Raises:
      RunDirError: the trace is shorter, or other than it was; or it cannot be read.
    """
    data = read_trace(path)[:length].tobytes()
    if len(data) < _BYTES * length:
        steps = f"{len(data) // _BYTES:,} time steps and had {length:,}"
        raise RunDirError(f"{path} is damaged: it has {steps}")
    found = crc32(data)
    if crc is not None and found != crc:
        raise RunDirError(f"{path} is damaged: not what was written")
    return found


def read_trace(path: Path) -> np.ndarray:
    """[time steps] uint32; an entry that was cut short is left out, no file is an empty trace.

    Raises:
      RunDirError: it cannot be read.
    """
    try:
        with open_regular(path) as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
    return np.frombuffer(data[: len(data) // _BYTES * _BYTES], "<u4")


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunDirError(f"cannot write {path}: {error.strerror}") from None
