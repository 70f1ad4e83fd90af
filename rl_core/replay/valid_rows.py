"""The rows of a replay, and a queue of those that may be sampled.

A row's number enters the queue when its outcome is known and was not an autoreset, and leaves
when the ring overwrites it, or the oldest frame that it is learned from together with (the
queue's head is the place at which the oldest time step that has all its frames entered). A
uniform draw from the queue is thus a uniform draw from the valid rows, always exactly B of them,
without any rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.graph.large import large_variable, write_at
from targetnet.rl_core.machine import check_memory
from targetnet.rl_core.replay.rows import Column, Ring, Rows

# What else is written with P time steps: (before [N], written [P N], entering [P N], leaving [L])
# -> operations, where `before` are the rows of the time step before the first, `written` those of
# the steps, and `entering` is 1 where a row of `before`, and then of `written`, becomes valid;
# int64. The N last rows, and all others, do not. `leaving`, None without a stack, are rows that
# are there but not valid any more, because frames of theirs are gone.
AlsoWrites = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor | None], list[tf.Operation]]


class ValidRows:
    """Ring of `capacity // num_envs` time steps of `num_envs` rows each, and the valid ones.

    Its memory is committed by the operating system as rows are written, not at the start.

    Args:
      capacity: rows in all; rounded down to a multiple of num_envs.
      num_envs: N.
      columns: of each row; those of a transition (`transition_columns`) and any more.
      stack: frames that make an observation that is learned from. The oldest time steps, whose
        frames are gone, are not sampled.
      history: further time steps before a row, and their frames, without which it is not sampled.
      name: variable scope.

    Attributes:
      ring: the rows.
      stack: the same.
      scope: variable scope of everything that belongs to the replay.
      rows_written: int64 [1] variable: time steps written so far, the newest one's outcome pending.
      queue_tail: int64 [1] variable: rows that ever entered the queue.
      most_valid: rows that may be sampled at once, at most.
      most_at_once: time steps that may be written at once, at most.
      nbytes: bytes of all rows and of the queue, once written.

    Raises:
      ConfigError: fewer than three time steps fit (a step, its end and the reset after it), and
        one more for each further frame and time step of the history.
      MemoryLimitError: the rows need more memory than there is; says both numbers.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        columns: Sequence[Column],
        *,
        stack: int = 1,
        history: int = 0,
        name: str = "replay",
    ) -> None:
        self.num_envs, self.stack, self._history = num_envs, stack, stack - 1 + history
        self.steps = capacity // num_envs
        least = 3 + self._history
        if self.steps < least:
            raise ConfigError(
                f"a replay for {num_envs:,} envs, with stacks of {stack:,} frames, needs a "
                f"capacity of at least {least * num_envs:,} rows, got {capacity:,}"
            )
        self.capacity = self.steps * num_envs
        # With more, a row that is written would leave in the same call.
        self.most_at_once = self.steps - 1 - self._history
        self.most_valid = self.most_at_once * num_envs
        row = sum(column.nbytes for column in columns)
        self.nbytes = self.capacity * row + 8 * (self.capacity + num_envs + self.steps)
        check_memory(self.nbytes, f"a replay of {self.capacity:,} rows")
        with tf.variable_scope(name) as self.scope:
            self.ring = Ring(self.steps, num_envs, columns, stack)
            # N more places: where the numbers of rows that must not be sampled are put.
            self._queue = large_variable("queue", tf.int64, [self.capacity + num_envs])
            # The queue's tail when a time step was written: the place of its own first row.
            self._tail_at = large_variable("tail_at", tf.int64, [self.steps])
            self.rows_written = _counter("rows_written")
            self.queue_tail = _counter("queue_tail")

    def write(
        self, rows: Mapping[str, tf.Tensor], now: tf.Tensor, also: AlsoWrites
    ) -> tf.Operation:
        """Appends one time step and completes the one before it.

        Args:
          rows: tensors [N, ...]. The columns of the outcome are of the step that led here.
          now: [1] `rows_written`, as it was read.
          also: what else is written with it.

        With stand-ins for K members (`targetnet.rl_core.graph.members`) everything has a first axis
        K more.
        """
        tail = self.queue_tail.read_value()
        numbers, before = self.ring.numbers(now), self.ring.numbers(now - 1)
        entering = self._entering(now, rows["autoreset"])  # [N]
        place, entered = self._places(tail, entering)
        new_tail = tail + entered
        writes = [
            write_at(self._queue, place, before),
            write_at(self._tail_at, now % self.steps, new_tail),
            *self.ring.completing_writes(before, numbers, rows),
            *also(before, numbers, entering, self._leaving(now)),
        ]
        with tf.control_dependencies(writes):
            return tf.group(
                self.rows_written.assign_add([1], read_value=False),
                self.queue_tail.assign(new_tail, read_value=False),
            )

    def write_steps(self, rows: Mapping[str, tf.Tensor], also: AlsoWrites) -> tf.Operation:
        """Appends P time steps at once, as P calls of `write` one after the other would.

        Args:
          rows: tensors [P, N, ...], which need not be known before the call.
            1 <= P <= `most_at_once`.
          also: what else is written with them.
        """
        now, tail = self.rows_written.read_value(), self.queue_tail.read_value()
        P = tf.shape(rows["autoreset"], out_type=tf.int64)[0]
        steps = now + tf.range(P)  # [P]
        numbers = self.ring.numbers_of_steps(steps)  # [P N]
        before = self.ring.numbers_of_steps(steps - 1)
        entering = self._entering(tf.expand_dims(steps, 1), rows["autoreset"])  # [P, N]
        entering = tf.reshape(entering, [-1])  # [P N]
        tails = tail + tf.cumsum(entering)  # [P N] after each row
        # Rows that do not enter are put behind all places.
        place = tf.where_v2(entering > 0, (tails - 1) % self.capacity, self.capacity)
        flat = {n: tf.reshape(c, [-1, *c.shape[2:]]) for n, c in rows.items()}  # [P N, ...]
        tail_at = tails if self.num_envs == 1 else tails[self.num_envs - 1 :: self.num_envs]
        written, new_tail = tf.reshape(P, [1]), tails[-1:]
        writes = [
            write_at(self._queue, place, before),
            write_at(self._tail_at, steps % self.steps, tail_at),
            *self.ring.completing_writes(before, numbers, flat),
            *also(before[: self.num_envs], numbers, entering, self._leaving(now + written - 1)),
        ]
        with tf.control_dependencies(writes):
            return tf.group(
                self.rows_written.assign_add(written, read_value=False),
                self.queue_tail.assign(new_tail, read_value=False),
            )

    def count(self) -> tf.Tensor:
        """Returns how many valid rows there are, an int64 scalar."""
        head, tail = self.queue()
        return tail - head

    def queue(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Places [head, tail) of the queue hold the rows that may be sampled; int64 scalars."""
        # Gathered, not read and then reshaped: one operation instead of two.
        written, tail = tf.gather(self.rows_written, 0), tf.gather(self.queue_tail, 0)
        # By the oldest time step all of whose frames are there.
        oldest = written + self._history if self._history else written
        entered = tf.gather(self._tail_at, oldest % self.steps)
        return tf.where(oldest > self.steps, entered, tf.zeros_like(entered)), tail

    def queue_at(self, places: tf.Tensor) -> tf.Tensor:
        """The numbers of the rows that entered the queue at these places, int64 [M]."""
        return tf.gather(self._queue, places % self.capacity)

    def rows_at(self, numbers: tf.Tensor) -> Rows:
        """The rows of these numbers, int64 [M] in [0, capacity)."""
        return {name: self.ring.at(name, numbers) for name in self.ring.columns}

    def put_rows(self, numbers: tf.Tensor, rows: Mapping[str, Any]) -> tf.Operation:
        """Writes whole rows where they were, int64 [M] numbers."""
        return tf.group(*self.ring.writes(numbers, rows))

    def put_queue(
        self, places: tf.Tensor, numbers: tf.Tensor, steps: tf.Tensor, tails: tf.Tensor
    ) -> tf.Operation:
        """Puts row numbers into places of the queue, and the tails at which steps began."""
        return tf.group(
            write_at(self._queue, places % self.capacity, numbers),
            write_at(self._tail_at, steps, tails),
        )

    def _leaving(self, newest: tf.Tensor) -> tf.Tensor | None:
        """[h N] the rows whose earlier frames or history are overwritten, if they need any.

        They may not be sampled any more.

        Args:
          newest: [1] time step that is written last.
        """
        if not self._history:
            return None
        after = np.arange(1, self._history + 1, dtype=np.int64)
        return self.ring.numbers_of_steps(newest + after)

    def _entering(self, now: tf.Tensor, autoreset: tf.Tensor) -> tf.Tensor:
        """[.., N] 1 where the row before time step `now` becomes valid by it, else 0; int64."""
        # 0 also for the very first row: there is nothing before it to complete.
        return tf.minimum(1 - tf.cast(autoreset, tf.int64), now)

    def _places(self, tail: tf.Tensor, entering: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the places of N rows in the queue, [N], and how many really enter it, [1].

        The place at `tail` is always free, since the newest row is never in the queue. With one
        env a row that must not enter is put there too, and `tail` stays.
        """
        if self.num_envs == 1:
            return tail % self.capacity, entering
        place = (tail + tf.cumsum(entering, axis=-1, exclusive=True)) % self.capacity
        aside = self.capacity + np.arange(self.num_envs, dtype=np.int64)
        entered = tf.reduce_sum(entering, axis=-1, keepdims=True)
        return tf.where_v2(entering > 0, place, aside), entered


def _counter(name: str) -> tf.Variable:
    # [1], not a scalar: with one env it is a vector of row numbers as it stands, and the
    # hottest call needs no reshaping.
    return tf.get_variable(name, [1], tf.int64, tf.zeros_initializer(), trainable=False)
