"""The sink of TensorBoard event files, in the run directory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from targetnet.agents.sinks.interface import SinkStart, as_params
from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.board.once import charts_event, graph_event, hparams_event
from targetnet.rl_core.files import RetryLater


class EventFiles:
    """Writes one new event file.

    On a full disk the points wait in memory, and one line says so. Checkpoints tell the file's
    length, so `flush_all` and `close` raise RunDirError where it cannot be written.

    Raises:
      RunDirError: the file cannot be made.
    """

    def __init__(self, start: SinkStart) -> None:
        self._writing = RetryLater(start.warn)
        self._events = EventWriter(
            start.run, more_tags=start.tags, after=start.after, on_failure=self._writing.failed
        )
        if start.is_new:
            self._events.add(hparams_event(as_params(start.config)))
            self._events.add(charts_event())
            if graph := start.graph():
                self._events.add(graph_event(graph))

    def scalars(self, values: Mapping[str, float], env_step: int) -> None:
        self._events.scalars(values, env_step)

    def histogram(self, tag: str, values: np.ndarray, env_step: int) -> None:
        self._events.histogram(tag, values, env_step)

    def text(self, tag: str, markdown: str, env_step: int) -> None:
        self._events.text(tag, markdown, env_step)

    def result(self, values: Mapping[str, float], env_step: int) -> None:
        pass  # it is in the run directory, in a file of its own

    def flush(self) -> None:
        with self._writing.attempt():
            self._events.flush()

    def flush_all(self) -> None:
        self._events.flush()

    def close(self) -> None:
        self._events.close()
