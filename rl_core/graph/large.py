"""Variables that are too large to be copied: read and written by rows, in place.

Several members of a population each have a part of one variable. To whoever reads or writes, a part
looks like a variable of its own: it begins at row 0, and belongs to the active member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.scopes import MemberSlots, current_root


class MemberSlice:
    """The part of a variable [P * n, ...] that is the active member's: rows [n, ...].

    Args:
      whole: all members' parts, one after the other.
      members: whose parts they are.
    """

    def __init__(self, whole: tf.Variable, members: MemberSlots) -> None:
        n, *shape = whole.shape.as_list()
        self._whole, self._members, self._rows = whole, members, n // members.count
        self.shape = tf.TensorShape([self._rows, *shape])
        self.dtype, self.op, self.handle = whole.dtype, whole.op, whole.handle

    def rows(self, numbers: Any) -> tf.Tensor:
        """The numbers in the whole variable of these rows, int64."""
        return numbers + self._begin()

    def sparse_read(self, indices: tf.Tensor, name: str | None = None) -> tf.Tensor:
        """Reads some rows, int64 numbers; `tf.gather` calls it."""
        return tf.gather(self._whole, self.rows(indices), name=name)

    def read_value(self) -> tf.Tensor:
        """All rows."""
        begin = [self._begin(), *[0] * (self.shape.rank - 1)]
        return tf.slice(self._whole.read_value(), tf.stack(begin), self.shape.as_list())

    def assign(self, value: tf.Tensor, *, read_value: bool) -> tf.Operation:
        """Writes all rows; nothing is read back."""
        assert not read_value
        numbers = self.rows(tf.range(self._rows, dtype=tf.int64))
        return tf.raw_ops.ResourceScatterUpdate(
            resource=self.handle, indices=numbers, updates=value
        )

    def _begin(self) -> tf.Tensor:
        return self._members.active_member * self._rows


LargeVariable: TypeAlias = tf.Variable | MemberSlice


def large_variable(
    name: str, dtype: tf.DType, shape: list[int], initializer: Callable[[], tf.Tensor] | None = None
) -> LargeVariable:
    """Makes a variable [n, ...]; under a root with members, each has a part of that shape.

    Args:
      initializer: as for `tf.get_variable`; None: nothing is written, so its memory is
        committed as it is written, and holds anything until then.
    """
    members = current_root().members
    if members is not None:
        shape = [members.count * shape[0], *shape[1:]]
    if initializer is None:
        # Empty instead of zeros: pages nobody wrote to cost no memory.
        empty = lambda: tf.raw_ops.Empty(shape=shape, dtype=dtype)  # noqa: E731
        whole = tf.get_variable(name, initializer=empty, trainable=False)
    else:
        whole = tf.get_variable(name, shape, dtype, initializer, trainable=False)
    if members is None:
        return whole
    part = MemberSlice(whole, members)
    members.has_part(whole, part)
    return part


def rows_in(variable: LargeVariable, numbers: Any) -> Any:
    """Returns where rows `numbers`, int64, are in the memory of `variable.handle`."""
    return variable.rows(numbers) if isinstance(variable, MemberSlice) else numbers


def write_at(variable: LargeVariable, rows: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    """variable[rows] = values."""
    return tf.raw_ops.ResourceScatterUpdate(
        resource=variable.handle, indices=rows_in(variable, rows), updates=values
    )
