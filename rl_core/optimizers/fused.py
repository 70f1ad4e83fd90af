"""Updates in one call, compiled by XLA, on the same variables as the plain operations.

Several updates of a learning phase are a loop. The number of updates is an input of the loop, so
a shorter phase needs no new compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.graph.finite import where
from targetnet.rl_core.graph.xla import built_for_xla

# Builds one update from the carried values. Returns tensors, the new carried values, the op that
# ends the update, and a bool tensor: the update was made (None: it always is).
FusedStep = Callable[[Any], tuple[Sequence[tf.Tensor], Any, tf.Operation, tf.Tensor | None]]


class LoopCarry(Protocol):
    """Values that a loop carries besides the variables, as in `packed_adam.LoopAdam`."""

    def read(self) -> Any:
        """Returns the values at the start of the loop, a nest of tensors."""

    def write(self, values: Any) -> tf.Operation:
        """Returns the op that stores the values after the loop."""


class _EmptyCarry:
    def read(self) -> tuple[()]:
        return ()

    def write(self, values: Any) -> tf.Operation:
        return tf.no_op()


def fused_updates(
    update: FusedStep,
    updates: tf.Tensor | None,
    like: Sequence[tf.Tensor],
    carried: LoopCarry | None = None,
    *,
    compiled: bool = True,
) -> tuple[tf.Tensor, ...]:
    """Runs `update` `updates` times in one call; returns the tensors of the last update.

    The loop stops after an update that was not made.

    Args:
      update: builds one update in the default graph. Variables and optimizer slots must exist
        already.
      updates: int32 scalar >= 1, usually fed. None makes one update without a loop.
      like: tensors with the static shapes and dtypes of the tensors that `update` returns.
      carried: the values that `update` receives and returns; by default an empty tuple.
      compiled: True compiles the call with XLA; False builds plain operations.
    """
    kept = carried or _EmptyCarry()

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
