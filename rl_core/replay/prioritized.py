"""Prioritized replay: rows are sampled in proportion to a power of their priority.

    P(i)   = p_i ** alpha / sum_k p_k ** alpha
    weight = (n * P(i)) ** -beta, divided by the largest in the batch; n valid rows

Schaul et al. (2016), https://arxiv.org/abs/1511.05952, proportional variant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.finite import where
from targetnet.rl_core.graph.large import large_variable, rows_in, write_at
from targetnet.rl_core.random import Stream
from targetnet.rl_core.replay.samplers import DrawnRows
from targetnet.rl_core.replay.sum_tree import SumTree
from targetnet.rl_core.replay.valid_rows import ValidRows

# Added to every priority: a row whose error is 0 must not vanish for good.
_LEAST = 1e-6
# Leaves are whole numbers of this.
_UNIT = 2.0**-20


class PrioritizedSampler:
    """Draws rows by priority, stratified, with the importance weights above.

    A row enters with the largest priority seen so far (1 in the beginning), or with one that it
    brings, and leaves when it is overwritten.

    Args:
      rows: where they are stored.
      alpha: returns a float32 scalar >= 0, usually fed: how much priorities count; 0 is uniform.
        When it changes, all leaves and sums are recomputed before the next draw.
      beta: returns a float32 scalar >= 0, usually fed: how much of the bias is taken back; 1 is
        all.

    Attributes:
      priority: float32 [capacity] variable: p; 0 where a row may not be sampled.
      max_priority: float32 [] variable: the largest seen.
      alpha: float32 [] variable: the one the leaves were made with.
      leaf: float32 [blocks, 16] variable: p ** alpha in whole numbers of 2 ** -20, at least one;
        0 where p is.
    """

    def __init__(
        self, rows: ValidRows, alpha: Callable[[], tf.Tensor], beta: Callable[[], tf.Tensor]
    ) -> None:
        self._capacity, self._num_envs = rows.capacity, rows.num_envs
        self._wanted_alpha, self._beta = alpha, beta
        self.nbytes = 4 * (rows.capacity + 2) + SumTree.nbytes(rows.capacity)
        with tf.variable_scope(rows.scope, auxiliary_name_scope=False):
            self.priority = large_variable(
                "priority", tf.float32, [rows.capacity], tf.zeros_initializer()
            )
            self.max_priority = _variable("max_priority", tf.ones_initializer())
            self.alpha = _variable("alpha", tf.ones_initializer())
            self._tree = SumTree(rows.capacity)
        self.leaf = self._tree.leaf

    def draw(self, batch_size: int, stream: Stream, counter: tf.Tensor) -> DrawnRows:
        """Draws rows in proportion to p ** alpha; the largest weight of a batch is 1."""
        with tf.control_dependencies([self._follow()]):
            # Whole numbers: of the same bits XLA makes other floats than plain operations.
            below = np.int64(self._tree.draws(batch_size))
            draw = stream.integers(counter, [batch_size], np.int64(0), below)
            row, leaf = self._tree.find(draw)  # [B] each
        # n and the sum are in every weight, and so cancel when divided by the largest.
        return DrawnRows(row, (tf.reduce_min(leaf) / leaf) ** self._beta())

    def written(
        self,
        before: tf.Tensor,
        written: tf.Tensor,
        entering: tf.Tensor,
        leaving: tf.Tensor | None = None,
        priority: tf.Tensor | None = None,
    ) -> list[tf.Operation]:
        """Gives rows that enter their priority, or else the largest, and all others 0."""
        gone = [] if leaving is None else [leaving]
        numbers = tf.concat([before, written, *gone], axis=0)  # [(P + 1) N], and those that leave
        # The newest row has no outcome yet, so it may not be sampled.
        not_valid = self._num_envs + sum(int(rows.shape[0]) for rows in gone)
        enters = tf.concat([entering, [0] * not_valid], axis=0)
        enters = tf.cast(enters, tf.float32)
        largest = entered = self.max_priority.read_value()
        if priority is not None:
            new = tf.abs(priority) + _LEAST  # [P N]
            new = tf.where_v2(tf.math.is_finite(new), new, largest)
            # Nothing is known of the rows before.
            rest = tf.fill([not_valid - self._num_envs], largest)
            entered = tf.concat([tf.fill([self._num_envs], largest), new, rest], axis=0)
        leaf = self._leaf_of(entered, self.alpha.read_value())
        writes = [
            write_at(self.priority, numbers, enters * entered),
            self._tree.set(self._tree.at(numbers), enters * leaf),
        ]
        if priority is not None:
            largest = tf.maximum(largest, tf.reduce_max(enters * entered))
            writes.append(self.max_priority.assign(largest, read_value=False))
        return writes

    def update(
        self, row: tf.Tensor, priority: tf.Tensor, only_if: tf.Tensor | None = None
    ) -> list[tf.Operation]:
        """Sets p = abs(priority) + 1e-6 for these rows; of a row that occurs twice, the larger.

        A row that may not be sampled any more, because it was overwritten, is left alone. If p is
        not finite it is the largest seen so far, as of a row that enters.
        """
        was = self._tree.at(row)
        valid = tf.sign(was.value)  # [B] 0 or 1
        largest = self.max_priority.read_value()
        new = tf.abs(priority) + _LEAST
        new = tf.where_v2(tf.math.is_finite(new), new, largest) * valid
        # Of a row that occurs twice one mark is left, and then the largest: the same whatever
        # the order in which rows are visited.
        mark = -1.0 - tf.range(tf.shape(row)[0], dtype=tf.float32)  # [B]
        if only_if is not None:
            before = tf.gather(self.priority, row)
            new = tf.where_v2(only_if, new, before)
            # Before the marks are written in the eyes of XLA too: a mark is always less.
            mark = tf.minimum(mark, before)
        with tf.control_dependencies([write_at(self.priority, row, mark)]):
            left = tf.gather(self.priority, row)
        counted = tf.cast(tf.equal(left, mark), tf.float64)
        # Marks are below 0, so this changes nothing; but it is after `left` in the eyes of XLA
        # too: else it copies all priorities.
        new = tf.where(new > left, new, tf.zeros_like(new))
        raised = tf.raw_ops.ResourceScatterMax(
            resource=self.priority.handle, indices=rows_in(self.priority, row), updates=new
        )
        with tf.control_dependencies([raised]):
            final = tf.gather(self.priority, row)
        leaf = self._leaf_of(final, self.alpha.read_value()) * valid
        leaf = where(only_if, leaf, was.value)
        largest = tf.maximum(largest, tf.reduce_max(new))
        return [
            self._tree.set(was, leaf, counted),
            self.max_priority.assign(largest, read_value=False),
        ]

    def kept_variables(self) -> list[tf.Variable]:
        """Priorities and leaves.

        Leaves too, because the power's last bit depends on who computes it: a compiled loop, or
        the plain operations that would make leaves anew.
        """
        return [self.priority, self.max_priority, self.alpha, self.leaf]

    def rebuild(self) -> tf.Operation:
        """Makes all sums anew, bit for bit, after the kept variables were set.

        A priority that is not finite, as the first release kept it, becomes the largest that is.
        """
        priority, largest = self.priority.read_value(), self.max_priority.read_value()
        good = tf.math.is_finite(priority)
        seen = tf.reduce_max(tf.where_v2(good, priority, 0.0))
        largest = tf.where_v2(tf.math.is_finite(largest), largest, tf.maximum(seen, 1.0))
        beyond = self.leaf.shape.num_elements() - self._capacity
        kept = tf.reshape(tf.pad(good, [[0, beyond]], constant_values=True), self.leaf.shape)
        anew = self._leaf_of(largest, self.alpha.read_value())
        return tf.group(
            self._tree.set_all(tf.where_v2(kept, self.leaf.read_value(), anew)),
            self.priority.assign(tf.where_v2(good, priority, largest), read_value=False),
            self.max_priority.assign(largest, read_value=False),
        )

    def _follow(self) -> tf.Tensor:
        """Makes leaves and sums anew if they were made with another alpha."""
        alpha = self._wanted_alpha()

        def anew(_: tf.Tensor) -> tuple[tf.Tensor]:
            beyond = self.leaf.shape.num_elements() - self._capacity
            p = tf.reshape(tf.pad(self.priority.read_value(), [[0, beyond]]), self.leaf.shape)
            leaf = tf.where(p > 0, self._leaf_of(p, alpha), tf.zeros_like(p))
            followed = self.alpha.assign(alpha, read_value=False)
            with tf.control_dependencies([self._tree.set_all(leaf), followed]):
                return (tf.constant(False),)

        # A loop that runs once or not at all: compiled, a condition would copy every leaf and
        # sum each time, a loop works in place.
        changed = tf.not_equal(alpha, self.alpha.read_value())
        return tf.while_loop(lambda again: again, anew, [changed], parallel_iterations=1)

    def _leaf_of(self, priority: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
        """The leaf of any priority but 0."""
        leaf = tf.round(priority**alpha * (1 / _UNIT))
        return tf.clip_by_value(leaf, 1.0, self._tree.largest_leaf)


def _variable(name: str, initializer: Any) -> tf.Variable:
    return tf.get_variable(name, [], tf.float32, initializer, trainable=False)
