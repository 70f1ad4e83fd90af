"""Uniform replay: a ring of rows in graph variables.

Rows, not transitions. Row t holds what N envs showed, and the action taken there; the reward,
whether it terminated, and whether that step was only the reset after an episode's end are
written one step later. The next observation *is* the next row, so each is stored once.

    row       t          t+1 (true final)   t+2 (reset)       t+3
    step          a step ------>   autoreset ------>   a step ------>
    sampled?      yes              never                yes

Which rows may be sampled is a queue of their numbers: a row enters when its outcome is known
and was not an autoreset, and leaves when the ring overwrites it. A uniform draw from the queue
is thus a uniform draw from the valid rows, always exactly B of them, without any rejection.

Imports: rl_core.random, rl_core.replay.memory. Never agents, never envs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

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


class UniformReplay:
    """Ring of `capacity // num_envs` time steps of `num_envs` rows each.

    Its memory is committed by the operating system as rows are written, not at the start.

    Args:
      capacity: rows in all; rounded down to a multiple of num_envs.
      num_envs: N.
      observation_shape, observation_dtype: of one env, stored as they are.
      name: variable scope.

    Attributes:
      rows_written: int64 variable: time steps written so far, the newest one's outcome pending.
      queue_head, queue_tail: int64 variables; tail - head rows may be sampled.
      nbytes: bytes of all rows, once written.

    Raises:
      ValueError: fewer than three time steps fit (a step, its end and the reset after it).
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
            raise ValueError(
                f"a replay for {num_envs} envs needs a capacity of at least {3 * num_envs} rows, "
                f"got {capacity}"
            )
        self.capacity = self.steps * num_envs
        dtype = tf.as_dtype(observation_dtype)
        observation_bytes = math.prod(observation_shape) * dtype.size
        self.nbytes = self.capacity * (observation_bytes + _OTHER_BYTES) + num_envs * 8
        check_memory(self.nbytes, f"a replay of {self.capacity:,} rows")
        with tf.variable_scope(name):
            self._observation = self._rows("observation", dtype, observation_shape)
            self._action = self._rows("action", tf.int32)
            self._reward = self._rows("reward", tf.float32)
            self._terminated = self._rows("terminated", tf.bool)
            self._autoreset = self._rows("autoreset", tf.bool)
            # N more places: where the numbers of rows that must not be sampled are put.
            self._queue = self._rows("queue", tf.int64, more=num_envs)
            self.rows_written = _counter("rows_written")
            self.queue_head = _counter("queue_head")
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
            now = self.rows_written.read_value()
            row = now % self.steps
            rows, before = self._row_numbers(row), self._row_numbers((now - 1) % self.steps)
            # The very first row has nothing before it to complete.
            valid = tf.logical_and(tf.logical_not(autoreset), now > 0)
            leaving = self._leaving(rows, now)
            with tf.control_dependencies([leaving]):
                entered, queued = self._enter(before, valid)
                writes = [
                    queued,
                    _write(self._observation, rows, observation),
                    _write(self._action, rows, action),
                    _write(self._reward, before, reward),
                    _write(self._terminated, before, terminated),
                    _write(self._autoreset, before, tf.logical_not(valid)),
                    self.queue_head.assign_add(leaving, read_value=False),
                ]
            with tf.control_dependencies([now, entered, *writes[:1]]):
                counts = [
                    self.rows_written.assign_add(1, read_value=False),
                    self.queue_tail.assign_add(entered, read_value=False),
                ]
            return tf.group(*writes, *counts)

    def sample(self, batch_size: int, stream: Stream, counter: tf.Tensor) -> Transitions:
        """Exactly `batch_size` valid transitions, uniformly, with replacement.

        `counter` is an int64 scalar; the same (stream, counter) and rows give the same batch.
        There must be a valid row: what an empty replay gives is undefined.
        """
        with tf.name_scope("sample"):
            head, tail = self.queue_head.read_value(), self.queue_tail.read_value()
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

    def _rows(
        self, name: str, dtype: tf.DType, shape: Sequence[int] = (), more: int = 0
    ) -> tf.Variable:
        full = [self.capacity + more, *shape]
        # Empty instead of zeros: pages nobody wrote to cost no memory.
        return tf.get_variable(
            name, initializer=lambda: tf.raw_ops.Empty(shape=full, dtype=dtype), trainable=False
        )

    def _row_numbers(self, step: tf.Tensor) -> tf.Tensor:
        return step * self.num_envs + np.arange(self.num_envs, dtype=np.int64)  # [N]

    def _leaving(self, rows: tf.Tensor, now: tf.Tensor) -> tf.Tensor:
        """How many queued rows the ring is about to overwrite: the oldest ones, in order."""
        stale = tf.cast(tf.logical_not(tf.gather(self._autoreset, rows)), tf.int64)
        return tf.where(now >= self.steps, tf.reduce_sum(stale), 0)

    def _enter(self, rows: tf.Tensor, valid: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
        """Queues the valid ones among `rows`; returns how many they are, and the op."""
        ones = tf.cast(valid, tf.int64)  # [N]
        ahead = tf.cumsum(ones, exclusive=True) if self.num_envs > 1 else np.zeros(1, np.int64)
        place = (self.queue_tail.read_value() + ahead) % self.capacity
        aside = self.capacity + np.arange(self.num_envs, dtype=np.int64)
        return tf.reduce_sum(ones), _write(self._queue, tf.where(valid, place, aside), rows)


def _counter(name: str) -> tf.Variable:
    return tf.get_variable(name, [], tf.int64, tf.zeros_initializer(), trainable=False)


def _write(variable: tf.Variable, rows: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=rows, updates=values)
