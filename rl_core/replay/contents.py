"""Reads the rows of a replay memory as arrays, oldest first, and puts them back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ScopeMismatch
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.replay.memory import ReplayMemory
from targetnet.rl_core.replay.rows import Rows

_CHUNK_BYTES = 1 << 20


class ReplayContents(MemberPart):
    """The contents of a replay memory as arrays. Make it while the graph is being built.

    Attributes:
      chunk: time steps that are read at once.
    """

    def __init__(self, engine: Engine, memory: ReplayMemory) -> None:
        self._engine, self._replay = engine, memory.rows
        replay = self._replay
        self.chunk = max(1, min(1024, _CHUNK_BYTES * memory.steps // memory.nbytes))
        with tf.name_scope("read_replay"):
            self._numbers = tf.placeholder(tf.int64, [None], "numbers")
            self._rows = replay.rows_at(self._numbers)
            self._queue = replay.queue_at(self._numbers)
            self._counters = (replay.rows_written.read_value(), *replay.queue())
            given = {n: tf.placeholder(of.dtype, of.shape) for n, of in self._rows.items()}
            self._put_feeds = [self._numbers, *given.values()]
            self._put_rows = replay.put_rows(self._numbers, given)
            self._queue_feeds = [tf.placeholder(tf.int64, [None]) for _ in range(4)]
            self._put_queue = replay.put_queue(*self._queue_feeds)

    @functools.cached_property
    def _read_rows(self) -> Callable[[np.ndarray], Sequence[np.ndarray]]:
        return self._engine.callable([*self._rows.values()], [self._numbers])

    @functools.cached_property
    def _read_written(self) -> Callable[[], np.ndarray]:
        return self._engine.callable(self._counters[0])

    @functools.cached_property
    def _read_queue(self) -> Callable[[np.ndarray], np.ndarray]:
        return self._engine.callable(self._queue, [self._numbers])

    def time_steps(self, begin: int, end: int) -> Rows:
        """Returns the rows of the time steps [begin, end), which must still be in the ring.

        The newest time step has no outcome (reward, terminated, autoreset) yet: its values there
        mean nothing.

        Returns:
          Rows: arrays [end - begin, N, ...] by the names of their columns.
        """
        shape = end - begin, self._replay.num_envs
        read = self._read_rows(self._row_numbers(begin, end))
        named = zip(self._rows, read, strict=True)
        return {name: column.reshape(*shape, *column.shape[1:]) for name, column in named}

    def chunks(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields (name, array) of everything that is stored; a long array in several pieces.

        Memory that was never written is left out, so the same history gives the same arrays: no
        rows that nobody wrote, no outcome of the newest time step, no places beside the queue.
        """
        written, head, tail = (int(np.reshape(c, [])) for c in self._engine.run(self._counters))
        yield "rows_written", np.array([written], np.int64)
        yield "queue", np.array([head, tail], np.int64)
        for begin in range(max(0, written - self._replay.steps), written, self.chunk):
            end = min(begin + self.chunk, written)
            known = end - begin - (end == written)
            for name, column in self.time_steps(begin, end).items():
                yield name, column[:known] if name in self._replay.ring.of_outcome else column
        for begin in range(head, tail, _CHUNK_BYTES // 8):
            yield "queue", self._read_queue(np.arange(begin, min(begin + _CHUNK_BYTES // 8, tail)))

    def written(self) -> int:
        """Time steps written so far."""
        return int(np.reshape(self._read_written(), []))

    def valid_rows(self) -> int:
        """Rows that may be sampled."""
        _, head, tail = (int(np.reshape(c, [])) for c in self._engine.run(self._counters))
        return tail - head

    def put(self, pieces: Iterable[tuple[int, Rows]], written: int, queue_tail: int) -> None:
        """Puts back the rows that a replay of the same shape held.

        The queue is not saved anywhere: it is recomputed from the steps that were autoresets.
        The counters are variables like others, and are not set here.

        Args:
          pieces: (first time step, rows [T, N, ...]) that together fill the ring.
          written: time steps, the newest one's outcome pending.
          queue_tail: rows that ever entered the queue.

        Raises:
          ScopeMismatch: the rows have other columns than the replay, such as masks, or columns of
            other shapes or types.
        """
        replay, N = self._replay, self._replay.num_envs
        oldest = max(0, written - replay.steps)
        entered = np.zeros((max(0, written - 1 - oldest), N), np.bool_)  # with the step after
        put = self._engine.callable(None, self._put_feeds, [self._put_rows])
        if 0 < written < replay.steps:
            put(self._row_numbers(-1, 0), *self._before_the_first())
        for begin, rows in pieces:
            skip = max(0, oldest - begin)
            kept = {n: column[skip:] for n, column in self._checked(rows).items()}
            begin += skip
            length = len(kept["action"])
            put(self._row_numbers(begin, begin + length), *map(_flat, kept.values()))
            known = kept["autoreset"][: max(0, written - 1 - begin)]
            entered[begin - oldest : begin - oldest + len(known)] = ~known
        counts = entered.sum(axis=1)
        # The newest step's tail is known; each earlier step began by its own count before.
        tails = queue_tail - np.concatenate([np.cumsum(counts[::-1])[::-1], [0]])
        steps = np.arange(oldest, written)
        numbers = self._row_numbers(oldest, max(oldest, written - 1))[entered.reshape(-1)]
        places = np.arange(queue_tail - len(numbers), queue_tail)
        call = self._engine.callable(None, self._queue_feeds, [self._put_queue])
        call(places, numbers, steps % replay.steps, tails[: len(steps)])

    def _before_the_first(self) -> list[np.ndarray]:
        """Rows [N, ...] of the time step before the first one: the reset that led to it.

        Nothing else was written there, but stacks and sequences look whether an episode began.
        """
        N = self._replay.num_envs
        return [
            np.full([N, *of.shape.as_list()[1:]], name == "autoreset", of.dtype.as_numpy_dtype)
            for name, of in self._replay.ring.columns.items()
        ]

    def _checked(self, rows: Rows) -> Rows:
        """Returns `rows` in the order of this replay's columns."""
        if rows.keys() != self._rows.keys():
            raise ScopeMismatch(
                f"these rows are not of this replay: wanted columns {', '.join(self._rows)}, "
                f"got {', '.join(rows)}"
            )
        ordered = {name: rows[name] for name in self._rows}
        length, N = len(ordered["action"]), self._replay.num_envs
        for name, of in self._rows.items():
            column, wanted = ordered[name], (length, N, *of.shape.as_list()[1:])
            if column.shape != wanted or column.dtype != of.dtype.as_numpy_dtype:
                raise ScopeMismatch(
                    f"these rows are not of this replay: wanted {name} as {list(wanted)} of "
                    f"{of.dtype.name}, got {list(column.shape)} of {column.dtype}"
                )
        return ordered

    def _row_numbers(self, begin: int, end: int) -> np.ndarray:
        N = self._replay.num_envs
        steps = np.arange(begin, end) % self._replay.steps
        return (steps[:, None] * N + np.arange(N)).reshape(-1)


def _flat(column: np.ndarray) -> np.ndarray:
    """[T, N, ...] -> [T * N, ...], in memory of its own."""
    return np.array(column.reshape(-1, *column.shape[2:]))
