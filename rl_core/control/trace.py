"""The trace of a run: a checksum per time step, which shows where two runs begin to differ.

The checksums are computed from the replay's rows, some hundred time steps at once, so they cost
the loop nothing. A checksum is four bytes, little-endian. Checkpoints and the digest at a run's end
hold a CRC-32 of the file, so a damaged trace is not mistaken for a different run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.regular_file import open_regular, writing

_BYTES = 4  # per checksum
_ODD = 2_654_435_761  # odd factors: if exactly one word differs, the sum differs


def checksums(columns: Sequence[np.ndarray | None]) -> np.ndarray:
    """Returns a checksum per time step, [T] uint32, of columns [T, ...] of any dtype.

    Equal bits give equal checksums. A column that is None is ignored.
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
    """A run's trace, opened for appending.

    Args:
      path: path of the file, which is made if it does not exist.
      length: time steps to keep; the file is truncated to them.
      crc: CRC-32 of these time steps, if known.

    Attributes:
      crc: CRC-32 of all time steps, including those not yet written.

    Raises:
      RunDirError: the file is too short, does not match `crc`, or cannot be written.
    """

    def __init__(self, path: Path, length: int = 0, crc: int | None = None) -> None:
        self.crc = require_trace(path, length, crc)
        self._path, self._end = path, _BYTES * length
        self._unwritten = b""
        with writing(path):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            os.ftruncate(self._file, self._end)

    def append(self, values: np.ndarray) -> None:
        """Adds checksums in memory; `write` writes them to the file."""
        data = values.astype("<u4").tobytes()
        self.crc = crc32(data, self.crc)
        self._unwritten += data

    def write(self) -> None:
        """Writes the appended checksums.

        Raises:
          RunDirError: the disk cannot be written; the next call tries again.
        """
        with writing(self._path):
            while self._unwritten:
                # At a fixed position, so the next write overwrites a half-written one.
                written = os.pwrite(self._file, self._unwritten, self._end)
                self._unwritten, self._end = self._unwritten[written:], self._end + written

    def close(self) -> None:
        """Closes the file; may be called only once."""
        os.close(self._file)


def require_trace(path: Path, length: int, crc: int | None = None) -> int:
    """Checks the first `length` time steps of a trace; does not change the file.

    Args:
      path: path of the file; a missing file is an empty trace.
      length: time steps that the trace must have at least.
      crc: expected CRC-32 of these time steps; None skips this check.

    Returns:
      The CRC-32 of the first `length` time steps.

    Raises:
      RunDirError: the trace is too short, does not match `crc`, or cannot be read.
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
    """Returns the checksums of a trace, [time steps] uint32.

    An incomplete last checksum is dropped; a missing file is an empty trace.

    Raises:
      RunDirError: the file cannot be read.
    """
    try:
        with open_regular(path) as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
    return np.frombuffer(data[: len(data) // _BYTES * _BYTES], "<u4")
