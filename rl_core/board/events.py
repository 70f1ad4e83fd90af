"""Writer of TensorBoard event files, batched and without TensorFlow.

Added values wait in memory unconverted. A flush converts all of them to events and writes them
together: one batch takes a tenth of the time of many single conversions between calls into the
graph. There is no flushing thread: each addition checks how long the oldest value has waited, so a
caller that pauses must call `flush()`.

`python -m targetnet.rl_core.board.events` prints the docs page of all tags.
"""

import functools
import itertools
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.histogram import metadata as histogram_plugin
from tensorboard.plugins.scalar import metadata as scalar_plugin
from tensorboard.plugins.text import metadata as text_plugin
from tensorboard.util.tensor_util import make_tensor_proto

from targetnet.rl_core.arguments import path_of
from targetnet.rl_core.board.records import records
from targetnet.rl_core.board.tags import TAGS, Kind, Tag, as_markdown, tag_named
from targetnet.rl_core.errors import RunDirError

__all__ = ["TAGS", "EventWriter", "Tag"]

HISTOGRAM_BUCKETS = 30
MAX_BUFFER_BYTES = 1 << 18
_MOST_WAITING_BYTES = 1 << 26  # limit of the events that wait while the disk is full
_POINT_BYTES = 64  # approximate size of one point of a curve

_PLUGINS = {
    "scalar": scalar_plugin,
    "histogram": histogram_plugin,
    "text": text_plugin,
}


class EventWriter:
    """A writer of one new event file of a run. Close it, or use it in a `with` statement.

    Every method that adds an event may flush. A flush that cannot write raises RunDirError and
    keeps the events for the next flush. With `on_failure`, methods that add an event pass the
    error to `on_failure` instead of raising it.
    """

    def __init__(
        self,
        logdir: Path | str,
        flush_seconds: float = 2.0,
        more_tags: Iterable[Tag] = (),
        after: int = -1,
        on_failure: Callable[[RunDirError], None] | None = None,
    ) -> None:
        """Creates `logdir` if it does not exist, and a new event file in it.

        Args:
          logdir: the run directory.
          flush_seconds: longest time that an event waits in memory while others are added.
          more_tags: allowed tags beside TAGS, such as one `live_tag` per live value.
          after: env step at which this file continues; a board drops older points beyond it.
          on_failure: called with the error of each failed flush that the caller did not request.

        Raises:
          RunDirError: the directory or the file cannot be made or written.
        """
        self._flush_seconds = flush_seconds
        self._on_failure = on_failure
        self._more_tags = {tag.name: tag for tag in more_tags}
        self._waiting: list[Callable[[], event_pb2.Event]] = []
        self._waiting_bytes, self._flush_bytes = 0, MAX_BUFFER_BYTES
        self._closed = False
        self._oldest = math.inf
        self._position = 0
        self._described: dict[Kind, set[str]] = {kind: set() for kind in get_args(Kind)}
        self._path, self._file = _create(path_of("logdir", logdir))
        self.add(_version())
        # A run's first file needs a START too: a board takes only the second one for a restart.
        start = _event(after + 1)
        start.session_log.status = event_pb2.SessionLog.START
        self.add(start)
        self.flush()

    @property
    def position(self) -> int:
        """Bytes of the event file written so far; always the end of a complete event."""
        return self._position

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Adds one point to the curve `tag` at env step `step`. NaN and infinities are kept."""
        self.scalars({tag: value}, step)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Adds one point to each of several curves, all at env step `step`, as one event.

        Raises:
          UnknownName: a key is not a scalar tag; then no point is written.
        """
        if not values:
            return
        new = self._new_metadata("scalar", values)
        points = {tag: float(value) for tag, value in values.items()}
        self._add(_POINT_BYTES * len(points), _scalars, time.time(), int(step), points, new)
        self._described["scalar"].update(new)

    def histogram(self, tag: str, values: ArrayLike, step: int) -> None:
        """Adds a histogram of `values` (any shape) at env step `step`.

        NaN, infinities and values beyond float32 are left out: they have no place on the axis.
        """
        new = self._new_metadata("histogram", (tag,))
        kept = np.array(values, np.float64)
        size = _POINT_BYTES + 24 * HISTOGRAM_BUCKETS + kept.nbytes
        self._add(size, _histogram, time.time(), int(step), tag, kept, new)
        self._described["histogram"].update(new)

    def text(self, tag: str, markdown: str, step: int) -> None:
        """Adds a text, shown as Markdown, at env step `step`."""
        new = self._new_metadata("text", (tag,))
        self.add(_tensor(time.time(), int(step), tag, markdown, new))
        self._described["text"].update(new)

    def add(self, event: event_pb2.Event) -> None:
        """Adds a whole event, such as those of `targetnet.rl_core.board.once`."""
        self._add(event.ByteSize(), lambda: event)

    def flush(self) -> None:
        """Writes all waiting events to the file.

        Raises:
          RunDirError: the file cannot be written, for example because the disk is full.
        """
        waiting = records([make().SerializeToString() for make in self._waiting])
        # The write begins at a fixed position, so the next flush overwrites a half-written one.
        try:
            _write_at(self._file, waiting, self._position)
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._position += len(waiting)
        self._waiting.clear()
        self._waiting_bytes, self._flush_bytes = 0, MAX_BUFFER_BYTES
        self._oldest = math.inf

    def close(self) -> None:
        """Flushes and closes the file; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            os.close(self._file)

    def __enter__(self) -> "EventWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _new_metadata(
        self, kind: Kind, names: Iterable[str]
    ) -> dict[str, summary_pb2.SummaryMetadata]:
        """Returns the metadata of the tags in `names` that this file does not describe yet."""
        described = self._described[kind]
        new = [name for name in names if name not in described]
        return {name: _metadata(tag_named(name, kind, self._more_tags)) for name in new}

    def _add(self, size: int, make: Callable[..., event_pb2.Event], *content: Any) -> None:
        """Queues `make(*content)`, about `size` bytes, for the next flush."""
        if self._closed:
            raise ValueError("the event file is closed")
        self._waiting.append(functools.partial(make, *content))
        self._waiting_bytes += size
        now = time.monotonic()
        self._oldest = min(self._oldest, now)
        too_old = now - self._oldest > self._flush_seconds
        if too_old or self._waiting_bytes > self._flush_bytes:
            self._flush_automatically()

    def _flush_automatically(self) -> None:
        try:
            self.flush()
        except RunDirError as error:
            if self._on_failure is None:
                raise
            self._on_failure(error)
            self._postpone_flush()

    def _postpone_flush(self) -> None:
        """Postpones the next flush, and drops the oldest events if too many wait."""
        self._oldest = time.monotonic()
        self._flush_bytes = self._waiting_bytes + MAX_BUFFER_BYTES
        if self._waiting_bytes > _MOST_WAITING_BYTES:
            del self._waiting[: len(self._waiting) // 2]
            self._waiting_bytes //= 2
            # A dropped event may have held a tag's description, so describe every tag again.
            for described in self._described.values():
                described.clear()


_Metadata = Mapping[str, summary_pb2.SummaryMetadata]  # of the tags that are new in this file


def _event(step: int, wall_time: float | None = None) -> event_pb2.Event:
    event = event_pb2.Event()
    event.wall_time = time.time() if wall_time is None else wall_time
    event.step = int(step)
    return event


def _scalars(
    wall_time: float, step: int, points: Mapping[str, float], new: _Metadata
) -> event_pb2.Event:
    event = _event(step, wall_time)
    for tag, value in points.items():
        # Setting single fields takes a third of the time that constructor arguments take.
        point = event.summary.value.add()
        point.tag = tag
        point.simple_value = value
        if tag in new:
            point.metadata.CopyFrom(new[tag])
    return event


def _histogram(
    wall_time: float, step: int, tag: str, values: NDArray[np.float64], new: _Metadata
) -> event_pb2.Event:
    return _tensor(wall_time, step, tag, _buckets(values), new)


def _tensor(
    wall_time: float, step: int, tag: str, value: str | NDArray[Any], new: _Metadata
) -> event_pb2.Event:
    event = _event(step, wall_time)
    event.summary.value.add(tag=tag, tensor=make_tensor_proto(value), metadata=new.get(tag))
    return event


def write_apart(logdir: Path, event: event_pb2.Event, suffix: str) -> Path:
    """Writes a file of one event, beside the file of the run's writer; returns its path.

    It has no START: to TensorBoard that would be a restart, after which curves begin again.

    Args:
      suffix: end of the file's name, by which the run knows that the file is not its own.

    Raises:
      RunDirError: the file cannot be written.
    """
    path, file = _create(logdir, suffix)
    try:
        _write_at(file, records(e.SerializeToString() for e in (_version(), event)), 0)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        os.close(file)
    return path


def _version() -> event_pb2.Event:
    return event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2")


def _create(logdir: Path, suffix: str = "") -> tuple[Path, int]:
    """Creates a new event file in `logdir`; returns its path and descriptor."""
    # TensorBoard finds a file by "tfevents" in its name and reads the files in order of name.
    stem = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
    paths = (logdir / f"{stem}.{number}{suffix}" for number in itertools.count())
    try:
        logdir.mkdir(parents=True, exist_ok=True)
        path = next(path for path in paths if not path.exists())
        return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise _unwritable(logdir, error) from error


def _write_at(file: int, data: bytes, position: int) -> None:
    """Writes all of `data` at `position`; one `pwrite` may write only a part."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, position)
        position += written
        rest = rest[written:]


def _unwritable(path: Path, error: OSError) -> RunDirError:
    return RunDirError(f"cannot write TensorBoard events to {path}: {error.strerror}")


def _metadata(tag: Tag) -> summary_pb2.SummaryMetadata:
    """Returns a tag's unit, meaning and plugin, which are written with its first value."""
    metadata = _PLUGINS[tag.kind].create_summary_metadata(
        display_name=None, description=f"{tag.meaning} Unit: {tag.unit}. X axis: env steps."
    )
    # Without a data class, TensorBoard's fast loader drops the description of a scalar.
    scalar, tensor = summary_pb2.DATA_CLASS_SCALAR, summary_pb2.DATA_CLASS_TENSOR
    metadata.data_class = scalar if tag.kind == "scalar" else tensor
    return metadata


def _buckets(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns a histogram in the format of TensorBoard's histogram plugin.

    Without values all entries are 0. If all values are equal, every bucket has that value as
    both edges, and the last bucket holds the count.

    Returns:
      [HISTOGRAM_BUCKETS, 3]: left edge, right edge, count of equally wide buckets.
    """
    size = HISTOGRAM_BUCKETS
    values = values[np.abs(values) <= np.finfo(np.float32).max]  # [n]; NaN compares false
    if not values.size:
        return np.zeros((size, 3))
    low, high = values.min(), values.max()
    if low == high:
        index = np.full(values.shape, size - 1)
    else:
        # np.histogram is slower and refuses a very narrow range.
        index = np.minimum(((values - low) / (high - low) * size).astype(np.intp), size - 1)
    edges = np.linspace(low, high, size + 1)
    return np.stack([edges[:-1], edges[1:], np.bincount(index, minlength=size)], axis=1)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
