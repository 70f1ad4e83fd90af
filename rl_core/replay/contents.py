"""Reading a replay's rows out, oldest first, a bounded number at a time.

Imports: rl_core.graph.engine, rl_core.replay.uniform. Never agents, never envs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.graph.engine import Engine
from rl_core.replay.uniform import Rows, UniformReplay

_CHUNK_BYTES = 1 << 20


class ReplayContents:
    """What a replay holds, as arrays. Make it while the graph is being built.

    Attributes:
      chunk: time steps that are read at once.
    """

    def __init__(self, engine: Engine, replay: UniformReplay) -> None:
        self._engine, self._replay = engine, replay
        self.chunk = max(1, min(1024, _CHUNK_BYTES * replay.steps // replay.nbytes))
        with tf.name_scope("read_replay"):
            self._numbers = tf.placeholder(tf.int64, [None], "numbers")
            self._rows = replay.rows_at(self._numbers)
            self._queue = replay.queue_at(self._numbers)
            self._counters = (replay.rows_written.read_value(), *replay.queue())

    @functools.cached_property
    def _read_rows(self) -> Callable[[np.ndarray], Rows]:
        return self._engine.callable(self._rows, [self._numbers])

    @functools.cached_property
    def _read_queue(self) -> Callable[[np.ndarray], np.ndarray]:
        return self._engine.callable(self._queue, [self._numbers])

    def prepare(self) -> None:
        """Makes the call that reads rows now and not in the middle of a run."""
        self._read_rows(np.zeros(1, np.int64))

    def time_steps(self, begin: int, end: int) -> Rows:
        """Rows of the time steps [begin, end), which must still be in the ring.

        The outcome of the newest time step (reward, terminated, autoreset) is not known yet;
        what stands there means nothing.

        Returns:
          Rows of arrays [end - begin, N, ...].
        """
        N = self._replay.num_envs
        steps = np.arange(begin, end) % self._replay.steps
        numbers = (steps[:, None] * N + np.arange(N)).reshape(-1)
        rows = self._read_rows(numbers)
        return Rows(*(column.reshape(end - begin, N, *column.shape[1:]) for column in rows))

    def chunks(self) -> Iterator[tuple[str, np.ndarray]]:
        """(name, array) of all there is, one after the other; a long array in several pieces.

        What was never written is left out, so the same history gives the same arrays: rows that
        nobody wrote to, the outcome of the newest time step, the places beside the queue.
        """
        written, head, tail = (int(np.reshape(c, [])) for c in self._engine.run(self._counters))
        yield "rows_written", np.array([written], np.int64)
        yield "queue", np.array([head, tail], np.int64)
        for begin in range(max(0, written - self._replay.steps), written, self.chunk):
            end = min(begin + self.chunk, written)
            known = end - begin - (end == written)
            for name, column in self.time_steps(begin, end)._asdict().items():
                outcome = name in ("reward", "terminated", "autoreset")
                yield name, column[:known] if outcome else column
        for begin in range(head, tail, _CHUNK_BYTES // 8):
            yield "queue", self._read_queue(np.arange(begin, min(begin + _CHUNK_BYTES // 8, tail)))
