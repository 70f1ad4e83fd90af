"""One update of each of several members in one call, compiled by XLA.

An update in a call of its own spends more time on the call than on the work. Members that share a
graph (`targetnet.rl_core.graph.members`) share the call too: a loop over rows of the matrices with
their values. No member is loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.graph.members import MemberStore
from targetnet.rl_core.graph.xla import built_for_xla


def joint_updates(
    update: Callable[[Sequence[tf.Tensor]], tf.Tensor],
    store: MemberStore,
    use: int,
    members: tf.Tensor,
    count: tf.Tensor,
    feeds: Sequence[tf.Tensor],
    like: tf.TensorSpec,
) -> tf.Tensor:
    """Makes an update of each of the first `count` of `members`; returns what each one returns.

    Args:
      update: builds an update from a member's feeds, and returns something of it.
      store, use: the members' values, and the place of this call among the uses.
      members: [P] int64; count: int32 scalar, at most P.
      feeds: [P, ...] each, a row for each member, by its number.
      like: shape [...] and dtype of what `update` returns.

    Returns:
      [P, ...], in the order of `members`; zeros from `count` on.
    """
    matrices = store.used_by(use)
    changed = [matrix for matrix in matrices if matrix.assigned[use]]
    constant = matrices[len(changed) :]

    @tf2.function(jit_compile=True, autograph=False)
    def loop(members: tf.Tensor, count: tf.Tensor, *feeds: tf.Tensor) -> tf.Tensor:
        def member_at(i: tf.Tensor) -> tf.Tensor:
            # Not by brackets: XLA would compile anew for each number that is asked for.
            return tf.gather(members, tf.minimum(i, count - 1))

        def rows_for(member: tf.Tensor, rows_of: Sequence[tf.TensorArray]) -> list[tf.Tensor]:
            number = tf.cast(member, tf.int32)
            rows = [of.read(number) for of in rows_of]
            return rows + [matrix.rows(member) for matrix in constant]

        def body(
            i: tf.Tensor,
            rows: Sequence[tf.Tensor],
            rows_of: Sequence[tf.TensorArray],
            results: tf.TensorArray,
        ) -> Any:
            member = member_at(i)
            values = store.overrides(matrices, rows, member)
            with values.instead(), built_for_xla():
                result = update([tf.gather(of, member) for of in feeds])
            number = tf.cast(member, tf.int32)
            after = [
                of.write(number, matrix.row(values.values))
                for of, matrix in zip(rows_of, changed, strict=True)
            ]
            # Carried from one iteration to the next, a row is where XLA knows it to be. What reads
            # it in a matrix would have to find it number by number.
            return i + 1, rows_for(member_at(i + 1), after), after, results.write(i, result)

        rows_of = [_as_rows(matrix.all.read_value()) for matrix in changed]
        results = _as_rows(tf.zeros([store.count, *like.shape], like.dtype))
        first = tf.constant(0)
        start = first, rows_for(member_at(first), rows_of), rows_of, results
        _, _, after, results = tf.while_loop(
            lambda i, *_: i < count, body, start, parallel_iterations=1
        )
        written = [
            matrix.all.assign(of.stack(), read_value=False)
            for matrix, of in zip(changed, after, strict=True)
        ]
        with tf.control_dependencies(written):
            return results.stack()

    return loop(members, count, *feeds)


def _as_rows(matrix: tf.Tensor) -> tf.TensorArray:
    """The rows of a matrix for a loop that changes them one by one.

    To XLA such an array is the matrix, and to write a row is to change it in place. A scatter into
    the matrix would ask whether the row is there, and choose number by number what to write.
    """
    count, *of_row = matrix.shape.as_list()
    rows = tf.TensorArray(matrix.dtype, count, element_shape=of_row, clear_after_read=False)
    return rows.unstack(matrix)
