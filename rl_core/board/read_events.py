"""Reader of the scalars in event files, without TensorFlow.

The files of a run may be damaged or written by somebody else: reading stops at the first record
that is not whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2

from rl_core.board.records import checksum
from rl_core.regular_file import open_regular

_MOST_BYTES = 1 << 24  # of a record; the largest real one is a GIF of `targetnet play --to-board`
_LENGTH = struct.Struct("<Q")


class Row(NamedTuple):
    """The points of one event: one for each of some curves.

    Attributes:
      env_step: of all points.
      time: seconds since the epoch.
      values: by tag.
    """

    env_step: int
    time: float
    values: dict[str, float]


def read_scalars(path: Path, *, most: int | None = None, tag: str = "") -> Iterator[Row]:
    """Yields the events of a file that have scalars.

    Args:
      path: the event file.
      most: bytes to read; None reads all that are there now.
      tag: only events that may have this tag.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no regular file.
    """
    wanted = tag.encode()
    with open_regular(path) as file:
        for data in _records(file, most):
            if wanted not in data:  # much quicker than to parse the event
                continue
            try:
                event = event_pb2.Event.FromString(data)
            except DecodeError:
                return
            points = {
                value.tag: value.simple_value
                for value in event.summary.value
                if value.HasField("simple_value")
            }
            if points:
                yield Row(event.step, event.wall_time, points)


def _records(file: BufferedReader, most: int | None) -> Iterator[bytes]:
    """Yields the whole records of an event file, up to the first one that is damaged."""
    while most is None or file.tell() < most:
        head = file.read(12)
        if len(head) < 12 or checksum(head[:8]) != head[8:]:
            return
        (length,) = _LENGTH.unpack(head[:8])
        if length > _MOST_BYTES:
            return
        data, end = file.read(length), file.read(4)
        if len(data) < length or checksum(data) != end:
            return
        yield data
