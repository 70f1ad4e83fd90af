"""Drawing indices in proportion to their leaves: block sums over block sums, in graph variables.

    leaf    [size]  whole numbers, in blocks of 16
    sums            of each block of leaves; of each block of those; ... until 256 or fewer
    top             the last of these levels, searched as one

A changed leaf's sums are added up again from their children, never incremented. Leaves are whole
numbers, and sums are float64 below 2 ** 53: every addition is exact. So sums are a function of
the leaves alone, whatever was changed in whatever order, by plain operations or compiled ones,
and cumulative sums of the same numbers agree with them.

Imports: nothing of ours. Never agents, never envs.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

# Measured: cumulative sums of wider blocks cost more than another level, of narrower ones less.
_BLOCK = 16
_TOP = 256
# Cumulative sums of a block, as a product: 2 times as fast as the operation made for it.
_UP_TO = np.triu(np.ones([_BLOCK, _BLOCK]))


class SumTree:
    """Sums over `size` leaves, all 0 in the beginning.

    Args:
      size: how many.

    Attributes:
      largest_leaf: what a leaf must not exceed; it must be a whole number.
      draws: uniform numbers that `find` needs per index.
      leaf: float32 [blocks, 16] variable; what is beyond `size` is 0.
    """

    def __init__(self, size: int) -> None:
        counts = _counts(size)
        self.draws = len(counts)
        self.largest_leaf = 2.0**52 / size
        self.leaf, *sums = (
            tf.get_variable(
                f"sum_{level}" if level else "leaf",
                [-(-count // _BLOCK), _BLOCK],
                tf.float64 if level else tf.float32,
                tf.zeros_initializer(),
                trainable=False,
            )
            for level, count in enumerate(counts)
        )
        self._levels = [self.leaf, *sums]

    @staticmethod
    def nbytes(size: int) -> int:
        """Bytes of a tree over `size` leaves."""
        return sum(
            -(-count // _BLOCK) * _BLOCK * (8 if level else 4)
            for level, count in enumerate(_counts(size))
        )

    def find(self, uniform: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Indices, each with probability leaf / total; a leaf of 0 is never found.

        Stratified: index i comes from the i-th of B equal parts of the total (Schaul et al.
        2016, appendix B.2.1) as far as the top level tells them apart. On each level below, a
        number of its own picks the child.

        Args:
          uniform: [draws, B, 1] float64, multiples of 2 ** -32 in [0, 1).

        Returns:
          ([B] int64 indices, [B] float32 their leaves). Undefined while all leaves are 0.
        """
        B = int(uniform.shape[1])
        first, *below = tf.unstack(uniform)  # [B, 1] each
        top = self._levels[-1].read_value()
        up_to = tf.cumsum(tf.cast(tf.reshape(top, [1, -1]), tf.float64), axis=1)  # [1, W]
        part = (first + np.arange(B, dtype=np.float64)[:, None]) * (1.0 / B)
        index = _first_above(up_to, tf.reshape(part * up_to[:, -1:], [1, B]))  # [1, B]
        index = tf.reshape(index, [B])
        if not below:
            return index, tf.gather(tf.reshape(top, [-1]), index)
        for level, u in zip(self._levels[-2::-1], below, strict=True):
            children = tf.gather(level, index)  # [B, 16]
            up_to = tf.matmul(tf.cast(children, tf.float64), _UP_TO)
            child = _first_above(up_to, u * up_to[:, -1:])  # [B, 1]
            index = index * _BLOCK + tf.reshape(child, [B])
        leaf = tf.gather(children, child, axis=1, batch_dims=1)  # [B, 1]
        return index, tf.reshape(leaf, [B])

    def set(self, index: tf.Tensor, leaf: tf.Tensor) -> tf.Operation:
        """Sets leaves and all sums above them.

        Args:
          index: [M] int64; where one occurs twice, so must its leaf.
          leaf: [M] float32.
        """
        widths = _BLOCK ** np.arange(self.draws, dtype=np.int64)[:, None]
        # Of each level: which block, and which place in it.
        blocks = index // (widths * _BLOCK)  # [levels, M]
        places = tf.unstack(tf.stack([blocks, index // widths % _BLOCK], axis=2))  # [M, 2] each
        change = _write(self.leaf, places[0], leaf)
        blocks = tf.unstack(blocks)
        for level, above, block, place in zip(
            self._levels, self._levels[1:], blocks, places[1:], strict=False
        ):
            with tf.control_dependencies([change]):
                children = tf.gather(level, block)  # [M, 16]
            change = _write(above, place, _sums(children))
        return change

    def set_all(self, leaf: tf.Tensor) -> tf.Operation:
        """Sets every leaf, [blocks, 16] float32, and all sums."""
        changes = [self.leaf.assign(leaf, read_value=False)]
        values = leaf
        for level in self._levels[1:]:
            sums = _sums(values)
            beyond = level.shape.num_elements() - sums.shape.num_elements()
            values = tf.reshape(tf.pad(sums, [[0, beyond]]), level.shape)
            changes.append(level.assign(values, read_value=False))
        return tf.group(*changes)


def _counts(size: int) -> list[int]:
    """How many numbers each level has, from the leaves to the top."""
    counts = [size]
    while counts[-1] > _TOP:
        counts.append(-(-counts[-1] // _BLOCK))
    return counts


def _sums(blocks: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(blocks, tf.float64), axis=1)


def _first_above(up_to: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """[R, M] the first place in each row of `up_to` [R, W] with a value above x [R, M]."""
    # Where a child is 0 the cumulative sum is the one before, so it is never the first above;
    # u <= 1 - 2 ** -32 keeps x below the last one.
    return tf.raw_ops.UpperBound(sorted_inputs=up_to, values=x, out_type=tf.int64)


def _write(variable: tf.Variable, places: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.ResourceScatterNdUpdate(ref=variable.handle, indices=places, updates=values)
