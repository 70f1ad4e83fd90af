"""A checksum per time step: where two runs of the same history begin to differ.

The checksum runs on, so once two runs differ they do for good, and the first entry that
differs is the place. Four bytes a time step, little-endian.

Imports: rl_core.errors.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import numpy as np

from rl_core.errors import RunDirError


class TraceWriter:
    """Appends one run's trace to a file.

    Raises:
      RunDirError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._checksum = 0
        self._waiting = array("I")

    def add(self, arrays: Iterable[np.ndarray]) -> int:
        """Ends one time step, in which these were seen; returns its checksum."""
        checksum = self._checksum
        for values in arrays:
            checksum = crc32(values.data, checksum)
        self._waiting.append(checksum)
        self._checksum = checksum
        return checksum

    def flush(self) -> None:
        """Puts what was added into the file."""
        if not self._waiting:
            return
        try:
            with self._path.open("ab") as file:
                file.write(np.asarray(self._waiting, "<u4").tobytes())
        except OSError as error:
            raise RunDirError(f"cannot write {self._path}: {error.strerror}") from None
        del self._waiting[:]


def read_trace(path: Path) -> np.ndarray:
    """[ticks] uint32; a last entry that was cut short is left out, no file is an empty trace."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    return np.frombuffer(data[: len(data) // 4 * 4], "<u4")
