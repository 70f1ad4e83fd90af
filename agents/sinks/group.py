"""The points of a run's curves on their way to all sinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from targetnet.agents.sinks.interface import MetricSink

_NOWHERE = (-1, 0.0)


class SinkGroup:
    """Hands points, histograms and texts to several sinks, and knows the last point of each curve.

    Args:
      sinks: take them.
      last: tag -> (env step, value), of the curves so far.

    Attributes:
      last: the same, as it is now.
    """

    def __init__(
        self, sinks: Sequence[MetricSink], last: Mapping[str, tuple[int, float]] | None = None
    ) -> None:
        self._sinks = sinks
        self.last = dict(last or {})

    def scalars(self, values: Mapping[str, float], env_step: int) -> None:
        """Adds a point to each of several curves."""
        self.last.update({tag: (env_step, value) for tag, value in values.items()})
        for sink in self._sinks:
            sink.scalars(dict(values), env_step)  # its own, with which it may do what it likes

    def ends_before(self, tag: str, env_step: int) -> bool:
        """Returns whether a curve has no point at this env step or after it."""
        return self.last.get(tag, _NOWHERE)[0] < env_step

    def extend(self, tag: str, env_step: int, value: float) -> None:
        """Adds a point, unless the curve goes as far already."""
        if self.ends_before(tag, env_step):
            self.scalars({tag: value}, env_step)

    def histogram(self, tag: str, values: np.ndarray, env_step: int) -> None:
        """Adds a histogram of values of any shape."""
        for sink in self._sinks:
            sink.histogram(tag, values, env_step)

    def text(self, tag: str, markdown: str, env_step: int) -> None:
        """Adds a text."""
        for sink in self._sinks:
            sink.text(tag, markdown, env_step)

    def result(self, values: Mapping[str, float], env_step: int) -> None:
        """Adds the result of a run that came to its end."""
        for sink in self._sinks:
            sink.result(values, env_step)

    def flush(self) -> None:
        """Shows what was added so far, unless the disk is full."""
        for sink in self._sinks:
            sink.flush()

    def flush_all(self) -> None:
        """Flushes before a checkpoint is taken, which tells the length of the event file.

        Raises:
          RunDirError: the event file cannot be written.
        """
        self._each(lambda sink: sink.flush_all())

    def close(self) -> None:
        """Closes the sinks.

        Raises:
          RunDirError: the event file cannot be written, and lacks points.
        """
        self._each(lambda sink: sink.close())

    def _each(self, call: Callable[[MetricSink], None]) -> None:
        """Calls every sink, also those after one that fails."""
        with contextlib.ExitStack() as stack:
            for sink in reversed(self._sinks):
                stack.callback(call, sink)
