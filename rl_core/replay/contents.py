"""Reading a replay's rows out, oldest first, a bounded number at a time.

Imports: rl_core.graph.engine, rl_core.replay.uniform. Never agents, never envs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.graph.engine import Engine
from rl_core.replay.uniform import UniformReplay

_CHUNK_BYTES = 1 << 24


class ReplayContents:
    """What a replay holds, as arrays. Make it while the graph is being built.

    What was never written is left out, so the same history gives the same arrays: rows that
    nobody wrote to, the outcome of the newest time step, the places beside the queue.
    """

    def __init__(self, engine: Engine, replay: UniformReplay) -> None:
        self._engine, self._replay = engine, replay
        with tf.name_scope("read_replay"):
            self._numbers = tf.placeholder(tf.int64, [None], "numbers")
            self._rows = replay.rows_at(self._numbers)
            self._queue = replay.queue_at(self._numbers)
            self._counters = (replay.rows_written.read_value(), *replay.queue())

    def chunks(self) -> Iterator[tuple[str, np.ndarray]]:
        """(name, array) one after the other; a long array comes in several pieces."""
        replay, N = self._replay, self._replay.num_envs
        written, head, tail = (int(np.reshape(c, [])) for c in self._engine.run(self._counters))
        yield "rows_written", np.array([written], np.int64)
        yield "queue", np.array([head, tail], np.int64)
        read = self._engine.callable(self._rows, [self._numbers])
        size = max(1, _CHUNK_BYTES * replay.capacity // replay.nbytes // N)
        oldest = max(0, written - replay.steps)
        for begin in range(oldest, written, size):
            steps = np.arange(begin, min(begin + size, written))
            numbers = (steps[:, None] % replay.steps * N + np.arange(N)).reshape(-1)
            pending = N if steps[-1] == written - 1 else 0
            for name, rows in read(numbers)._asdict().items():
                outcome = name in ("reward", "terminated", "autoreset")
                yield name, rows[: len(rows) - pending * outcome]
        queue = self._engine.callable(self._queue, [self._numbers])
        for begin in range(head, tail, _CHUNK_BYTES // 8):
            yield "queue", queue(np.arange(begin, min(begin + _CHUNK_BYTES // 8, tail)))
