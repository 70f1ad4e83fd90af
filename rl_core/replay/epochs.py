"""Passes over all valid rows in random order, in batches without replacement."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.large import large_variable
from targetnet.rl_core.graph.xla import when
from targetnet.rl_core.random import Stream
from targetnet.rl_core.replay.samplers import DrawnRows, StatelessSampler
from targetnet.rl_core.replay.valid_rows import ValidRows

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
