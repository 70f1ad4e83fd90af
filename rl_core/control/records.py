"""Append-only files of checksums: the trace of a run, and the arrivals of its actors' deliveries.

The trace has a checksum per time step, which shows where two runs begin to differ. They are
computed from the replay's rows, some hundred time steps at once, or in the graph, so they cost the
loop nothing. A checksum is four bytes, little-endian. Checkpoints and the digest at a run's end
hold a CRC-32 of the file, so a damaged trace is not mistaken for a different run.

The order in which deliveries reach the learner is all that chance decides in a run whose actors run
freely, so a repeat follows the arrivals. A record has 20 bytes, little-endian: the actor (4 bytes),
the gradient steps that had been made when the delivery was asked for (8), a CRC-32 of the delivery
(4), and a seal (4): the CRC-32 of these 16 bytes, continued from the seal before it. So the last
seal stands for all records, and damage is noticed at the first record that it hit.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.files import open_regular, writing


class _RecordFile:
    """A file that only grows, opened for appending. `close` may be called only once.

    Args:
      path: of the file, which is made if it does not exist.
      end: bytes of it that are known to be right; writing goes on there.
      size: bytes that it keeps.

    Raises:
      RunDirError: it cannot be written.
    """

    def __init__(self, path: Path, end: int, size: int) -> None:
        self._path, self._end, self._unwritten = path, end, b""
        with writing(path):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            os.ftruncate(self._file, size)

    def write(self) -> None:
        """Writes what was appended.

        Raises:
          RunDirError: the disk cannot be written; the next call tries again.
        """
        with writing(self._path):
            while self._unwritten:
                # At a fixed position, so the next write overwrites a half-written one.
                written = os.pwrite(self._file, self._unwritten, self._end)
                self._unwritten, self._end = self._unwritten[written:], self._end + written

    def close(self) -> None:
        """Closes the file, without what is not written."""
        os.close(self._file)


# The trace.

_CHECKSUM_BYTES = 4  # per checksum


class TraceFile(_RecordFile):
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
        end = _CHECKSUM_BYTES * length
        super().__init__(path, end, end)

    def append(self, values: np.ndarray) -> None:
        """Adds checksums in memory; `write` writes them to the file."""
        data = values.astype("<u4").tobytes()
        self.crc = crc32(data, self.crc)
        self._unwritten += data


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
    if len(data) < _CHECKSUM_BYTES * length:
        steps = f"{len(data) // _CHECKSUM_BYTES:,} time steps and had {length:,}"
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
    data = _read(path)
    return np.frombuffer(data[: len(data) // _CHECKSUM_BYTES * _CHECKSUM_BYTES], "<u4")


# Arrivals.

_RECORD, _SEAL = struct.Struct("<IQI"), struct.Struct("<I")
_ARRIVAL_BYTES = _RECORD.size + _SEAL.size


class Arrival(NamedTuple):
    """One delivery that reached the learner."""

    actor: int
    updates: int  # gradient steps when it was asked for
    checksum: int  # CRC-32 of what it brought


class ArrivalsFile(_RecordFile):
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
        self.ahead = _whole_records(_read(path))[length:]
        self._expected = iter(self.ahead)
        end = _ARRIVAL_BYTES * length
        super().__init__(path, end, end + _ARRIVAL_BYTES * len(self.ahead))

    def append(self, arrival: Arrival) -> bool:
        """Adds the next arrival in memory; `write` writes it, unless the file has it already.

        Returns:
          False if the file has another one there: `write` puts this one in its place.
        """
        expected = next(self._expected, None)
        data = _RECORD.pack(*arrival)
        self.length, self.seal = self.length + 1, crc32(data, self.seal)
        if arrival == expected:
            self._end += _ARRIVAL_BYTES
            return True
        # The seals of all that the file has beyond this one are wrong from now on.
        self._expected = iter(())
        self._unwritten += data + _SEAL.pack(self.seal)
        return expected is None

    def close(self) -> None:
        """Writes what the file lacks, and closes it; may be called only once.

        Raises:
          RunDirError: it cannot be written.
        """
        try:
            self.write()
        finally:
            super().close()


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
    end = _ARRIVAL_BYTES * length
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
    for at in range(0, len(data) - _ARRIVAL_BYTES + 1, _ARRIVAL_BYTES):
        content = data[at : at + _RECORD.size]
        (seal,) = _SEAL.unpack(data[at + _RECORD.size : at + _ARRIVAL_BYTES])
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
