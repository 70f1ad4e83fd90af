"""The arrivals of a run whose actors run freely: which actor's delivery came next.

The order in which deliveries reach the learner is all that chance decides in such a run, so a
repeat follows this file. A record has 20 bytes, little-endian: the actor (4 bytes), the gradient
steps that had been made when the delivery was asked for (8), a CRC-32 of the delivery (4), and a
seal (4): the CRC-32 of these 16 bytes, continued from the seal before it. So the last seal stands
for all records, and damage is noticed at the first record that it hit.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.regular_file import open_regular, writing

_RECORD, _SEAL = struct.Struct("<IQI"), struct.Struct("<I")
_BYTES = _RECORD.size + _SEAL.size


class Arrival(NamedTuple):
    """One delivery that reached the learner."""

    actor: int
    updates: int  # gradient steps when it was asked for
    checksum: int  # CRC-32 of what it brought


class ArrivalsFile:
    """A run's arrivals, opened for appending.

    Args:
      path: of the file, which is made if it does not exist.
      length: records that are known to be right.
      seal: of the last of these; None: not known.

    Attributes:
      length: records so far, written yet or not; seal: of the last one, 0 without any.
      ahead: arrivals that the file has beyond `length`: what a run that was killed did then.

    Raises:
      RunDirError: the file is damaged within `length`, or cannot be written.
    """

    def __init__(self, path: Path, length: int = 0, seal: int | None = None) -> None:
        self.length, self.seal = length, require_arrivals(path, length, seal)
        self._path, self.ahead = path, _whole_records(_read(path))[length:]
        self._expected = iter(self.ahead)
        self._unwritten, self._end = b"", _BYTES * length
        with writing(self._path):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            os.ftruncate(self._file, _BYTES * (length + len(self.ahead)))

    def append(self, arrival: Arrival) -> bool:
        """Adds the next arrival in memory; `write` writes it, unless the file has it already.

        Returns:
          False if the file has another one there: `write` puts this one in its place.
        """
        expected = next(self._expected, None)
        data = _RECORD.pack(*arrival)
        self.length, self.seal = self.length + 1, crc32(data, self.seal)
        if arrival == expected:
            self._end += _BYTES
            return True
        # The seals of all that the file has beyond this one are wrong from now on.
        self._expected = iter(())
        self._unwritten += data + _SEAL.pack(self.seal)
        return expected is None

    def write(self) -> None:
        """Writes what was added.

        Raises:
          RunDirError: the disk cannot be written; the next call tries again.
        """
        with writing(self._path):
            while self._unwritten:
                # At a fixed position, so the next write overwrites a half-written one.
                written = os.pwrite(self._file, self._unwritten, self._end)
                self._unwritten, self._end = self._unwritten[written:], self._end + written

    def close(self) -> None:
        """Writes what the file lacks, and closes it; may be called only once.

        Raises:
          RunDirError: it cannot be written.
        """
        try:
            self.write()
        finally:
            os.close(self._file)


def require_arrivals(path: Path, length: int, seal: int | None = None) -> int:
    """Checks the first `length` records; does not change the file.

    Args:
      path: of the file; a missing one has no records.
      seal: expected of the last of them; None skips this check.

    Returns:
      That seal; 0 if `length` is 0.

    Raises:
      RunDirError: there are fewer whole ones, or they are not those that were written.
    """
    data = _read(path)
    whole = len(_whole_records(data))
    if whole < length:
        raise RunDirError(f"{path} is damaged: it has {whole:,} whole records and had {length:,}")
    end = _BYTES * length
    found = _SEAL.unpack(data[end - _SEAL.size : end])[0] if length else 0
    if seal is not None and found != seal:
        raise RunDirError(f"{path} is damaged: not what was written")
    return int(found)


def read_arrivals(path: Path, least: int) -> list[Arrival]:
    """Returns all whole records.

    Raises:
      RunDirError: there are fewer than `least`, or the file cannot be read.
    """
    require_arrivals(path, least)
    return _whole_records(_read(path))


def _whole_records(data: bytes) -> list[Arrival]:
    """Returns the records up to the first one whose seal is wrong."""
    records, before = [], 0
    for at in range(0, len(data) - _BYTES + 1, _BYTES):
        content = data[at : at + _RECORD.size]
        (seal,) = _SEAL.unpack(data[at + _RECORD.size : at + _BYTES])
        if seal != crc32(content, before):
            break
        records.append(Arrival(*_RECORD.unpack(content)))
        before = seal
    return records


def _read(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
