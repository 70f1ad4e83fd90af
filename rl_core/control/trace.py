"""A checksum per time step: where two runs of the same history begin to differ.

The time steps are read from the replay's rows some hundred at a time, so the loop pays nothing
for them. Four bytes a time step, little-endian.

Imports: rl_core.errors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rl_core.errors import RunDirError

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


def append_trace(path: Path, values: np.ndarray) -> None:
    """Adds checksums to a trace file.

    Raises:
      RunDirError: it cannot be written.
    """
    try:
        with path.open("ab") as file:
            file.write(values.astype("<u4").tobytes())
    except OSError as error:
        raise RunDirError(f"cannot write {path}: {error.strerror}") from None


def cut_trace(path: Path, length: int) -> None:
    """Drops all but the first `length` checksums.

    Raises:
      RunDirError: it has fewer, or cannot be written.
    """
    try:
        if path.stat().st_size < 4 * length:
            raise RunDirError(f"{path} is damaged: it is shorter than it was")
        os.truncate(path, 4 * length)
    except OSError as error:
        if isinstance(error, RunDirError):
            raise
        raise RunDirError(f"cannot write {path}: {error.strerror}") from None


def read_trace(path: Path) -> np.ndarray:
    """[time steps] uint32; an entry that was cut short is left out, no file is an empty trace.

    Raises:
      RunDirError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise RunDirError(f"cannot read {path}: {error.strerror}") from None
    return np.frombuffer(data[: len(data) // 4 * 4], "<u4")
