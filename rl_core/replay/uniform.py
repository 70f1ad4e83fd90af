"""Uniform replay: a ring of rows in graph variables.

Rows, not transitions. Row t holds what N envs showed, and the action taken there; the reward,
whether it terminated, and whether that step was only the reset after an episode's end are
written one step later. The next observation *is* the next row, so each is stored once.

    row       t          t+1 (true final)   t+2 (reset)       t+3
    step          a step ------>   autoreset ------>   a step ------>
    sampled?      yes              never                yes

Which rows may be sampled is a queue of their numbers: a row enters when its outcome is known
and was not an autoreset, and leaves when the ring overwrites it (the queue's head is the place
at which the oldest time step entered). A uniform draw from the queue is thus a uniform draw
from the valid rows, always exactly B of them, without any rejection.

Imports: rl_core.errors, rl_core.random, rl_core.replay.memory. Never agents, never envs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.errors import ConfigError
from rl_core.random import Stream
from rl_core.replay.memory import check_memory

# Per row: action int32, reward float32, terminated, autoreset, queue int64.
_OTHER_BYTES = 4 + 4 + 1 + 1 + 8


class Transitions(NamedTuple):
    """A sampled batch."""

    s_tm1: tf.Tensor  # [B, ...] observation at the source
    a_tm1: tf.Tensor  # [B] int32
    r_t: tf.Tensor  # [B] float32
    terminated: tf.Tensor  # [B] bool: the destination is terminal (a time limit is not)
    s_t: tf.Tensor  # [B, ...] observation at the destination


class Rows(NamedTuple):
    """Rows of the ring as they are stored."""

    observation: tf.Tensor  # [M, ...]
    action: tf.Tensor  # [M] int32
    reward: tf.Tensor  # [M] float32, of the step that followed
    terminated: tf.Tensor  # [M] bool
    autoreset: tf.Tensor  # [M] bool


class UniformReplay:
    """Ring of `capacity // num_envs` time steps of `num_envs` rows each.

    Its memory is committed by the operating system as rows are written, not at the start.

    Args:
      capacity: rows in all; rounded down to a multiple of num_envs.
      num_envs: N.
      observation_shape, observation_dtype: of one env, stored as they are.
      name: variable scope.

    Attributes:
      rows_written: int64 [1] variable: time steps written so far, the newest one's outcome pending.
      queue_tail: int64 [1] variable: rows that ever entered the queue.
      nbytes: bytes of all rows, once written.

    Raises:
      ConfigError: fewer than three time steps fit (a step, its end and the reset after it).
      MemoryLimitError: the rows need more memory than there is; says how much of each.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        observation_shape: Sequence[int],
        observation_dtype: Any,
        *,
        name: str = "replay",
    ) -> None:
        self.num_envs = num_envs
        self.steps = capacity // num_envs
        if self.steps < 3:
            raise ConfigError(
                f"a replay for {num_envs} envs needs a capacity of at least {3 * num_envs} rows, "
                f"got {capacity}"
            )
        self.capacity = self.steps * num_envs
        dtype = tf.as_dtype(observation_dtype)
        observation_bytes = math.prod(observation_shape) * dtype.size
        self.nbytes = self.capacity * (observation_bytes + _OTHER_BYTES) + 8 * (
            num_envs + self.steps
        )
        check_memory(self.nbytes, f"a replay of {self.capacity:,} rows")
        with tf.variable_scope(name) as scope:
            self._scope = scope.name
            self._observation = self._rows("observation", dtype, observation_shape)
            self._action = self._rows("action", tf.int32)
            self._reward = self._rows("reward", tf.float32)
            self._terminated = self._rows("terminated", tf.bool)
            self._autoreset = self._rows("autoreset", tf.bool)
            # N more places: where the numbers of rows that must not be sampled are put.
            self._queue = self._variable("queue", tf.int64, [self.capacity + num_envs])
            # The queue's tail when a time step was written: the place of its own first row.
            self._tail_at = self._variable("tail_at", tf.int64, [self.steps])
            self.rows_written = _counter("rows_written")
            self.queue_tail = _counter("queue_tail")

    def write(
        self,
        observation: tf.Tensor,
        action: tf.Tensor,
        reward: tf.Tensor,
        terminated: tf.Tensor,
        autoreset: tf.Tensor,
    ) -> tf.Operation:
        """Appends one time step and completes the one before it.

        Args:
          observation: [N, ...] what the envs show now.
          action: [N] int32, taken on it.
          reward, terminated, autoreset: [N], of the step that led to `observation`.
        """
        with tf.name_scope("write"):
            now, tail = self.rows_written.read_value(), self.queue_tail.read_value()
            step = now % self.steps
            rows, before = self._row_numbers(step), self._row_numbers((now - 1) % self.steps)
            # 0 also for the very first row: there is nothing before it to complete.
            entering = tf.minimum(1 - tf.cast(autoreset, tf.int64), now)  # [N] 0 or 1
            place, entered = self._places(tail, entering)
            new_tail = tail + entered
            writes = [
                _write(self._queue, place, before),
                _write(self._tail_at, step, new_tail),
                _write(self._observation, rows, observation),
                _write(self._action, rows, action),
                _write(self._reward, before, reward),
                _write(self._terminated, before, terminated),
                _write(self._autoreset, before, autoreset),
            ]
            with tf.control_dependencies(writes):
                return tf.group(
                    self.rows_written.assign_add([1], read_value=False),
                    self.queue_tail.assign(new_tail, read_value=False),
                )

    def sample(self, batch_size: int, stream: Stream, counter: tf.Tensor) -> Transitions:
        """Exactly `batch_size` valid transitions, uniformly, with replacement.

        `counter` is an int64 scalar; the same (stream, counter) and rows give the same batch.
        There must be a valid row: what an empty replay gives is undefined.
        """
        with tf.name_scope("sample"):
            head, tail = self.queue()
            place = stream.integers(counter, [batch_size], head, tail)  # [B]
            source = tf.gather(self._queue, place % self.capacity)  # [B]
            destination = (source + self.num_envs) % self.capacity  # [B]
            return Transitions(
                s_tm1=tf.gather(self._observation, source),
                a_tm1=tf.gather(self._action, source),
                r_t=tf.gather(self._reward, source),
                terminated=tf.gather(self._terminated, source),
                s_t=tf.gather(self._observation, destination),
            )

    def queue(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Places [head, tail) of the queue hold the rows that may be sampled; int64 scalars."""
        oldest = self.rows_written.read_value() - self.steps
        entered = tf.gather(self._tail_at, oldest % self.steps)
        head = tf.where(oldest > 0, entered, tf.zeros_like(entered))
        return tf.reshape(head, []), tf.reshape(self.queue_tail.read_value(), [])

    def owns(self, variable: tf.Variable) -> bool:
        """Whether it is one of the replay's own."""
        return variable.op.name.startswith(self._scope + "/")

    def rows_at(self, numbers: tf.Tensor) -> Rows:
        """The rows of these numbers, int64 [M] in [0, capacity)."""
        variables = (
            self._observation, self._action, self._reward, self._terminated, self._autoreset,
        )  # fmt: skip
        return Rows(*(tf.gather(variable, numbers) for variable in variables))

    def put_rows(self, numbers: tf.Tensor, rows: Rows) -> tf.Operation:
        """Writes whole rows where they were, int64 [M] numbers."""
        variables = (
            self._observation, self._action, self._reward, self._terminated, self._autoreset,
        )  # fmt: skip
        pairs = zip(variables, rows, strict=True)
        return tf.group(*[_write(variable, numbers, values) for variable, values in pairs])

    def put_queue(
        self, places: tf.Tensor, numbers: tf.Tensor, steps: tf.Tensor, tails: tf.Tensor
    ) -> tf.Operation:
        """Puts row numbers into places of the queue, and the tails at which steps began."""
        return tf.group(
            _write(self._queue, places % self.capacity, numbers),
            _write(self._tail_at, steps, tails),
        )

    def queue_at(self, places: tf.Tensor) -> tf.Tensor:
        """The numbers of the rows that entered the queue at these places, int64 [M]."""
        return tf.gather(self._queue, places % self.capacity)

    def _rows(self, name: str, dtype: tf.DType, shape: Sequence[int] = ()) -> tf.Variable:
        return self._variable(name, dtype, [self.capacity, *shape])

    def _variable(self, name: str, dtype: tf.DType, shape: Sequence[int]) -> tf.Variable:
        # Empty instead of zeros: pages nobody wrote to cost no memory.
        return tf.get_variable(
            name, initializer=lambda: tf.raw_ops.Empty(shape=shape, dtype=dtype), trainable=False
        )

    def _row_numbers(self, step: tf.Tensor) -> tf.Tensor:
        if self.num_envs == 1:
            return step
        return step * self.num_envs + np.arange(self.num_envs, dtype=np.int64)  # [N]

    def _places(self, tail: tf.Tensor, entering: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Where N rows go in the queue, [N], and how many of them really enter it, [1].

        The place at `tail` is always free, since the newest row is never in the queue. With one
        env a row that must not enter is put there too, and `tail` stays.
        """
        if self.num_envs == 1:
            return tail % self.capacity, entering
        place = (tail + tf.cumsum(entering, exclusive=True)) % self.capacity
        aside = self.capacity + np.arange(self.num_envs, dtype=np.int64)
        return tf.where(entering > 0, place, aside), tf.reduce_sum(entering, keepdims=True)


def _counter(name: str) -> tf.Variable:
    # [1], not a scalar: with one env it is a vector of row numbers as it stands, and the
    # hottest call needs no reshaping.
    return tf.get_variable(name, [1], tf.int64, tf.zeros_initializer(), trainable=False)


def _write(variable: tf.Variable, rows: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=rows, updates=values)
