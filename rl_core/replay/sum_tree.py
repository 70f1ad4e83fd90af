"""Drawing indices in proportion to their leaves: block sums over block sums, in graph variables.

    leaf    [size]  whole numbers, in blocks of 16
    sums            of each block of leaves; of each block of those; ... until 64 or fewer
    top             the last of these levels, searched as one

All levels of sums are rows of one variable. A row holds the cumulative sums of its block, since
that is what a search reads, and a changed leaf adds its difference to one row of each level, all
of them in one operation. Leaves are whole numbers, and sums are float64 below 2 ** 52: every
addition is exact, and so is what is taken away again. So sums are a function of the leaves alone,
whatever was changed in whatever order, by plain operations or compiled ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.large import LargeVariable, large_variable, rows_in

# Measured: searching wider blocks, or a wider top, costs more than another level does.
_BITS = 4
_BLOCK = 1 << _BITS
_TOP = 64
# Cumulative sums of a block, as a product: 2 times as fast as the operation made for it.
_UP_TO = np.triu(np.ones([_BLOCK, _BLOCK]))


class Leaves(NamedTuple):
    """Some leaves, and where they are."""

    block: tf.Tensor  # [M] int64
    place: tf.Tensor  # [M] int64, within the block
    value: tf.Tensor  # [M] float32


class SumTree:
    """Sums over `size` leaves, all 0 in the beginning.

    Args:
      size: how many.

    Attributes:
      largest_leaf: what a leaf must not exceed; it must be a whole number.
      leaf: float32 [blocks, 16] variable; what is beyond `size` is 0.
    """

    def __init__(self, size: int) -> None:
        layout = _layout(size)
        self.largest_leaf = 2.0**52 / size
        self.leaf = _variable("leaf", tf.float32, [layout.blocks, _BLOCK])
        self._sums = _variable("sums", tf.float64, [layout.rows, _BLOCK])
        self._begins = layout.begins
        top_rows = -(-layout.top // _BLOCK)
        self._top_rows = np.arange(top_rows)
        self._rows_before = np.tril(np.ones([top_rows, top_rows]), -1)

    @staticmethod
    def nbytes(size: int) -> int:
        """Bytes of a tree over `size` leaves."""
        layout = _layout(size)
        return _BLOCK * (4 * layout.blocks + 8 * layout.rows)

    @staticmethod
    def draws(batch_size: int) -> int:
        """Returns the number of values, a power of 2, that a draw of `find` may have."""
        return 1 << 50 - (batch_size - 1).bit_length()

    def find(self, draw: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Indices, each with probability leaf / total; a leaf of 0 is never found.

        Stratified: index i comes from the i-th of B equal parts of the total (Schaul et al.
        2016, appendix B.2.1).

        Args:
          draw: [B] int64, uniform in [0, draws(B)).

        Returns:
          ([B] int64 indices, [B] float32 their leaves). Undefined while all leaves are 0.
        """
        B = int(draw.shape[0])
        top = tf.gather(self._sums, self._top_rows)  # [R, 16]
        before = tf.matmul(self._rows_before, top[:, -1:])  # [R, 1]
        up_to = tf.reshape(before + top, [1, -1])  # [1, 16 R]
        every = np.arange(B, dtype=np.int64) * self.draws(B) + draw
        share = tf.cast(every, tf.float64) * (1.0 / (B * self.draws(B)))  # [B] in [0, 1)
        # The middle of a unit of the total. From here on every number is a whole one and a half
        # below 2 ** 52: exact, and never at the border of two leaves.
        x = tf.floor(tf.reshape(share, [1, B]) * up_to[:, -1:]) + 0.5  # [1, B]
        row = tf.reshape(_first_above(up_to, x), [B])
        x = tf.gather(tf.reshape(up_to, [-1]), row) - tf.reshape(x, [B])
        if len(self._begins) > 1:
            row = row + self._begins[-2]
            for _ in self._begins[:-1]:
                row, x = _descend(tf.gather(self._sums, row), row, x)
            row = row - self._begins[0] * _BLOCK
        leaves = tf.gather(self.leaf, row)  # [B, 16]
        up_to = tf.matmul(tf.cast(leaves, tf.float64), _UP_TO)
        place = tf.reshape(_first_above(up_to, x[:, None]), [B])
        return row * _BLOCK + place, _at(leaves, place)

    def at(self, index: tf.Tensor) -> Leaves:
        """The leaves at `index`, [M] int64."""
        block, place = _split(index)
        return Leaves(block, place, _at(tf.gather(self.leaf, block), place))

    def set(
        self, leaves: Leaves, value: tf.Tensor, counted: tf.Tensor | None = None
    ) -> tf.Operation:
        """Sets leaves and all sums above them.

        Args:
          leaves: as they are now.
          value: [M] float32, what they become; of a leaf that occurs twice, the same.
          counted: [M] float64, 1 at one occurrence of each leaf and 0 at the others; None if
            each occurs once.
        """
        # A change that needs the present leaves in the eyes of XLA too: else it copies them all.
        # (Never of two equal ones: a 0 would be -0 or 0.)
        value = tf.maximum(value, -1.0 - leaves.value)
        changed = tf.raw_ops.ResourceScatterNdUpdate(
            ref=self.leaf.handle,
            indices=tf.stack([rows_in(self.leaf, leaves.block), leaves.place], axis=1),
            updates=value,
        )
        more = tf.cast(value, tf.float64) - tf.cast(leaves.value, tf.float64)  # [M]
        if counted is not None:
            more = more * counted
        levels = len(self._begins)
        shifts = _BITS * np.arange(levels, dtype=np.int64)
        rows, places = _split(tf.bitwise.right_shift(leaves.block[:, None], shifts))
        # [M, levels] each. Cumulative sums change from the place on.
        changes = tf.reshape(tf.gather(_UP_TO, places), [-1, levels * _BLOCK]) * more[:, None]
        added = tf.raw_ops.ResourceScatterAdd(
            resource=self._sums.handle,
            indices=rows_in(self._sums, rows + np.array(self._begins, np.int64)),
            updates=tf.reshape(changes, [-1, levels, _BLOCK]),
        )
        return tf.group(changed, added)

    def set_all(self, leaf: tf.Tensor) -> tf.Operation:
        """Sets every leaf, [blocks, 16] float32, and all sums."""
        sums = tf.reduce_sum(tf.cast(leaf, tf.float64), axis=1)
        levels: list[tf.Tensor] = []
        end = int(self._sums.shape[0])
        for begin in self._begins:
            blocks = tf.reshape(tf.pad(sums, [[0, -int(sums.shape[0]) % _BLOCK]]), [-1, _BLOCK])
            rows = tf.matmul(blocks, _UP_TO)
            levels.insert(0, tf.pad(rows, [[0, end - begin - int(rows.shape[0])], [0, 0]]))
            sums, end = rows[:, -1], begin
        return tf.group(
            self.leaf.assign(leaf, read_value=False),
            self._sums.assign(tf.concat(levels, axis=0), read_value=False),
        )


class _Layout(NamedTuple):
    """Sizes of a tree, and the row at which each level of sums begins.

    The top level begins at row 0 and the next one after it. Every further level begins at 16 times
    the first row of the level above. So, below the top, the sum of place p in row r is that of row
    16 r + p.
    """

    blocks: int  # of leaves
    top: int  # sums in the top level
    rows: int  # of all levels
    begins: list[int]  # first row of each level, the lowest level first


def _layout(size: int) -> _Layout:
    counts = [-(-size // _BLOCK)]
    while counts[-1] > _TOP:
        counts.append(-(-counts[-1] // _BLOCK))
    first = -(-counts[-1] // (_BLOCK - 1))  # so that each level has room before the next
    begins = [first * _BLOCK**level for level in reversed(range(len(counts) - 1))] + [0]
    rows = begins[0] + -(-counts[0] // _BLOCK)
    return _Layout(counts[0], counts[-1], rows, begins)


def _descend(up_to: tf.Tensor, row: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Descends one level: returns each row's child at x, [B], and what is left of x within it.

    It is what is left to the child's end, which serves as well as what came since its beginning.
    """
    child = tf.reshape(_first_above(up_to, x[:, None]), [-1])
    return row * _BLOCK + child, _at(up_to, child) - x


def _first_above(up_to: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """[R, M] the first place in each row of `up_to` [R, W] with a value above x [R, M]."""
    # Where a child is 0 the cumulative sum is the one before, so it is never the first above.
    return tf.raw_ops.UpperBound(sorted_inputs=up_to, values=x, out_type=tf.int64)


def _split(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The block, and the place in it."""
    block = tf.bitwise.right_shift(index, np.int64(_BITS))
    return block, tf.bitwise.bitwise_and(index, np.int64(_BLOCK - 1))


def _at(blocks: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
    """[M] of [M, 16], at places [M]."""
    # Flat: 2 times as fast as a gather with a batch dimension.
    first = tf.range(tf.shape(place, out_type=tf.int64)[0]) * _BLOCK
    return tf.gather(tf.reshape(blocks, [-1]), first + place)


def _variable(name: str, dtype: tf.DType, shape: list[int]) -> LargeVariable:
    return large_variable(name, dtype, shape, tf.zeros_initializer())
