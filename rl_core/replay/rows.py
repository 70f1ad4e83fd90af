"""The replay's rows: a time-major ring of columns in graph variables.

Rows, not transitions. Row t holds what N envs showed, which actions were legal there, and the
action taken; the reward, whether it terminated, and whether that step was only the reset after
an episode's end are written one step later. The next observation *is* the next row, so each is
stored once.

    row       t          t+1 (true final)   t+2 (reset)       t+3
    step          a step ------>   autoreset ------>   a step ------>
    sampled?      yes              never                yes
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf


class Rows(NamedTuple):
    """Rows of the ring as they are stored: tensors, variables or arrays."""

    observation: Any  # [M, ...]
    action: Any  # [M] int32
    reward: Any  # [M] float32, of the step that followed
    terminated: Any  # [M] bool
    autoreset: Any  # [M] bool
    legal: Any = None  # [M, A] bool, of `observation`; None in a replay without masks

    def columns(self) -> dict[str, Any]:
        """Those that there are, by name."""
        return {name: column for name, column in self._asdict().items() if column is not None}


class Ring:
    """`steps` time steps of `num_envs` rows each; row numbers are time-major, N apart.

    Args:
      steps, num_envs: T, N.
      observation_shape, observation_dtype: of one env, stored as they are.
      num_actions: A if rows say which actions are legal, else None.

    Attributes:
      capacity: T * N.
      columns: Rows of variables [T * N, ...].
    """

    def __init__(
        self,
        steps: int,
        num_envs: int,
        observation_shape: Sequence[int],
        observation_dtype: tf.DType,
        num_actions: int | None,
    ) -> None:
        self.steps, self.num_envs, self.capacity = steps, num_envs, steps * num_envs
        self.columns = Rows(
            self._column("observation", observation_dtype, observation_shape),
            self._column("action", tf.int32),
            self._column("reward", tf.float32),
            self._column("terminated", tf.bool),
            self._column("autoreset", tf.bool),
            None if num_actions is None else self._column("legal", tf.bool, [num_actions]),
        )

    def numbers(self, time_step: tf.Tensor) -> tf.Tensor:
        """[N] row numbers of a time step, int64 [1]."""
        step = time_step % self.steps
        if self.num_envs == 1:
            return step
        return step * self.num_envs + np.arange(self.num_envs, dtype=np.int64)

    def numbers_of_steps(self, time_steps: tf.Tensor) -> tf.Tensor:
        """[P * N] row numbers of P time steps, int64 [P]."""
        if self.num_envs == 1:
            return time_steps % self.steps
        first = time_steps % self.steps * self.num_envs
        return tf.reshape(first[:, None] + np.arange(self.num_envs, dtype=np.int64), [-1])

    def after(self, numbers: tf.Tensor) -> tf.Tensor:
        """[M] the rows one time step later."""
        return (numbers + self.num_envs) % self.capacity

    def at(self, numbers: tf.Tensor) -> Rows:
        """The rows of these numbers, int64 [M] in [0, capacity)."""
        return Rows(**{n: tf.gather(c, numbers) for n, c in self.columns.columns().items()})

    def writes(self, numbers: tf.Tensor, rows: Rows) -> list[tf.Operation]:
        """What writes the columns that are given, one operation each; int64 [M] numbers."""
        columns = self.columns.columns()
        return [write_at(columns[n], numbers, values) for n, values in rows.columns().items()]

    def _column(self, name: str, dtype: tf.DType, shape: Sequence[int] = ()) -> tf.Variable:
        return lazy_variable(name, dtype, [self.capacity, *shape])


def row_bytes(
    observation_shape: Sequence[int], observation_dtype: tf.DType, num_actions: int | None
) -> int:
    """Bytes of one row: observation, action int32, reward float32, two flags and the mask."""
    return math.prod(observation_shape) * observation_dtype.size + 4 + 4 + 2 + (num_actions or 0)


def lazy_variable(name: str, dtype: tf.DType, shape: Sequence[int]) -> tf.Variable:
    """A variable whose memory is committed as it is written; until then it holds anything."""
    # Empty instead of zeros: pages nobody wrote to cost no memory.
    return tf.get_variable(
        name, initializer=lambda: tf.raw_ops.Empty(shape=shape, dtype=dtype), trainable=False
    )


def write_at(variable: tf.Variable, rows: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    """variable[rows] = values."""
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=rows, updates=values)
