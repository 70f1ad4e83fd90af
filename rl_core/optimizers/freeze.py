"""Training some blocks while others are left alone, without new operations.

Gradients are made once and there is one apply op per block. To leave a block out of a call,
the call *feeds* the tensors through which the rest waits for that block (its "done" marker
and its share of the gradient norm): what is fed is not computed, so the executor prunes the
block's apply op and every gradient that only it needed. n apply ops thus serve all 2^n - 1
exempt sets, each one a callable over a graph that stays finalized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.errors import RlCoreError, UnknownName, did_you_mean
from rl_core.graph.engine import Engine
from rl_core.graph.finite import checked, signs_of
from rl_core.graph.xla import sum_of_squares

Blocks = Mapping[str, Sequence[tf.Variable]]
Exempt = frozenset[str]
NONE_EXEMPT: Exempt = frozenset()


class AllExempt(RlCoreError, ValueError):
    """An update in which nothing would be trained."""


class _Block(NamedTuple):
    variables: Sequence[tf.Variable]
    optimizer: tf.train.Optimizer
    state: Sequence[tf.Variable]  # slots and step counters
    square_norm: tf.Tensor  # [] of the block's gradient, before clipping
    done: tf.Tensor  # [] int32, 0; available once the block was applied


class ApplyOps:
    """Gradients of one loss, and one apply op per block with an optimizer of its own.

    Each block has its own optimizer because Adam's step counters are shared inside one: a block
    that was left alone for long would take a first step about three times too large.

    Args:
      loss: scalar tensor.
      blocks: name -> variables, as `blocks_of` gives them.
      make_optimizer: called once per block.
      max_grad_norm: gradients are scaled down together so that their global norm over the
        *trained* blocks is at most this (Pascanu et al. 2013,
        https://arxiv.org/abs/1211.5063); a number, a scalar tensor, or None for no clipping.
      learning_rate: of the optimizers, scalar tensor, if the weights must stay finite too: see
        `rl_core.graph.finite`.

    A call whose loss or gradient norm is not finite raises InvalidArgumentError, and applies
    nothing.

    Attributes:
      done: int32 scalar that is 0 once every block that is not exempt was applied. Put what
        must follow an update behind it (`tf.control_dependencies([ops.done])`).
      grad_norm: scalar, global norm over the trained blocks, before clipping.
      signs: loss, gradient norm and what more must be finite, as `signs_of` gives them.

    Raises:
      ValueError: no blocks, a block without variables, or one the loss does not depend on.
    """

    def __init__(
        self,
        loss: tf.Tensor,
        blocks: Blocks,
        make_optimizer: Callable[[], tf.train.Optimizer],
        *,
        max_grad_norm: float | tf.Tensor | None = None,
        learning_rate: tf.Tensor | None = None,
    ) -> None:
        gradients = block_gradients(loss, blocks)
        with tf.name_scope("gradient_norm"):
            squares = {name: sum_of_squares(grads) for name, grads in gradients.items()}
            self.grad_norm = tf.sqrt(tf.add_n(list(squares.values())))
            scale = clip_scale(self.grad_norm, max_grad_norm)
            self.signs = signs_of(loss, self.grad_norm, learning_rate)
            good = checked(self.signs)
        self._blocks: dict[str, _Block] = {}
        for name, variables in blocks.items():
            optimizer = make_optimizer()
            with tf.name_scope(f"apply_{name}"), tf.control_dependencies([good]):
                pairs = list(zip(scaled(gradients[name], scale), variables, strict=True))
                apply_op = optimizer.apply_gradients(pairs)
                with tf.control_dependencies([apply_op]):
                    done = tf.constant(0, name="done")
            state = optimizer.variables()
            self._blocks[name] = _Block(variables, optimizer, state, squares[name], done)
        self.done = tf.add_n([block.done for block in self._blocks.values()], name="all_done")
        self._cache: dict[Any, Callable[..., Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._blocks)

    def variables(self, block: str) -> Sequence[tf.Variable]:
        return self._blocks[block].variables

    def optimizer(self, block: str) -> tf.train.Optimizer:
        return self._blocks[block].optimizer

    def state(self, block: str) -> Sequence[tf.Variable]:
        """The block's optimizer slots and step counters."""
        return self._blocks[block].state

    def check(self, exempt: Iterable[str]) -> Exempt:
        """The exempt set, if there are such blocks and one is left to train.

        Raises:
          UnknownName: no such block.
          AllExempt: nothing would be trained.
        """
        exempt = frozenset(exempt)
        for name in sorted(exempt - self._blocks.keys()):
            raise UnknownName(
                f"no block {name!r} to leave alone, there are {', '.join(self.names)}"
                + did_you_mean(name, self.names)
            )
        if len(exempt) == len(self._blocks):
            raise AllExempt(
                f"every block ({', '.join(self.names)}) is exempt, so nothing would be trained; "
                "leave at least one block out of the exempt set"
            )
        return exempt

    def callable(
        self,
        engine: Engine,
        exempt: Iterable[str] = NONE_EXEMPT,
        *,
        fetches: Any = None,
        feeds: Sequence[tf.Tensor] = (),
        targets: Sequence[Any] = (),
    ) -> Callable[..., Any]:
        """The engine's callable that updates every block not in `exempt`; cached.

        `fetches`, `feeds` and `targets` are as in `Engine.callable`; what must run after the
        update is a target behind `done`.
        """
        exempt = self.check(exempt)
        key = (exempt, _key(fetches), _key(feeds), _key(targets))
        if key not in self._cache:
            self._cache[key] = self._cut(engine, exempt, fetches, feeds, [*targets, self.done])
        return self._cache[key]

    def signs_of_next(
        self, engine: Engine, exempt: Iterable[str], feeds: Sequence[tf.Tensor]
    ) -> Callable[..., np.ndarray]:
        """The engine's callable that gives the signs of an update that is not made."""
        return self._cut(engine, self.check(exempt), self.signs, feeds, [])

    def _cut(
        self,
        engine: Engine,
        exempt: Exempt,
        fetches: Any,
        feeds: Sequence[tf.Tensor],
        targets: Sequence[Any],
    ) -> Callable[..., Any]:
        """The engine's callable without the exempt blocks."""
        left_out = [self._blocks[name] for name in self.names if name in exempt]
        cut = [t for block in left_out for t in (block.done, block.square_norm)]
        zeros = [np.zeros((), t.dtype.as_numpy_dtype) for t in cut]
        call = engine.callable(fetches, [*feeds, *cut], targets)
        return (lambda *values: call(*values, *zeros)) if cut else call


def _key(tensors: Any) -> Any:
    """A hashable form: the names of the tensors and operations, and how they are arranged."""
    if isinstance(tensors, tuple | list):
        return (type(tensors), *map(_key, tensors))
    return tensors if tensors is None else tensors.name


def block_gradients(loss: tf.Tensor, blocks: Blocks) -> dict[str, list[tf.Tensor]]:
    """Gradient of `loss` by every variable, taken once, grouped by block."""
    if not blocks or not all(blocks.values()):
        raise ValueError(f"every block needs variables, got {dict(blocks)}")
    variables = [v for group in blocks.values() for v in group]
    gradients = dict(zip([v.name for v in variables], tf.gradients(loss, variables), strict=True))
    missing = [name for name, gradient in gradients.items() if gradient is None]
    if missing:
        raise ValueError(f"the loss does not depend on {', '.join(missing)}")
    return {name: [gradients[v.name] for v in group] for name, group in blocks.items()}


def clip_scale(norm: tf.Tensor, max_grad_norm: float | tf.Tensor | None) -> tf.Tensor | None:
    """Factor that brings gradients of global norm `norm` down to `max_grad_norm`."""
    if max_grad_norm is None:
        return None
    return max_grad_norm / tf.maximum(norm, max_grad_norm)


def scaled(gradients: Sequence[tf.Tensor], scale: tf.Tensor | None) -> list[tf.Tensor]:
    return list(gradients) if scale is None else [g * scale for g in gradients]


@dataclass
class Arm:
    """One exempt set of a schedule and how long it holds."""

    exempt: Exempt
    updates: int

    def __post_init__(self) -> None:
        self.exempt = frozenset(self.exempt)
        _check_length(self.updates)


class FreezeSchedule:
    """Arms in turn, each for its number of updates: torso 5, head 5, torso 5, ...

    Args:
      arms: at least one.

    The position (which arm, how many updates into it) is plain state: `position`.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        if not arms:
            raise ValueError("a freeze schedule needs at least one arm")
        self.arms = tuple(arms)
        self._arm = 0
        self._done = 0

    @classmethod
    def constant(cls, exempt: Iterable[str] = NONE_EXEMPT) -> FreezeSchedule:
        """One arm for ever."""
        return cls([Arm(frozenset(exempt), 1)])

    def __str__(self) -> str:
        arms = [f"{'+'.join(sorted(a.exempt)) or 'none'} for {a.updates:,}" for a in self.arms]
        return arms[0].split(" for ")[0] if len(arms) == 1 else f"{', '.join(arms)} updates"

    @property
    def position(self) -> tuple[int, int]:
        """(index of the arm, updates done in it)."""
        return self._arm, self._done

    @position.setter
    def position(self, position: tuple[int, int]) -> None:
        self._arm, self._done = position

    @property
    def exempt(self) -> Exempt:
        """What the next update leaves alone."""
        return self.arms[self._next_arm()].exempt

    @property
    def arm(self) -> int:
        """Index of the arm the next update belongs to."""
        return self._next_arm()

    def value_at(self, env_step: int) -> Exempt:
        """As a hyperparameter's value: it counts updates, so the env step does not matter."""
        return self.exempt

    def set_length(self, arm: int, updates: int) -> None:
        """Changes an arm's length while running; one already older than that ends now."""
        _check_length(updates)
        self.arms[arm].updates = updates

    def phases(self, updates: int) -> Iterator[tuple[Exempt, int]]:
        """Splits the next `updates` at the arms' ends, and moves on as they are taken."""
        while updates > 0:
            if len(self.arms) == 1:
                yield self.arms[0].exempt, updates
                return
            if self._next_arm() != self._arm:
                self._arm, self._done = self._next_arm(), 0
            arm = self.arms[self._arm]
            share = min(updates, arm.updates - self._done)
            self._done += share
            updates -= share
            yield arm.exempt, share

    def _next_arm(self) -> int:
        ended = self._done >= self.arms[self._arm].updates
        return (self._arm + 1) % len(self.arms) if ended else self._arm


def _check_length(updates: int) -> None:
    if isinstance(updates, bool) or not isinstance(updates, int) or updates < 1:
        raise ValueError(f"an arm's length must be a whole number of updates >= 1, got {updates!r}")
