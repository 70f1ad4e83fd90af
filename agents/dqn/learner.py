"""Learning phases of updates: the calls that make them, and the error of learning that diverged.

An update is built by `update.Update` and made by one of four calls. They agree but for rounding;
batched ones, bit for bit with what they replace (population.py).

call     makes                  built by                       who decides on a sync, and how
single   one update             Update.single, plain ops       Python if none is due; else tf.cond
fused    n updates              Update.in_loop, mostly by XLA  the graph; a loop of 0 or 1 steps
chunk    time steps, updates    compiled.InGraphLoop           the graph; the same
batched  one of each member     update_batching                the graph; computed, then selected

`PhaseCalls` (targetnet.rl_core.optimizers.calls) chooses among single, fused and batched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.live_values import arm_name
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.network_keys import FRAMES
from targetnet.agents.dqn.heads import head_of
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.network import is_learned
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.target import CopyCalls, Inspection, target_clock
from targetnet.agents.dqn.update import Gradients, LearnStats, Update, UpdateOutputs
from targetnet.rl_core.arguments import require_whole
from targetnet.rl_core.errors import BoundsError, Diverged, RlCoreError
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.finite import LARGEST_RATE, NotFinite, checked
from targetnet.rl_core.graph.scopes import MemberPart, blocks_of
from targetnet.rl_core.graph.xla import when
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.optimizers.adam import Adam, CenteredRmsProp, Pull, Sgd, bounded
from targetnet.rl_core.optimizers.calls import FusedCalls, PhaseCalls, UpdateBatcher, fused_updates
from targetnet.rl_core.optimizers.freeze import (
    ApplyOps,
    Arm,
    BlockLosses,
    Exempt,
    FreezeSchedule,
)
from targetnet.rl_core.optimizers.packed_adam import AdamResult, LoopAdam, LoopMoments
from targetnet.rl_core.random import Keys
from targetnet.rl_core.replay import ReplayMemory


def fused_by_exempt_set(
    config: DqnConfig,
    update: Update,
    moments: LoopMoments,
    freeze: FreezeSchedule,
    blocks: Sequence[str],
    like: UpdateOutputs,
) -> tuple[dict[Exempt, FusedCalls], int]:
    """Builds, for each exempt set of the config, the call that makes many updates.

    Args:
      config, update, moments, freeze, blocks: of the agent.
      like: outcome of an update, for shapes.

    Returns:
      Exempt set -> updates in one call; and from how many updates on these serve.
    """
    # Only the exempt sets in the config are compiled; any other set runs plain operations. So
    # do networks of whole frames, whose convolutions are faster so, and phases of one update
    # where operations share their work between threads.
    more_than_one = config.updates_per_learn != 1 or config.num_envs > 1 or config.rollout > 0
    one_too = config.xla and config.threads == 1
    min_updates = 1 if one_too else 2
    if config.network in FRAMES or not (more_than_one or one_too):
        return {}, min_updates
    count = tf.placeholder(tf.int32, [], "updates") if more_than_one else None
    calls = {}
    # Not a set: its order differs between processes, and a stored compilation would not be found.
    for exempt in dict.fromkeys(arm.exempt for arm in freeze.arms):
        trained = [name for name in blocks if name not in exempt]
        adam = LoopAdam(moments, trained, exempt if config.on_sync else ())
        calls[exempt] = _fused(config, update, adam, count, like)
    return calls, min_updates


def _fused(
    config: DqnConfig, update: Update, adam: LoopAdam, count: tf.Tensor | None, like: UpdateOutputs
) -> FusedCalls:
    last = fused_updates(
        lambda moments: update.in_loop(adam, moments), count, like, adam, compiled=config.xla
    )
    learned = UpdateOutputs(*last)
    return FusedCalls(learned.stats(), checked(learned.numerics).op, count)


class Learner(MemberPart):
    """Makes updates of one agent, and knows how many there were.

    Make it while the graph is being built.

    Args:
      engine, config, keys, live, networks, memory: of the agent.

    Attributes:
      updates: gradient steps made so far.
      freeze: whose turn it is to be trained; its arms' lengths are live values.
      ops: applies the gradients of an update in a call of its own.
      blocks: names of the network's blocks.
      clock: of the target's age.
      watch: reads what the clock's rule keeps; None without a rule.
      update: builds one update.
      learned: outcome of the update in a call of its own.
      moments: the optimizer's.
      gradients: reads those of the next update.
      drawn: operations of one update and of a copy of the target, for a picture of the graph.
    """

    per_member: ClassVar = {"updates": int}

    def __init__(
        self,
        engine: Engine,
        config: DqnConfig,
        keys: Keys,
        live: LiveFeeds,
        networks: Networks,
        memory: ReplayMemory,
    ) -> None:
        self._config, self._live = config, live
        self.updates = 0
        self.clock = target_clock(config, live, networks)
        self.update = Update(config, keys, live, networks, memory, self.clock)

        def apply(loss: tf.Tensor, own: BlockLosses) -> AdamResult:
            self.ops = _apply_ops(config, live, networks, loss, own)
            return AdamResult(self.ops.numerics, None, None, self.ops.done)

        # In the midst of building, `apply` makes the ops from the losses.
        single = self.update.single(apply, lambda synced, _: (None, [when(synced, self._reset)]))
        self.learned = single.learned
        self.blocks = self.ops.names
        shown = single.observed, single.remembered
        self.gradients = Gradients(engine, self.ops, *shown, networks, live, memory)
        self.moments = LoopMoments(engine, self.ops)
        self.freeze = freeze_schedule(config, self.ops)
        fused, min_updates = fused_by_exempt_set(
            config, self.update, self.moments, self.freeze, self.blocks, self.learned
        )
        stats = self.learned.stats()
        self._calls = PhaseCalls(
            engine, self.ops, self.moments, single.done, single.done_without_sync,
            stats, fused, min_updates, live.tensors, self.clock,
        )  # fmt: skip
        reset = self._reset() if config.on_sync else None
        self._copies = CopyCalls(engine, networks, self.clock, reset)
        self.drawn = [single.done, stats.loss.op, *self._copies.drawn]
        self._count = engine.callable(self.update.count.read_value())
        self.watch = self.clock.watch(engine)

    # Learning.

    def share_calls(self, batcher: UpdateBatcher | None) -> None:
        """Lets single updates of all blocks be made with those of other members; None: singly."""
        self._calls.batcher = batcher

    def plan(
        self, hyperparameters: Hyperparameters, updates: int, *, stats: bool
    ) -> Callable[[], LearnStats | None]:
        """Reads what is live now, and returns the call that learns by it, for any thread.

        The phase is cut where a freeze arm ends. The call returns the last update's statistics
        if `stats`.

        Raises (when called):
          Diverged: the loss or the gradient norm of an update is not finite. That update and
            those after it were not made: everything is as after the update before.
        """
        require_whole("updates", updates, 1, bits=32)
        whole = self._config.updates_per_rollout or 1
        if updates % whole:
            raise BoundsError(f"updates must be a multiple of {whole} (one rollout), got {updates}")
        before = self.freeze.position
        fed, phases = self._live.values(), tuple(self._phases(hyperparameters, updates))
        # Read here: acting may go on while the updates are made.
        period, env_step = hyperparameters.get("sync_period"), hyperparameters.env_step
        if self.clock.age_in_python is None and not self.clock.rule:
            self.clock.set_age(self.target_age)

        def learn() -> LearnStats | None:
            result, first = None, self.updates
            try:
                for exempt, count in phases:
                    result = self._calls.run(exempt, count, fed, stats, period)
                    self.updates += count
            except NotFinite as error:
                self.clock.keep_sync(env_step, made=False)
                self.updates = int(self._count())
                self.freeze.position = before
                for _ in self._phases(hyperparameters, self.updates - first):
                    pass  # moves the schedule's position on by what was made
                raise self.diverged(error.numerics, fed) from None
            self.clock.keep_sync(env_step)
            return result

        return learn

    def sync(self, env_step: int) -> None:
        """Makes a full copy of online to target now, after `env_step` env steps, whatever `tau` is.

        Raises:
          RlCoreError: there is no target network.
        """
        sync, age = self._copies.sync, self.target_age
        if sync is None or age is None:
            raise RlCoreError("there is no target network to sync: rollout > 0 does without")
        if self._config.on_sync:
            self.moments.to_slots()
        sync()
        self.clock.note_sync(age)
        self.clock.keep_sync(env_step)

    def copy_online_to_all(self) -> None:
        """Copies online to every other network; the target's age is 0 then."""
        self._copies.copy_to_all()
        self.clock.set_age(0)

    def goes_on_from(self, updates: int, position: Sequence[int]) -> None:
        """Takes over the counts of an agent whose variables were restored.

        Args:
          updates: gradient steps made so far.
          position: in the freeze schedule.
        """
        self.updates, self.clock.age_in_python = updates, None
        arm, done = position
        self.freeze.position = arm, done

    def inspect(self) -> Inspection:
        """Reads what the graph knows and the loop does not need."""
        return self._copies.inspect()

    @property
    def target_age(self) -> int | None:
        """Updates since the last sync; None without a target network."""
        if self._copies.sync is None or self.clock.age_in_python is None:
            return self.inspect().target_age
        return self.clock.age_in_python

    @property
    def not_compiled(self) -> str | None:
        """Why plain operations learn although the config says `xla`; None if they do not."""
        return self._calls.not_compiled

    def set_arms(self, hyperparameters: Hyperparameters) -> None:
        """Gives the freeze schedule's arms their live lengths."""
        for arm in range(len(self._config.freeze)):
            self.freeze.set_length(arm, hyperparameters[arm_name(arm)])

    def diverged(self, numerics: np.ndarray, fed: Sequence[np.ndarray]) -> Diverged:
        """Returns the error about an update with these numerics, that was fed these live values."""
        live = self._live.among(fed)
        own = (of.learning_rate for of in head_of(self._config).own_losses.values())
        rate = max(live[name] for name in ("learning_rate", *own))
        return diverged(numerics.tolist(), self.updates, rate, self._config)

    def _phases(
        self, hyperparameters: Hyperparameters, updates: int
    ) -> Iterator[tuple[Exempt, int]]:
        if hyperparameters.source("exempt") == "override":
            return iter([(hyperparameters["exempt"], updates)])
        self.set_arms(hyperparameters)
        return self.freeze.phases(updates)

    # Building.

    def _reset(self) -> tf.Operation:
        """Does to the optimizers what `on_sync` says."""
        ops, all_of_it = self.ops, "reset_moments" in self._config.on_sync
        done = [
            ops.optimizer(name).reset(
                ops.state(name) if all_of_it else ops.optimizer(name).counters
            )
            for name in ops.names
        ]
        return tf.group(*done)


def _apply_ops(
    config: DqnConfig, live: LiveFeeds, networks: Networks, loss: tf.Tensor, own: BlockLosses
) -> ApplyOps:
    rate, pull = live["learning_rate"], proximal_pull(config, live, networks)
    if config.optimizer == "adamw":
        pull = _with_decay(live, pull)

    def optimizer(own_rate: tf.Tensor | None = None) -> Adam:
        # What is taken off besides goes with the step size that all other blocks share.
        if own_rate is not None:
            return _optimizer(config, live, own_rate, None)
        return _optimizer(config, live, rate, pull)

    return ApplyOps(
        loss,
        _learned_blocks(config, networks.online),
        optimizer,
        own=own,
        max_grad_norm=live["max_grad_norm"],
        learning_rate=rate,
    )


def _optimizer(config: DqnConfig, live: LiveFeeds, rate: tf.Tensor, pull: Pull | None) -> Adam:
    match config.optimizer:
        case "rmsprop":
            decay, epsilon = config.rmsprop_decay, config.rmsprop_epsilon
            return CenteredRmsProp(rate, decay, epsilon, pull=pull)
        case "sgd":
            return Sgd(rate, lambda: live["momentum"], pull=pull)
    return Adam(rate, epsilon=config.adam_epsilon, pull=pull)


def _with_decay(live: LiveFeeds, pull: Pull | None) -> Pull:
    """Returns a pull that also draws every weight to 0, as AdamW does."""

    def both(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
        taken = bounded(live["learning_rate"] * live["weight_decay"] * value)
        return taken if pull is None else taken + pull(variable, value)

    return both


def proximal_pull(config: DqnConfig, live: LiveFeeds, networks: Networks) -> Pull | None:
    """Returns what builds the part of a step that draws a weight to the target's.

        weight <- weight - step - learning_rate * proximal_weight * (weight - target's)

    Asadi et al. (2021), https://arxiv.org/abs/2112.05848, whose 1 / c is the weight, and whose step
    is one of gradient descent. Only the blocks that an update trains are drawn.

    Returns:
      None if the config holds no target still in this way.
    """
    if not config.is_built_with("proximal_weight"):
        return None
    of_target = {of.op.name: to for of, to in networks.ops.target_pairs()}

    def pull(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
        if variable.op.name not in of_target:  # of the torso that the target shares
            return tf.zeros_like(value)
        share = live["learning_rate"] * live["proximal_weight"]
        return share * (value - of_target[variable.op.name].read_value())

    return pull


def _learned_blocks(config: DqnConfig, online: str) -> dict[str, list[tf.Variable]]:
    """Returns the blocks of the online network, without moments of observations."""
    blocks = {
        name: [v for v in of if is_learned(config, v.op.name.removeprefix(f"{online}/"))]
        for name, of in blocks_of(online).items()
    }
    return {name: of for name, of in blocks.items() if of}


def freeze_schedule(config: DqnConfig, ops: ApplyOps) -> FreezeSchedule:
    """Returns the arms of a config in turn; without any, all blocks are trained."""
    arms = [Arm(ops.check(arm.exempt), arm.updates) for arm in config.freeze]
    return FreezeSchedule(arms) if arms else FreezeSchedule.constant()


_NAMES = ("loss", "gradient norm")


def diverged(
    numerics: Sequence[float], updates: int, learning_rate: float, config: DqnConfig
) -> Diverged:
    """The error about an update that was not made.

    Args:
      numerics: of the update, as `targetnet.rl_core.graph.finite.numerics_of` gives them.
      updates: how many were made before.
    """
    found = [f"the {name} is {value:g}" for name, value in zip(_NAMES, numerics, strict=False)
             if not np.isfinite(value)]  # fmt: skip
    if learning_rate > LARGEST_RATE:
        found.append(f"a learning rate above {LARGEST_RATE:g} can carry weights out of float32")
    # Other operations may round what only just overflowed to a finite number.
    what = " and ".join(found) or "the loss or the gradient norm is not finite"
    squared = ", or loss = huber" if config.loss == "squared" else ""
    clip = "max_grad_norm" if config.max_grad_norm else "max_grad_norm > 0 (it is off)"
    return Diverged(
        f"learning diverged at update {updates + 1:,}: {what} (learning_rate {learning_rate:g}); "
        f"the weights are those of update {updates:,}. "
        f"Try a smaller learning_rate or {clip}{squared}"
    )
