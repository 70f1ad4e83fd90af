"""A run's curves, read from its event files without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2
from tensorboard.compat.tensorflow_stub import errors
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

from targetnet.agents.saved.directory import EVENTS
from targetnet.rl_core.errors import RunDirError

Curve = list[tuple[int, float]]  # (env step, value) in the order of writing


def read_curves(run: Path, tags: Iterable[str]) -> dict[str, Curve]:
    """Reads the points of some scalar tags; a tag without points gets an empty curve.

    A killed run's file may end in the middle of an event; it is read up to that event.

    Raises:
      RunDirError: an event is damaged.
    """
    curves: dict[str, Curve] = {tag: [] for tag in tags}
    # Each file continues the one before; their names sort in the order of time.
    for path in sorted(run.glob(EVENTS)):
        for event in _events(path):
            for value in event.summary.value:
                if value.tag in curves:
                    curves[value.tag].append((event.step, value.simple_value))
    return curves


def _events(path: Path) -> Iterator[event_pb2.Event]:
    if path.exists() and not path.is_file():  # reading a pipe, for example, would block
        raise RunDirError(f"{path} is damaged: it is not a regular file")
    # A run that goes on from a checkpoint removes the files that are newer.
    try:
        reader = PyRecordReader_New(str(path))
    except errors.NotFoundError:
        return
    try:
        while True:
            try:
                reader.GetNext()
            except (errors.OutOfRangeError, errors.NotFoundError):
                return
            except errors.DataLossError as error:
                if "truncated" in error.message:
                    return
                raise RunDirError(f"{path} is damaged: {error.message}") from None
            try:
                yield event_pb2.Event.FromString(reader.record())
            except DecodeError:
                raise RunDirError(f"{path} is damaged: an event cannot be read") from None
    finally:
        reader.file_handle.close()
