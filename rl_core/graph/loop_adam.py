"""Adam in loops of many updates, which alternate with single ones.

Imports: rl_core.graph.adam, rl_core.graph.freeze, rl_core.graph.xla. Never agents, never envs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.graph.adam import Adam
from rl_core.graph.freeze import ApplyOps, block_gradients, clip_scale, scaled
from rl_core.graph.xla import flat, sum_of_squares


class Moments(NamedTuple):
    """Of the blocks of a `LoopAdam`, in their order."""

    m: tuple[Any, ...]  # [n] for each block: of all its variables, one after the other
    v: tuple[Any, ...]  # as m
    powers: Any  # [2, blocks]: beta1 ** t, beta2 ** t


class LoopAdam:
    """More updates of the blocks of `ops`, in a loop in the same graph.

    It begins and ends with the slots and step counters that `ops` made, so single updates and
    loops may alternate. Within the loop the moments of a block are one tensor: each kernel costs
    XLA about a microsecond, and of ten that could run it hands some to another thread.

    Args:
      ops: with `Adam` for an optimizer.
      blocks: that are trained, at times at least.
    """

    def __init__(self, ops: ApplyOps, blocks: Iterable[str]) -> None:
        self._names = tuple(blocks)
        self._blocks = [_Block(ops.optimizer(name), ops.variables(name)) for name in self._names]
        self._betas = np.array([block.betas for block in self._blocks], np.float32).T

    def read(self) -> Moments:
        powers = [[power.read_value() for power in block.adam.counters] for block in self._blocks]
        return Moments(
            tuple(flat([m.read_value() for m in block.m]) for block in self._blocks),
            tuple(flat([v.read_value() for v in block.v]) for block in self._blocks),
            tf.transpose(tf.stack(powers)),
        )

    def write(self, moments: Moments) -> tf.Operation:
        powers = tf.unstack(tf.transpose(moments.powers))
        ends = []
        for block, m, v, power in zip(self._blocks, moments.m, moments.v, powers, strict=True):
            ends += _assigned(block.m, block.parts(m))
            ends += _assigned(block.v, block.parts(v))
            ends += _assigned(block.adam.counters, tf.unstack(power))
        return tf.group(*ends)

    def apply(
        self,
        loss: tf.Tensor,
        moments: Moments,
        trained: Mapping[str, tf.Tensor] | None = None,
        *,
        learning_rate: tf.Tensor,
        max_grad_norm: float | tf.Tensor | None,
    ) -> tuple[tf.Tensor, Moments, tf.Operation]:
        """One update; Kingma & Ba (2015), in the order of its section 2's end.

        Args:
          trained: bool scalar for each block, where it is known only when it runs what is trained:
            the gradients of all blocks are made, and those of the others dropped.

        Returns:
          (global gradient norm over the trained blocks, the moments after the update, the op that
          ends it).
        """
        blocks = dict(zip(self._names, (b.variables for b in self._blocks), strict=True))
        gradient = tf.concat([flat(g) for g in block_gradients(loss, blocks).values()], axis=0)
        gradients = tf.split(gradient, [m.shape.num_elements() for m in moments.m])
        chosen = None if trained is None else [trained[name] for name in self._names]
        norm = tf.sqrt(_square_norm(gradient, gradients, chosen))
        power1, power2 = tf.unstack(moments.powers)
        after = [
            block.after(*now)
            for block, *now in zip(
                self._blocks,
                scaled(gradients, clip_scale(norm, max_grad_norm)),
                moments.m,
                moments.v,
                tf.unstack(learning_rate * tf.sqrt(1 - power2) / (1 - power1)),
                chosen or [None] * len(blocks),
                strict=True,
            )
        ]
        weights = [weight for _, _, of_block in after for weight in of_block]
        variables = [variable for of_block in blocks.values() for variable in of_block]
        with tf.control_dependencies(weights):
            end = tf.group(*_assigned(variables, weights))
        powers = _where(chosen and tf.stack(chosen), moments.powers * self._betas, moments.powers)
        m, v = zip(*((m, v) for m, v, _ in after), strict=True)
        return norm, Moments(m, v, powers), end


class _Block:
    """Adam's variables for one block, and one update of it."""

    def __init__(self, adam: Adam, variables: Sequence[tf.Variable]) -> None:
        self.adam, self.variables = adam, variables
        self.betas = np.float32(adam._beta1), np.float32(adam._beta2)
        self.m = [adam.get_slot(variable, "m") for variable in variables]
        self.v = [adam.get_slot(variable, "v") for variable in variables]

    def after(
        self, g: tf.Tensor, m: tf.Tensor, v: tf.Tensor, step: tf.Tensor, trained: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """(m, v, weights) after an update by the gradient g, [n]; as they were if not trained."""
        beta1, beta2 = self.betas
        # The step goes by what is kept of the two: XLA then changes them in place.
        m = _where(trained, m + (g - m) * (1 - beta1), m)
        v = _where(trained, v + (tf.square(g) - v) * (1 - beta2), v)
        weights = []
        for of, part_m, part_v in zip(self.variables, self.parts(m), self.parts(v), strict=True):
            weight = of.read_value()
            moved = weight - part_m * step / (tf.sqrt(part_v) + self.adam._epsilon)
            weights.append(_where(trained, moved, weight))
        return m, v, weights

    def parts(self, values: tf.Tensor) -> list[tf.Tensor]:
        """[n] -> a tensor for each variable, of its shape."""
        sizes = [variable.shape.num_elements() for variable in self.variables]
        sizes.append(values.shape.num_elements() - sum(sizes))  # what `flat` has added
        parts = tf.split(values, sizes)[:-1]
        return [tf.reshape(p, v.shape) for p, v in zip(parts, self.variables, strict=True)]


def _square_norm(
    gradient: tf.Tensor, of_blocks: Sequence[tf.Tensor], trained: Sequence[tf.Tensor] | None
) -> tf.Tensor:
    if trained is None:
        return sum_of_squares([gradient])
    squares = zip(trained, map(sum_of_squares, ([g] for g in of_blocks)), strict=True)
    return tf.add_n([tf.where_v2(counts, square, 0.0) for counts, square in squares])


def _where(condition: tf.Tensor | None, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    return new if condition is None else tf.where_v2(condition, new, old)


def _assigned(variables: Sequence[tf.Variable], values: Sequence[tf.Tensor]) -> list[tf.Operation]:
    pairs = zip(variables, values, strict=True)
    return [variable.assign(value, read_value=False) for variable, value in pairs]
