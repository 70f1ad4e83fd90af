"""Adam for loops of many updates, on the same state as single updates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.finite import all_finite, where
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.xla import flat, sum_of_squares
from targetnet.rl_core.optimizers.adam import Adam
from targetnet.rl_core.optimizers.freeze import (
    NO_BLOCK_LOSSES,
    ApplyOps,
    BlockLosses,
    block_gradients,
    clip_scales,
    numerics_of_all,
    scaled,
)


class Moments(NamedTuple):
    """Adam's moments of the blocks of a `LoopAdam`, in the order of its blocks."""

    m: tuple[Any, ...]  # [n] per block: the moments of its variables, concatenated
    v: tuple[Any, ...]  # like m
    powers: Any  # [2, blocks]: beta1 ** t, beta2 ** t


class AdamResult(NamedTuple):
    """Results of one update."""

    numerics: Any  # [3] of `targetnet.rl_core.graph.finite`
    made: (
        Any  # [] bool: False if `numerics` are not finite, and nothing changed; None: errors raise
    )
    moments: Any  # `Moments` after the update, if a loop carries them
    applied: Any  # op that has run when the weights are new


class LoopMoments(MemberPart):
    """Adam's moments in packed form, kept from one loop to the next.

    Single updates keep the moments in one slot per variable; loops keep them packed, in one tensor
    per block. Each form has its own variables. Converting at both ends of every loop would cost
    XLA one kernel per slot, and with so many kernels XLA wakes a second thread. So the moments are
    converted only when the other form is needed: call `to_loops` before a loop, and `to_slots`
    before a single update and before slots are read or set.

    Make it, and every `LoopAdam` that uses it, while the graph is being built.

    Args:
      engine: the engine whose graph and session are used.
      ops: apply ops whose optimizers are `Adam`.
    """

    per_member: ClassVar = {
        "_packed_is_current": bool,
        "_slots_are_current": lambda: True,
    }

    def __init__(self, engine: Engine, ops: ApplyOps) -> None:
        self._engine, self._ops = engine, ops
        self._blocks: dict[str, _PackedBlock] = {}
        self._packed_is_current, self._slots_are_current = False, True

    def block(self, name: str) -> _PackedBlock:
        """Returns the block's variables in both forms; the first call makes the packed ones."""
        if name not in self._blocks:
            with tf.variable_scope(f"loop_moments/{name}"):
                self._blocks[name] = _PackedBlock(
                    self._ops.optimizer(name), self._ops.variables(name)
                )
        return self._blocks[name]

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for a packed variable, which holds the same values as the slots."""
        return any(variable is own for block in self._blocks.values() for own in block.carried)

    def to_loops(self) -> None:
        """Makes the packed form current. Call it before a loop."""
        if not self._packed_is_current:
            self._copy_in()
        self._packed_is_current, self._slots_are_current = True, False

    def to_slots(self, *, changed: bool = True) -> None:
        """Makes the slots current. Call it before slots or step counters are read or set.

        Args:
          changed: True if the caller then changes them, so that the packed form is out of date.
        """
        if not self._slots_are_current:
            self._copy_out()
        self._slots_are_current = True
        self._packed_is_current = self._packed_is_current and not changed

    @functools.cached_property
    def _copy_in(self) -> Callable[[], None]:
        copies = [block.copy_in for block in self._blocks.values()]
        return self._engine.callable(None, targets=copies)

    @functools.cached_property
    def _copy_out(self) -> Callable[[], None]:
        copies = [block.copy_out for block in self._blocks.values()]
        return self._engine.callable(None, targets=copies)


class LoopAdam:
    """Adam updates inside a loop, with the same blocks and hyperparameters as single updates.

    Args:
      moments: Adam's moments, shared with the single updates.
      blocks: names of the blocks that the loop can train.
      others: those that only `reset` changes.
    """

    def __init__(
        self, moments: LoopMoments, blocks: Iterable[str], others: Iterable[str] = ()
    ) -> None:
        self._names = tuple(blocks)
        self._blocks = [moments.block(name) for name in self._names]
        self._others = [moments.block(name) for name in others]
        self._betas = np.array([block.betas for block in self._blocks], np.float32).T

    def read(self) -> Moments:
        m, v, powers = zip(*(block.carried for block in self._blocks), strict=True)
        return Moments(
            tuple(of.read_value() for of in m),
            tuple(of.read_value() for of in v),
            tf.stack([of.read_value() for of in powers], axis=1),
        )

    def write(self, moments: Moments) -> tf.Operation:
        values = zip(moments.m, moments.v, tf.unstack(moments.powers, axis=1), strict=True)
        pairs = zip(self._blocks, values, strict=True)
        return tf.group(*[op for block, now in pairs for op in _assigned(block.carried, now)])

    def reset(
        self, moments: Moments, only_if: tf.Tensor, *, moments_too: bool
    ) -> tuple[Moments, list[tf.Operation]]:
        """Makes the next step count as the first one; see `Adam.reset`.

        Args:
          only_if: bool scalar.

        Returns:
          The moments after it, and ops that reset the other blocks.
        """

        def zero(of: tf.Tensor) -> tf.Tensor:
            return where(only_if, tf.zeros_like(of), of) if moments_too else of

        ops: list[tf.Operation] = []
        for block in self._others:
            m, v, powers = (of.read_value() for of in block.carried)
            new = zero(m), zero(v), where(only_if, tf.constant(block.betas), powers)
            ops += _assigned(block.carried, new)
        powers = where(only_if, tf.constant(self._betas), moments.powers)
        m, v = (tuple(map(zero, of)) for of in (moments.m, moments.v))
        return Moments(m, v, powers), ops

    def apply(
        self,
        loss: tf.Tensor,
        moments: Moments,
        trained: Mapping[str, tf.Tensor] | None = None,
        *,
        learning_rate: tf.Tensor,
        max_grad_norm: float | tf.Tensor | None,
        own: BlockLosses = NO_BLOCK_LOSSES,
    ) -> AdamResult:
        """Builds one Adam update: Kingma & Ba (2015), the efficient form at the end of section 2.

        Args:
          loss, own: as for `ApplyOps`.
          trained: block -> bool scalar, if the trained blocks are known only when the update runs.
            All gradients are then computed, and those of the other blocks are dropped. The
            gradient norm is over the trained blocks.
        """
        blocks = dict(zip(self._names, (b.variables for b in self._blocks), strict=True))
        of_blocks = block_gradients(loss, blocks, own).values()
        gradient = tf.concat([flat(g) for g in of_blocks], axis=0)
        gradients = tf.split(gradient, [m.shape.num_elements() for m in moments.m])
        chosen = None if trained is None else [trained[name] for name in self._names]
        squares: dict[str, tf.Tensor | None] = dict.fromkeys(self._names)
        if chosen is not None or own:
            squares = dict(zip(self._names, _square_norms(gradients, chosen), strict=True))
            norm = tf.sqrt(tf.add_n(list(squares.values())))
        else:
            norm = tf.sqrt(sum_of_squares([gradient]))
        numerics = numerics_of_all(loss, own, norm, learning_rate)
        made = all_finite(numerics)
        changed = [made] * len(blocks)
        if chosen is not None:
            changed = [tf.logical_and(made, block) for block in chosen]
        power1, power2 = tf.unstack(moments.powers)
        scales = clip_scales(norm, squares, own, max_grad_norm)
        each = zip(gradients, self._names, strict=True)
        clipped = [g for of, name in each for g in scaled([of], scales[name])]
        if own:
            rates = (own[n].learning_rate if n in own else learning_rate for n in self._names)
            learning_rate = tf.stack(list(rates))  # [blocks]
        after = [
            block.after(*now)
            for block, *now in zip(
                self._blocks,
                clipped,
                moments.m,
                moments.v,
                tf.unstack(self._blocks[0].adam.rate(learning_rate, power1, power2)),
                changed,
                strict=True,
            )
        ]
        weights = [weight for _, _, of_block in after for weight in of_block]
        variables = [variable for of_block in blocks.values() for variable in of_block]
        with tf.control_dependencies(weights):
            end = tf.group(*_assigned(variables, weights))
        counted = made if chosen is None else tf.stack(changed)
        powers = where(counted, moments.powers * self._betas, moments.powers)
        m, v = zip(*((m, v) for m, v, _ in after), strict=True)
        return AdamResult(numerics, made, Moments(m, v, powers), end)


class _PackedBlock:
    """Adam's variables for one block in both forms, and its update in a loop."""

    def __init__(self, adam: Adam, variables: Sequence[tf.Variable]) -> None:
        self.adam, self.variables = adam, variables
        self.betas = np.float32(adam._beta1), np.float32(adam._beta2)
        m, v = ([adam.get_slot(variable, name) for variable in variables] for name in ("m", "v"))
        of_slots = [
            flat([slot.read_value() for slot in m]),
            flat([slot.read_value() for slot in v]),
            tf.stack([counter.read_value() for counter in adam.counters]),
        ]
        self.carried = [
            tf.get_variable(name, initializer=tf.zeros(now.shape), trainable=False)
            for name, now in zip(("m", "v", "powers"), of_slots, strict=True)
        ]  # m [n], v [n], (beta1 ** t, beta2 ** t) [2]
        self.copy_in = tf.group(*_assigned(self.carried, of_slots))
        carried_m, carried_v, powers = (of.read_value() for of in self.carried)
        slots = [*self.parts(carried_m), *self.parts(carried_v), *tf.unstack(powers)]
        self.copy_out = tf.group(*_assigned([*m, *v, *adam.counters], slots))

    def after(
        self, g: tf.Tensor, m: tf.Tensor, v: tf.Tensor, rate: tf.Tensor, changed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """Returns (m, v, weights) after an update by gradient g [n]; unchanged if not `changed`."""
        # The step is computed from the selected m and v: XLA can then change both in place.
        m = where(changed, self.adam.next_m(g, m), m)
        v = where(changed, self.adam.next_v(g, v), v)
        weights = []
        of_g = self.parts(g) if self.adam.uses_gradient else [None] * len(self.variables)
        each = zip(self.variables, of_g, self.parts(m), self.parts(v), strict=True)
        for of, part_g, part_m, part_v in each:
            weight = of.read_value()
            moved = weight - self.adam.step(part_g, part_m, part_v, rate)
            if self.adam.pull is not None:
                moved -= self.adam.pull(of, weight)
            weights.append(where(changed, moved, weight))
        return m, v, weights

    def parts(self, values: tf.Tensor) -> list[tf.Tensor]:
        """Splits a packed tensor [n] into one tensor per variable, with the variable's shape."""
        sizes = [variable.shape.num_elements() for variable in self.variables]
        sizes.append(values.shape.num_elements() - sum(sizes))  # the zeros that `flat` appended
        parts = tf.split(values, sizes)[:-1]
        return [tf.reshape(p, v.shape) for p, v in zip(parts, self.variables, strict=True)]


def _square_norms(
    of_blocks: Sequence[tf.Tensor], trained: Sequence[tf.Tensor] | None
) -> list[tf.Tensor]:
    """Squared norms of the blocks' gradients, 0 of those that are not trained."""
    if trained is None:
        return [sum_of_squares([g]) for g in of_blocks]
    squares = zip(trained, map(sum_of_squares, ([g] for g in of_blocks)), strict=True)
    return [tf.where_v2(counts, square, 0.0) for counts, square in squares]


def _assigned(variables: Sequence[tf.Variable], values: Sequence[tf.Tensor]) -> list[tf.Operation]:
    pairs = zip(variables, values, strict=True)
    return [variable.assign(value, read_value=False) for variable, value in pairs]
