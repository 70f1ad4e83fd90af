"""Rows of a replay: a time-major ring of declared columns in graph variables.

Rows, not transitions. Row t holds what N envs showed, which actions were legal there, and the
action taken; the reward, whether it terminated, and whether that step was only the reset after
an episode's end are written one step later. The next observation *is* the next row, so each is
stored once.

    row       t          t+1 (true final)   t+2 (reset)       t+3
    step          a step ------>   autoreset ------>   a step ------>
    sampled?      yes              never                yes

A column is stored because it is declared: the ring, checkpoints, the trace and the digest go
through the list of columns and ask for no other names than those of a transition.

With a stack of k, an observation is learned from together with the k - 1 before it in the same
episode; a row still stores only its own, its frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.digest import word_factors
from targetnet.rl_core.graph.large import large_variable, write_at

# Column name -> values [M, ...]: tensors, variables or arrays; in the order of the columns.
Rows = dict[str, Any]


class Column(NamedTuple):
    """One column of a ring.

    Attributes:
      name: of the variable, and in checkpoints.
      dtype, shape: of one row.
      of_outcome: written one time step after its row, with what followed the action.
    """

    name: str
    dtype: tf.DType
    shape: tuple[int, ...] = ()
    of_outcome: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape) * int(self.dtype.size)


def transition_columns(
    observation_shape: Sequence[int],
    observation_dtype: Any,
    num_actions: int | None = None,
    branches: int = 0,
) -> list[Column]:
    """Declares the columns that transitions are made of.

    Args:
      observation_shape, observation_dtype: of one env; observations are stored as they are.
      num_actions: A, if rows say which actions are legal; else None, and no column does.
      branches: D, numbers that an action consists of; 0: it is one number.
    """
    columns = [
        Column("observation", tf.as_dtype(observation_dtype), tuple(observation_shape)),
        Column("action", tf.int32, (branches,) if branches else ()),
        Column("reward", tf.float32, of_outcome=True),
        Column("terminated", tf.bool, of_outcome=True),
        Column("autoreset", tf.bool, of_outcome=True),
    ]
    if num_actions is not None:
        columns.append(Column("legal", tf.bool, (num_actions,)))
    return columns


class Ring:
    """`steps` time steps of `num_envs` rows each; row numbers are time-major, N apart.

    Args:
      steps, num_envs: T, N.
      columns: of each row.
      stack: k, frames that make an observation that is learned from.

    Attributes:
      capacity: T * N.
      columns: name -> variable [T * N, ...].
      of_outcome: names of the columns that are written one time step later.
    """

    def __init__(
        self, steps: int, num_envs: int, columns: Sequence[Column], stack: int = 1
    ) -> None:
        self.steps, self.num_envs, self.capacity = steps, num_envs, steps * num_envs
        self._earlier = stack - 1
        self.columns: Rows = {
            of.name: large_variable(of.name, of.dtype, [self.capacity, *of.shape]) for of in columns
        }
        self.of_outcome = frozenset(of.name for of in columns if of.of_outcome)

    def numbers(self, time_step: tf.Tensor) -> tf.Tensor:
        """[N] row numbers of a time step, int64 [1]."""
        step = time_step % self.steps
        if self.num_envs == 1:
            return step
        return step * self.num_envs + np.arange(self.num_envs, dtype=np.int64)

    def numbers_of_steps(self, time_steps: tf.Tensor) -> tf.Tensor:
        """[.., P * N] row numbers of P time steps, int64 [.., P]."""
        if self.num_envs == 1:
            return time_steps % self.steps
        first = time_steps % self.steps * self.num_envs
        numbers = first[..., None] + np.arange(self.num_envs, dtype=np.int64)
        if first.shape.rank == 1:
            return tf.reshape(numbers, [-1])
        return tf.reshape(numbers, tf.concat([tf.shape(first)[:-1], [-1]], 0))

    def after(self, numbers: tf.Tensor) -> tf.Tensor:
        """[M] the rows one time step later."""
        return (numbers + self.num_envs) % self.capacity

    def at(self, name: str, numbers: tf.Tensor) -> tf.Tensor:
        """One column of the rows of these numbers, int64 [M] in [0, capacity)."""
        return tf.gather(self.columns[name], numbers)

    def observations(self, numbers: tf.Tensor) -> tf.Tensor:
        """The observations that are learned from at the rows of these numbers, int64 [M].

        Returns:
          [M, ...] what they store; with a stack of k, [M, ..., k * C] of frames [..., C], the
          newest one last, and zeros for those before the episode's first.
        """
        frame = self.at("observation", numbers)
        if not self._earlier:
            return frame
        frames, goes_back = [frame], tf.ones_like(numbers, tf.bool)
        lead = [-1, *[1] * (frame.shape.rank - 1)]
        for _ in range(self._earlier):
            numbers = (numbers - self.num_envs) % self.capacity
            # Also where rows before the very first one would be: it too came by a reset. What was
            # never written is no bool, and `goes_back` is false first then.
            first = tf.logical_not(self.at("autoreset", numbers))
            goes_back = tf.logical_and(goes_back, first)
            frame = self.at("observation", numbers)
            there = tf.reshape(goes_back, lead)
            frames.insert(0, tf.where_v2(there, frame, tf.zeros([], frame.dtype)))
        return joined_frames(tf.stack(frames, axis=1))

    def writes(self, numbers: tf.Tensor, rows: Mapping[str, Any]) -> list[tf.Operation]:
        """Writes the given columns of these rows, int64 [M]; one operation for each column."""
        return [write_at(self.columns[n], numbers, values) for n, values in rows.items()]

    def completing_writes(
        self, before: tf.Tensor, numbers: tf.Tensor, rows: Mapping[str, Any]
    ) -> list[tf.Operation]:
        """Writes what rows `numbers` show, and the outcomes of the rows `before` them."""
        shown = {n: values for n, values in rows.items() if n not in self.of_outcome}
        outcome = {n: values for n, values in rows.items() if n in self.of_outcome}
        return [*self.writes(numbers, shown), *self.writes(before, outcome)]


class RowChecksum:
    """`targetnet.rl_core.digest.checksums` of one time step in the graph, some columns at a time.

    Args:
      ring: whose columns there are; what a time step of it has is [N, ...] of each.
    """

    def __init__(self, ring: Ring) -> None:
        self._begins: dict[str, int] = {}  # of each column's bytes
        end = 0
        for name, column in ring.columns.items():
            self._begins[name] = end
            end += ring.num_envs * column.shape[1:].num_elements() * column.dtype.size
        self._factors = word_factors(-(-end // 4))

    def part(self, rows: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns what these columns [N, ...] add to the checksum, a uint32 scalar."""
        return tf.add_n(
            [self._of(begin, rows[n]) for n, begin in self._begins.items() if n in rows]
        )

    def _of(self, begin: int, column: tf.Tensor) -> tf.Tensor:
        whole = tf.cast(column, tf.uint8) if column.dtype == tf.bool else column
        size, count = whole.dtype.size, whole.shape.num_elements()
        if not begin % 4 and not count * size % 4:
            words = tf.bitcast(tf.reshape(whole, [-1, max(1, 4 // size)]), tf.uint32)
            factors = self._factors[begin // 4 :][: count * size // 4]
            return tf.reduce_sum(tf.reshape(words, [-1]) * factors)
        data = tf.reshape(tf.bitcast(whole, tf.uint8), [-1])
        at = begin + np.arange(count * size)
        places = (8 * (at % 4)).astype(np.uint32)
        return tf.reduce_sum(tf.cast(data, tf.uint32) * (self._factors[at // 4] << places))


def joined_frames(frames: tf.Tensor) -> tf.Tensor:
    """[M, k, ..., C] frames, oldest first -> [M, ..., k * C]."""
    rank, (k, *shape) = frames.shape.rank, frames.shape[1:].as_list()
    # The frames of one place side by side, as a convolution reads its channels.
    order = [0, *range(2, rank - 1), 1, rank - 1]
    return tf.reshape(tf.transpose(frames, order), [-1, *shape[:-1], k * shape[-1]])


def newest_frame(observations: Any, stack: int) -> Any:
    """[..., k * C] of k frames, a tensor or an array -> [..., C] the newest one."""
    return observations if stack < 2 else observations[..., -(observations.shape[-1] // stack) :]
