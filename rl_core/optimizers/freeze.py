"""Training of some blocks while others are left alone, without new operations; its schedules.

Gradients are built once, and each block has one apply op. The other ops depend on a block only
through two tensors: its "done" marker and its share of the gradient norm. To leave a block out,
feed both: TensorFlow then skips everything that only they need, the block's apply op and its
gradients. So n apply ops serve all 2^n - 1 exempt sets; each set is a callable over the finalized
graph.

A schedule names exempt sets, each for a number of updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import (
    BoundsError,
    RlCoreError,
    ScopeMismatch,
    UnknownName,
    did_you_mean,
    in_one_line,
)
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.finite import checked, numerics_of
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.variable_overrides import read_as
from targetnet.rl_core.graph.xla import sum_of_squares

Blocks = Mapping[str, Sequence[tf.Variable]]


class BlockLoss(NamedTuple):
    """A loss that trains one block alone, and the block's own step size."""

    loss: Any  # []; while transitions are not averaged yet, [B]
    learning_rate: Any  # []


BlockLosses = Mapping[str, BlockLoss]  # by the names of their blocks
NO_BLOCK_LOSSES: BlockLosses = MappingProxyType({})
Exempt = frozenset[str]
NONE_EXEMPT: Exempt = frozenset()


class AllExempt(RlCoreError, ValueError):
    """An exempt set that contains every block, so that no block would be trained."""


class _Block(NamedTuple):
    variables: Sequence[tf.Variable]
    gradients: Sequence[tf.Tensor]  # of its loss by each variable, before clipping
    optimizer: tf.train.Optimizer
    state: Sequence[tf.Variable]  # slots and step counters
    square_norm: tf.Tensor  # [] squared norm of the block's gradient, before clipping
    done: tf.Tensor  # [] int32, always 0; computed after the block was applied


class ApplyOps(MemberPart):
    """Gradients of a loss, and per block one apply op and one optimizer.

    Each block has its own optimizer because the variables of one Adam share its step counters: a
    block left alone for long would take a first step about three times too large.

    A block may have a loss of its own. That loss trains this block alone, and `loss` does not
    train it.

    A call whose loss or gradient norm is not finite raises InvalidArgumentError and changes no
    variable.

    Args:
      loss: scalar tensor.
      blocks: name -> variables, as returned by `blocks_of`.
      make_optimizer: called once per block; with the learning rate of a block that has its own.
      own: the losses of single blocks.
      max_grad_norm: largest global norm of the gradients of the *trained* blocks; larger
        gradients are scaled down together (Pascanu et al. 2013,
        https://arxiv.org/abs/1211.5063). A number, a scalar tensor, or None for no clipping.
        The gradients of each loss have a norm of their own.
      learning_rate: the optimizers' learning rate, scalar tensor. If given, the check also
        guarantees finite weights: see `targetnet.rl_core.graph.finite`.

    Attributes:
      done: int32 scalar, always 0, computed after every trained block was applied. Put an op that
        must follow the update behind it (`tf.control_dependencies([ops.done])`).
      grad_norm: scalar, global norm over the trained blocks, before clipping, of all losses.
      numerics: the values that must be finite, as returned by `numerics_of`.

    Raises:
      ScopeMismatch: there are no blocks, a block has no variables, or the loss does not depend on
        a variable.
    """

    per_member: ClassVar = {"_cache": dict}

    def __init__(
        self,
        loss: tf.Tensor,
        blocks: Blocks,
        make_optimizer: Callable[..., tf.train.Optimizer],
        *,
        own: BlockLosses = NO_BLOCK_LOSSES,
        max_grad_norm: float | tf.Tensor | None = None,
        learning_rate: tf.Tensor | None = None,
    ) -> None:
        gradients = block_gradients(loss, blocks, own)
        with tf.name_scope("gradient_norm"):
            squares = {name: sum_of_squares(grads) for name, grads in gradients.items()}
            self.grad_norm = tf.sqrt(tf.add_n(list(squares.values())))
            scales = clip_scales(self.grad_norm, squares, own, max_grad_norm)
            self.numerics = numerics_of_all(loss, own, self.grad_norm, learning_rate)
            good = checked(self.numerics)
        self._blocks: dict[str, _Block] = {}
        for name, variables in blocks.items():
            optimizer = make_optimizer(own[name].learning_rate) if name in own else make_optimizer()
            with tf.name_scope(f"apply_{name}"), tf.control_dependencies([good]):
                pairs = list(zip(scaled(gradients[name], scales[name]), variables, strict=True))
                apply_op = optimizer.apply_gradients(pairs)
                with tf.control_dependencies([apply_op]):
                    done = tf.constant(0, name="done")
            state = optimizer.variables()
            self._blocks[name] = _Block(
                variables, gradients[name], optimizer, state, squares[name], done
            )
        self.done = tf.add_n([block.done for block in self._blocks.values()], name="all_done")
        self._cache: dict[Any, Callable[..., Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all blocks."""
        return tuple(self._blocks)

    def variables(self, block: str) -> Sequence[tf.Variable]:
        """Returns the block's trainable variables."""
        return self._blocks[block].variables

    def gradients(self) -> dict[str, tf.Tensor]:
        """Returns variable's name -> gradient of its block's loss by it, before clipping.

        Fetch them without `done`: then nothing is applied.
        """
        blocks = self._blocks.values()
        pairs = [pair for b in blocks for pair in zip(b.variables, b.gradients, strict=True)]
        return {variable.op.name: gradient for variable, gradient in pairs}

    def optimizer(self, block: str) -> tf.train.Optimizer:
        """Returns the block's own optimizer."""
        return self._blocks[block].optimizer

    def state(self, block: str) -> Sequence[tf.Variable]:
        """Returns the block's optimizer slots and step counters."""
        return self._blocks[block].state

    def check(self, exempt: Iterable[str | tf.Variable]) -> Exempt:
        """Returns the names of the exempt blocks if they may be left alone.

        Args:
          exempt: names of blocks, or variables: all those of each exempt block.

        Raises:
          UnknownName: there is no such block.
          ScopeMismatch: some variables of a block are missing, or one is of no block.
          AllExempt: the set contains every block.
        """
        exempt = tuple(exempt)  # no set: outside a graph TensorFlow refuses to hash a variable
        variables = {item.op.name for item in exempt if hasattr(item, "op")}
        exempt = frozenset(item for item in exempt if not hasattr(item, "op"))
        if variables:
            exempt |= self._blocks_with(variables)
        for name in sorted(exempt - self._blocks.keys(), key=str):
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

    def _blocks_with(self, variables: set[str]) -> Exempt:
        """Returns the blocks that have exactly these variables, given by name."""
        whole = {name: {v.op.name for v in block.variables} for name, block in self._blocks.items()}
        for name, all_of_it in whole.items():
            given, missing = all_of_it & variables, all_of_it - variables
            if given and missing:
                # Its variables share one step counter, which one left alone would fall behind.
                raise ScopeMismatch(
                    f"block {name!r} is trained or left alone as one: {_listed(given)} cannot be "
                    f"exempt without {_listed(missing)}; or make smaller blocks"
                )
        if others := variables.difference(*whole.values()):
            raise ScopeMismatch(f"no block has the exempt variable {_listed(others)}")
        return frozenset(name for name, all_of_it in whole.items() if all_of_it & variables)

    def callable(
        self,
        engine: Engine,
        exempt: Iterable[str | tf.Variable] = NONE_EXEMPT,
        *,
        fetches: Any = None,
        feeds: Sequence[tf.Tensor] = (),
        targets: Sequence[Any] = (),
    ) -> Callable[..., Any]:
        """Returns the engine's callable that updates every block not in `exempt`; cached.

        `exempt` has names of blocks, or the variables of whole blocks, as in `check`.
        `fetches`, `feeds` and `targets` are as in `Engine.callable`. A target that must run after
        the update needs a control dependency on `done`.
        """
        exempt = self.check(exempt)
        key = (exempt, _key(fetches), _key(feeds), _key(targets))
        if key not in self._cache:
            self._cache[key] = self._cut(engine, exempt, fetches, feeds, [*targets, self.done])
        return self._cache[key]

    def numerics_of_next(
        self, engine: Engine, exempt: Iterable[str], feeds: Sequence[tf.Tensor]
    ) -> Callable[..., np.ndarray]:
        """Returns the engine's callable for the next update's numerics; it makes no update."""
        return self._cut(engine, self.check(exempt), self.numerics, feeds, [])

    def _cut(
        self,
        engine: Engine,
        exempt: Exempt,
        fetches: Any,
        feeds: Sequence[tf.Tensor],
        targets: Sequence[Any],
    ) -> Callable[..., Any]:
        """Returns the engine's callable without the exempt blocks."""
        left_out = [self._blocks[name] for name in self.names if name in exempt]
        cut = [t for block in left_out for t in (block.done, block.square_norm)]
        zeros = [np.zeros((), t.dtype.as_numpy_dtype) for t in cut]
        call = engine.callable(fetches, [*feeds, *cut], targets)
        return (lambda *values: call(*values, *zeros)) if cut else call


def _listed(names: Iterable[str]) -> str:
    return in_one_line(", ".join(sorted(names)))


def _key(tensors: Any) -> Any:
    """Returns a hashable key: the names of the tensors and operations in the same nesting."""
    if isinstance(tensors, tuple | list):
        return (type(tensors), *map(_key, tensors))
    return tensors if tensors is None else tensors.name


def block_gradients(
    loss: tf.Tensor, blocks: Blocks, own: BlockLosses = NO_BLOCK_LOSSES
) -> dict[str, list[tf.Tensor]]:
    """Returns the gradients of each block's loss by its variables, grouped by block.

    Args:
      loss: of all blocks but those in `own`.
    """
    if not blocks or not all(blocks.values()):
        raise ScopeMismatch(f"every block needs variables, got {dict(blocks)}")
    gradients: dict[str, tf.Tensor | None] = {}
    for names in _by_loss(blocks, own):
        variables = [v for name in names for v in blocks[name]]
        of_names = own[names[0]].loss if names[0] in own else loss
        found = tf.gradients(of_names, [*map(read_as, variables)])
        gradients |= zip([v.name for v in variables], found, strict=True)
    missing = [name for name, gradient in gradients.items() if gradient is None]
    if missing:
        raise ScopeMismatch(f"the loss does not depend on {', '.join(missing)}")
    return {name: [gradients[v.name] for v in group] for name, group in blocks.items()}


def _by_loss(names: Iterable[str], own: BlockLosses) -> list[list[str]]:
    """Returns the names of the blocks that each loss trains."""
    names = list(names)
    shared = [name for name in names if name not in own]
    return [shared] * bool(shared) + [[name] for name in names if name in own]


def numerics_of_all(
    loss: tf.Tensor, own: BlockLosses, grad_norm: tf.Tensor, learning_rate: tf.Tensor | None
) -> tf.Tensor:
    """Returns the numerics of the sum of all losses, and of the largest learning rate."""
    if own:
        loss = tf.add_n([loss, *(of.loss for of in own.values())])
        if learning_rate is not None:
            rates = [learning_rate, *(of.learning_rate for of in own.values())]
            learning_rate = tf.reduce_max(tf.stack(rates))
    return numerics_of(loss, grad_norm, learning_rate)


def clip_scales(
    norm: tf.Tensor,
    squares: Mapping[str, tf.Tensor | None],
    own: BlockLosses,
    max_grad_norm: float | tf.Tensor | None,
) -> dict[str, tf.Tensor | None]:
    """Returns by block the factor of `clip_scale`, where the gradients of each loss have a norm.

    Args:
      norm: of all gradients together.
      squares: block -> squared norm of its gradients; not read where there is one loss.
    """
    scales: dict[str, tf.Tensor | None] = {}
    for names in _by_loss(squares, own):
        if len(names) < len(squares):
            norm = tf.sqrt(tf.add_n([squares[name] for name in names]))
        scales |= dict.fromkeys(names, clip_scale(norm, max_grad_norm))
    return scales


def clip_scale(norm: tf.Tensor, max_grad_norm: float | tf.Tensor | None) -> tf.Tensor | None:
    """Returns the factor that limits gradients of global norm `norm` to `max_grad_norm`."""
    if max_grad_norm is None:
        return None
    return max_grad_norm / tf.maximum(norm, max_grad_norm)


def scaled(gradients: Sequence[tf.Tensor], scale: tf.Tensor | None) -> list[tf.Tensor]:
    """Returns the gradients times the factor of `clip_scale`; None leaves them as they are."""
    return list(gradients) if scale is None else [g * scale for g in gradients]


@dataclass
class Arm:
    """One exempt set of a freeze schedule and its length in updates."""

    exempt: Exempt
    updates: int

    def __post_init__(self) -> None:
        self.exempt = frozenset(self.exempt)
        _check_length(self.updates)


class FreezeSchedule:
    """A cycle of arms, each for its number of updates: torso 5, head 5, torso 5, ...

    Args:
      arms: at least one arm.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        if not arms:
            raise BoundsError("a freeze schedule needs at least one arm")
        self.arms = tuple(arms)
        self._arm = 0
        self._done = 0

    @classmethod
    def constant(cls, exempt: Iterable[str] = NONE_EXEMPT) -> FreezeSchedule:
        """Returns a schedule with a single arm that never ends."""
        return cls([Arm(frozenset(exempt), 1)])

    def __str__(self) -> str:
        arms = [f"{'+'.join(sorted(a.exempt)) or 'none'} for {a.updates:,}" for a in self.arms]
        return arms[0].split(" for ")[0] if len(arms) == 1 else f"{', '.join(arms)} updates"

    @property
    def position(self) -> tuple[int, int]:
        """The state of the schedule: (index of the arm, updates done in it)."""
        return self._arm, self._done

    @position.setter
    def position(self, position: tuple[int, int]) -> None:
        self._arm, self._done = position

    @property
    def exempt(self) -> Exempt:
        """The exempt set of the next update."""
        return self.arms[self._next_arm()].exempt

    @property
    def arm(self) -> int:
        """Index of the next update's arm."""
        return self._next_arm()

    def value_at(self, env_step: int) -> Exempt:
        """Returns the next update's exempt set; arms count updates, so the env step is ignored."""
        return self.exempt

    def set_length(self, arm: int, updates: int) -> None:
        """Changes an arm's length during the run; an arm that already did as many updates ends."""
        _check_length(updates)
        self.arms[arm].updates = updates

    def phases(self, updates: int) -> Iterator[tuple[Exempt, int]]:
        """Yields (exempt set, updates) for the next `updates`; advances the position with each."""
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
        raise BoundsError(
            f"an arm's length must be a whole number of updates >= 1, got {updates!r}"
        )
