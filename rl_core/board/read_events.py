"""Reader of the scalars in event files, without TensorFlow.

The files of a run may be damaged or written by somebody else. A record that was not written to its
end is the end. At one that is damaged, reading stops or is refused.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2

from targetnet.rl_core.board.records import checksum
from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.files import open_regular

_MOST_BYTES = 1 << 24  # of a record; the largest real one is a GIF of `targetnet play --to-board`
_EVENTS = "events.out.tfevents.*"
_MOST_FILES = 1_000  # of a run: one for each session
_LENGTH = struct.Struct("<Q")
_DAMAGED = "an event cannot be read"

Points = list[tuple[int, float]]  # (env step, value) in the order of writing


class EventPoints(NamedTuple):
    """The points of one event: one for each of some curves.

    Attributes:
      env_step: of all points.
      time: seconds since the epoch.
      values: by tag.
    """

    env_step: int
    time: float
    values: dict[str, float]


def read_scalars(
    path: Path, *, most: int | None = None, tag: str = "", strict: bool = False
) -> Iterator[EventPoints]:
    """Yields the events of a file that have scalars.

    Args:
      path: the event file.
      most: bytes to read; None reads all that are there now.
      tag: only events that may have this tag.
      strict: refuses a damaged event, at which reading stops otherwise.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no regular file; or it is damaged, if `strict`.
    """
    wanted = tag.encode()
    with open_regular(path) as file:
        for data in _records(file, most, strict):
            if wanted not in data:  # much quicker than to parse the event
                continue
            try:
                event = event_pb2.Event.FromString(data)
            except DecodeError:
                if strict:
                    raise ValueError(_DAMAGED) from None
                return
            points = {
                value.tag: value.simple_value
                for value in event.summary.value
                if value.HasField("simple_value")
            }
            if points:
                yield EventPoints(event.step, event.wall_time, points)


def _records(file: BufferedReader, most: int | None, strict: bool) -> Iterator[bytes]:
    """Yields the whole records of an event file, up to the first one that is damaged."""
    while most is None or file.tell() < most:
        head = file.read(12)
        if len(head) < 12:
            return
        (length,) = _LENGTH.unpack(head[:8])
        damaged = checksum(head[:8]) != head[8:] or length > _MOST_BYTES
        if not damaged:
            data, end = file.read(length), file.read(4)
            if len(end) < 4:
                return
            damaged = checksum(data) != end
        if damaged:
            if strict:
                raise ValueError(_DAMAGED)
            return
        yield data


def read_curves(run: Path, tags: Iterable[str]) -> dict[str, Points]:
    """Reads all points of some curves of a run; a tag without points has an empty curve.

    Raises:
      RunDirError: an event file is damaged, or cannot be read.
    """
    curves: dict[str, Points] = {tag: [] for tag in tags}
    # Each file continues the one before; their names sort in the order of time.
    for path in sorted(run.glob(_EVENTS)):
        try:
            for row in read_scalars(path, strict=True):
                for tag in curves.keys() & row.values.keys():
                    curves[tag].append((row.env_step, row.values[tag]))
        except FileNotFoundError:  # a run that goes on from a checkpoint removes newer files
            continue
        except (OSError, ValueError) as error:
            raise RunDirError(f"{path} is damaged: {reason_of(error)}") from None
    return curves


class Curve(NamedTuple):
    """A curve in few points.

    Attributes:
      points: (env step, value), evenly chosen, with the last one; in the order of reading.
      found: number of points that were read.
      low, high: smallest and largest finite value of all; None without one.
      whole: False if the files are too long to be read to their end.
    """

    points: list[tuple[int, float]]
    found: int
    low: float | None
    high: float | None
    whole: bool


def read_curve(run: Path, tag: str, *, most: int, most_bytes: int = 1 << 28) -> Curve:
    """Reads one curve of a run; its memory and its time are bounded, whatever the files are.

    Args:
      run: the run directory.
      tag: of the curve.
      most: points, at least 2.
      most_bytes: of the event files; more are not read.

    Returns:
      The curve; without points if the run has none of this tag.

    Raises:
      OSError: a file cannot be read.
      ValueError: a file is no regular file.
    """
    points: list[tuple[int, float]] = []
    count, stride, left, last = 0, 1, most_bytes, None
    low, high = math.inf, -math.inf
    for path in sorted(itertools.islice(run.glob(_EVENTS), _MOST_FILES)):
        for row in read_scalars(path, most=max(0, left), tag=tag):
            if tag not in row.values:
                continue
            last = (row.env_step, row.values[tag])
            if count % stride == 0:
                points.append(last)
            count += 1
            if math.isfinite(last[1]):
                low, high = min(low, last[1]), max(high, last[1])
            if len(points) > 2 * most:
                points, stride = points[::2], 2 * stride
        left -= path.lstat().st_size
    if last is not None and points[-1] != last:
        points.append(last)
    if len(points) > most:
        points = [points[i * (len(points) - 1) // (most - 1)] for i in range(most)]
    if low > high:  # no value is finite
        return Curve(points, count, None, None, left >= 0)
    return Curve(points, count, low, high, left >= 0)
