"""Updates in one call, compiled by XLA, over the same variables as those of plain operations.

Where a learning phase makes more than one update they are a loop. The number of updates is an
input of it, so a shorter phase needs no new compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from rl_core.graph.finite import where
from rl_core.graph.xla import built_for_xla

# Builds one update from what the loop carries; gives tensors, what is carried on, the op that
# ends the update, and whether it was made (None: always).
Update = Callable[[Any], tuple[Sequence[tf.Tensor], Any, tf.Operation, tf.Tensor | None]]


class Carried(Protocol):
    """What a loop carries beside the variables, as `rl_core.optimizers.packed_adam.LoopAdam`."""

    def read(self) -> Any:
        """A nest of tensors, when the loop begins."""

    def write(self, values: Any) -> tf.Operation:
        """Keeps them, when it has ended."""


class _Nothing:
    def read(self) -> tuple[()]:
        return ()

    def write(self, values: Any) -> tf.Operation:
        return tf.no_op()


def fused_updates(
    update: Update,
    updates: tf.Tensor | None,
    like: Sequence[tf.Tensor],
    carried: Carried | None = None,
    *,
    compiled: bool = True,
) -> tuple[tf.Tensor, ...]:
    """Runs `update` `updates` times in one call; gives what the last one returned.

    An update that was not made is the last one.

    Args:
      update: builds one update in the default graph. Variables and optimizer slots must exist
        already.
      updates: int32 scalar >= 1, usually fed. None is one update, without a loop around it.
      like: tensors with the static shapes and the dtypes that `update` returns.
      carried: what `update` is given and gives back; nothing, an empty tuple, by default.
      compiled: by XLA; otherwise the same of plain operations.
    """
    kept = carried or _Nothing()

    def one(values: Any) -> tuple[list[tf.Tensor], Any, tf.Tensor | None]:
        with built_for_xla(compiled):
            tensors, values, end, made = update(values)
        with tf.control_dependencies([end]):
            return [*map(tf.identity, tensors)], tf2.nest.map_structure(tf.identity, values), made

    def body(i: tf.Tensor, values: Any, _: Any) -> Any:
        tensors, values, made = one(values)
        return where(made, i + 1, tf.constant(tf.int32.max)), values, tensors

    @tf2.function(jit_compile=compiled, autograph=False)
    def once() -> tuple[tf.Tensor, ...]:
        final, values, _ = one(kept.read())
        with tf.control_dependencies([kept.write(values)]):
            return tuple(map(tf.identity, final))

    @tf2.function(jit_compile=compiled, autograph=False)
    def loop(updates: tf.Tensor) -> tuple[tf.Tensor, ...]:
        start = tf.constant(0), kept.read(), [tf.zeros(t.shape, t.dtype) for t in like]
        _, values, final = tf.while_loop(
            lambda i, *_: i < updates, body, start, parallel_iterations=1
        )
        with tf.control_dependencies([kept.write(values)]):
            return tuple(map(tf.identity, final))

    return tuple(once() if updates is None else loop(updates))
