"""Samplers: which rows a batch begins at. Uniform, or in epochs without replacement."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.large import large_variable
from targetnet.rl_core.graph.xla import when
from targetnet.rl_core.random import Stream
from targetnet.rl_core.replay.valid_rows import ValidRows


class DrawnRows(NamedTuple):
    """Rows that were drawn."""

    row: tf.Tensor  # [B] int64 numbers
    weight: tf.Tensor | None  # [B] float32 importance weights; None if all are 1


class Sampler(Protocol):
    """Draws valid rows, and is told of every row that is written and of every priority.

    Attributes:
      nbytes: bytes of what it keeps beside the rows.
      alpha: float32 [] variable: the exponent of priorities at the last draw; None without any.
    """

    nbytes: int
    alpha: tf.Variable | None

    def draw(self, batch_size: int, stream: Stream, counter: tf.Tensor) -> DrawnRows:
        """Exactly `batch_size` valid rows, with replacement; there must be one.

        Args:
          batch_size: B.
          stream, counter: of the random numbers; the counter is an int64 scalar. The same
            (stream, counter) and rows give the same draw.
        """

    def written(
        self,
        before: tf.Tensor,
        written: tf.Tensor,
        entering: tf.Tensor,
        leaving: tf.Tensor | None = None,
        priority: tf.Tensor | None = None,
    ) -> list[tf.Operation]:
        """Takes in P time steps that are written, as `AlsoWrites` of `valid_rows.py`.

        Args:
          priority: [P N] float32 of the rows `written`, as for `update`; None: not known.
        """

    def update(
        self, row: tf.Tensor, priority: tf.Tensor, only_if: tf.Tensor | None = None
    ) -> list[tf.Operation]:
        """Takes in the priorities of rows that were drawn.

        Args:
          row: [B] int64, as drawn; priority: [B] float32.
          only_if: bool scalar: if false, everything stays; None is true.
        """

    def kept_variables(self) -> list[tf.Variable]:
        """Variables that a checkpoint has to keep beside the rows and their counters."""

    def rebuild(self) -> tf.Operation | None:
        """Recomputes what follows from `kept_variables` after these were set; None if nothing."""


class StatelessSampler:
    """The part of a sampler that goes by the queue of valid rows alone."""

    def written(
        self,
        before: tf.Tensor,
        written: tf.Tensor,
        entering: tf.Tensor,
        leaving: tf.Tensor | None = None,
        priority: tf.Tensor | None = None,
    ) -> list[tf.Operation]:
        """Does nothing: the rows themselves keep the queue of valid ones."""
        return []

    def update(
        self, row: tf.Tensor, priority: tf.Tensor, only_if: tf.Tensor | None = None
    ) -> list[tf.Operation]:
        """Does nothing: there are no priorities."""
        return []

    def kept_variables(self) -> list[tf.Variable]:
        """Returns none: what is drawn follows from the rows."""
        return []

    def rebuild(self) -> tf.Operation | None:
        """Does nothing: nothing was kept."""
        return None


class UniformSampler(StatelessSampler):
    """Draws every valid row with the same probability."""

    def __init__(self, rows: ValidRows) -> None:
        self._rows, self.nbytes, self.alpha = rows, 0, None

    def draw(self, batch_size: int, stream: Stream, counter: tf.Tensor) -> DrawnRows:
        """Draws places of the queue of valid rows; no weights."""
        head, tail = self._rows.queue()
        place = stream.integers(counter, [batch_size], head, tail)  # [B]
        return DrawnRows(self._rows.queue_at(place), None)


_KEYS = np.int64(2**31 - 1)


class EpochSampler(StatelessSampler):
    """Draws every valid row once in each pass, in an order that is new in each.

    The order is in no checkpoint: checkpoints are taken between two phases, and each phase begins
    with a new order.

    A pass has as many batches as fill the rows of all time steps that may be sampled. Where fewer
    are valid, because some steps were resets, the first ones of the order come again at its end.

    Args:
      rows: where they are stored.
      batch_size: B, which divides their number.

    Attributes:
      batches: of one pass.
    """

    def __init__(self, rows: ValidRows, batch_size: int) -> None:
        self._rows, self.alpha = rows, None
        self._places = rows.most_valid
        self.batches = self._places // batch_size
        assert not self._places % batch_size  # the config was checked
        self.nbytes = 4 * self._places
        with tf.variable_scope(rows.scope, auxiliary_name_scope=False):
            self._order = large_variable("order", tf.int32, [self._places], tf.zeros_initializer())

    def draw(self, batch_size: int, stream: Stream, counter: tf.Tensor) -> DrawnRows:
        """Draws batch number `counter` modulo `batches` of a pass; the first one shuffles."""
        head, tail = self._rows.queue()
        batch = counter % self.batches

        def shuffle() -> tf.Operation:
            keys = stream.integers(counter, [self._places], np.int64(0), _KEYS)
            there = tf.range(self._places, dtype=tf.int64) < tail - head
            # Places beyond the valid rows come last. Of equal keys the first place comes first.
            keys = tf.where_v2(there, tf.cast(keys, tf.int32), -1)
            order = tf.math.top_k(keys, self._places).indices
            return self._order.assign(order, read_value=False)

        with tf.control_dependencies([when(tf.equal(batch, 0), shuffle)]):
            place = (batch * batch_size + tf.range(batch_size, dtype=tf.int64)) % (tail - head)
            order = tf.cast(tf.gather(self._order, place), tf.int64)  # [B]
        return DrawnRows(self._rows.queue_at(head + order), None)
