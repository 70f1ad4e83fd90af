"""Many updates in one call: a loop compiled by XLA, over the same variables as single updates.

Used where a learning phase makes more than one update. The number of updates is an input of
the loop, so a shorter phase needs no new compilation.

Imports: rl_core.graph.xla, rl_core.graph.freeze. Never agents, never envs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from rl_core.graph.freeze import (
    ApplyOps,
    Exempt,
    block_gradients,
    clip_scale,
    scaled,
)
from rl_core.graph.xla import built_for_xla, sum_of_squares

Update = Callable[[], tuple[Sequence[tf.Tensor], tf.Operation]]


def fused_updates(
    update: Update, updates: tf.Tensor, like: Sequence[tf.Tensor], *, compiled: bool = True
) -> tuple[tf.Tensor, ...]:
    """Runs `update` `updates` times in one call; gives what the last one returned.

    Args:
      update: builds one update in the default graph and returns (tensors, the op that ends the
        update). Variables and optimizer slots must exist already.
      updates: int32 scalar >= 1, usually fed.
      like: tensors with the static shapes and the dtypes that `update` returns.
      compiled: by XLA; otherwise the same loop of plain operations.
    """

    def body(i: tf.Tensor, *_: tf.Tensor) -> Any:
        with built_for_xla(compiled):
            tensors, end = update()
        with tf.control_dependencies([end]):
            return (i + 1, *map(tf.identity, tensors))

    @tf2.function(jit_compile=compiled, autograph=False)
    def loop(updates: tf.Tensor) -> Any:
        start = [tf.constant(0), *(tf.zeros(t.shape, t.dtype) for t in like)]
        final = tf.while_loop(lambda i, *_: i < updates, body, start, parallel_iterations=1)
        return tuple(final[1:])

    return tuple(loop(updates))


def apply_again(
    ops: ApplyOps,
    loss: tf.Tensor,
    exempt: Exempt,
    *,
    learning_rate: tf.Tensor,
    max_grad_norm: float | tf.Tensor | None,
) -> tuple[tf.Tensor, tf.Operation]:
    """One more update of the blocks of `ops`, in another function of the same graph.

    The optimizers' slots and step counters are the ones `ops` made, so single and fused
    updates may alternate. Only Adam: its raw operation can be compiled, the optimizer class
    cannot.

    Returns:
      (global gradient norm over the trained blocks, the op that ends the update).
    """
    trained = {name: ops.variables(name) for name in ops.names if name not in exempt}
    gradients = block_gradients(loss, trained)
    norm = tf.sqrt(sum_of_squares([g for group in gradients.values() for g in group]))
    scale = clip_scale(norm, max_grad_norm)
    ends = [
        _apply_adam(ops, name, scaled(gradients[name], scale), learning_rate) for name in trained
    ]
    return norm, tf.group(*ends)


def _apply_adam(
    ops: ApplyOps, block: str, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor
) -> tf.Operation:
    adam, variables = ops.optimizer(block), ops.variables(block)
    power1, power2 = _step_counters(ops.state(block))
    steps = [
        tf.raw_ops.ResourceApplyAdam(
            var=v.handle,
            m=adam.get_slot(v, "m").handle,
            v=adam.get_slot(v, "v").handle,
            beta1_power=power1.read_value(),
            beta2_power=power2.read_value(),
            lr=learning_rate,
            beta1=adam._beta1,
            beta2=adam._beta2,
            epsilon=adam._epsilon,
            grad=gradient,
        )
        for v, gradient in zip(variables, gradients, strict=True)
    ]
    with tf.control_dependencies(steps):
        return tf.group(
            power1.assign(power1.read_value() * adam._beta1, read_value=False),
            power2.assign(power2.read_value() * adam._beta2, read_value=False),
        )


def apply_where(
    ops: ApplyOps,
    loss: tf.Tensor,
    trained: Mapping[str, tf.Tensor],
    *,
    learning_rate: tf.Tensor,
    max_grad_norm: float | tf.Tensor | None,
) -> tuple[tf.Tensor, tf.Operation]:
    """As `apply_again`, for exempt sets that are known only when it runs.

    The gradients of all blocks are made, and those of the others dropped.

    Args:
      trained: bool scalar for each block of `ops`.

    Returns:
      (global gradient norm over the trained blocks, the op that ends the update).
    """
    gradients = block_gradients(loss, {name: ops.variables(name) for name in ops.names})
    squares = [
        tf.where_v2(trained[name], sum_of_squares(group), 0.0) for name, group in gradients.items()
    ]
    norm = tf.sqrt(tf.add_n(squares))
    scale = clip_scale(norm, max_grad_norm)
    ends = [
        _adam_where(ops, name, scaled(group, scale), learning_rate, trained[name])
        for name, group in gradients.items()
    ]
    return norm, tf.group(*ends)


def _adam_where(
    ops: ApplyOps,
    block: str,
    gradients: Sequence[tf.Tensor],
    learning_rate: tf.Tensor,
    trained: tf.Tensor,
) -> tf.Operation:
    """Kingma & Ba (2015), https://arxiv.org/abs/1412.6980, in the order of its section 2's end."""
    adam = ops.optimizer(block)
    power1, power2 = (power.read_value() for power in _step_counters(ops.state(block)))
    step = learning_rate * tf.sqrt(1 - power2) / (1 - power1)
    changes = []

    def chosen(of: tf.Variable, new: tf.Tensor) -> tf.Tensor:
        value = tf.where_v2(trained, new, of.read_value())
        changes.append((of, value))
        return value

    for variable, gradient in zip(ops.variables(block), gradients, strict=True):
        m, v = adam.get_slot(variable, "m"), adam.get_slot(variable, "v")
        # The step goes by what is kept of the two: XLA then changes them in place.
        kept_m = chosen(m, m + (gradient - m) * (1 - adam._beta1))
        kept_v = chosen(v, v + (tf.square(gradient) - v) * (1 - adam._beta2))
        chosen(variable, variable - kept_m * step / (tf.sqrt(kept_v) + adam._epsilon))
    counters = _step_counters(ops.state(block))
    chosen(counters[0], power1 * adam._beta1)
    chosen(counters[1], power2 * adam._beta2)
    with tf.control_dependencies([value for _, value in changes]):
        return tf.group(*[of.assign(value, read_value=False) for of, value in changes])


def _step_counters(state: Sequence[tf.Variable]) -> Sequence[tf.Variable]:
    """Adam's beta1 ** t and beta2 ** t, which it keeps instead of t."""
    names = [v.op.name.split("/")[-1] for v in state]
    return [
        next(v for v, name in zip(state, names, strict=True) if name.startswith(power))
        for power in ("beta1_power", "beta2_power")
    ]
