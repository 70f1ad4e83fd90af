"""One update: sample, objective, gradients, apply, averages, sync; and a look at the next one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.network import taken_whole
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.objective import Demonstrations, Objective, Regression
from targetnet.agents.dqn.sequences import RolloutObjective, SequenceObjective
from targetnet.agents.dqn.target import TargetClock
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.finite import where
from targetnet.rl_core.graph.scopes import MemberPart, variables_in
from targetnet.rl_core.graph.sync import copy_vars
from targetnet.rl_core.optimizers.freeze import ApplyOps, BlockLosses
from targetnet.rl_core.optimizers.packed_adam import AdamResult, LoopAdam, Moments
from targetnet.rl_core.random import Keys, Stream
from targetnet.rl_core.replay import ReplayMemory


class Gradients(MemberPart):
    """Reads the gradient of its loss by each weight, before clipping, and changes nothing.

    Make it while the graph is being built. Frozen blocks have gradients here too.

    Args:
      engine, networks, live, memory: of the agent.
      ops: of the update in a call of its own.
      observation: [B, ...] of its batch.
      remembered: [B, S] before each of these; None if the network remembers nothing.

    Attributes:
      names: of the weights, after the scope.
    """

    def __init__(
        self,
        engine: Engine,
        ops: ApplyOps,
        observation: tf.Tensor,
        remembered: tf.Tensor | None,
        networks: Networks,
        live: LiveFeeds,
        memory: ReplayMemory,
    ) -> None:
        self._engine, self._live = engine, live
        self._shown = [observation] if remembered is None else [observation, remembered]
        named = {v.op.name: name for name, v in variables_in(networks.online).items()}
        gradients = {named[name]: gradient for name, gradient in ops.gradients().items()}
        self.names, self._gradients = tuple(gradients), tuple(gradients.values())
        self._alpha = memory.sampler.alpha

    def read(self) -> dict[str, np.ndarray]:
        """Returns them by name, of the batch that the next update draws; store waiting rows first.

        They are of the values that are live now, but for `priority_alpha`: another exponent would
        have all priorities recomputed, which is the update's part. It is that of the last update.
        """
        return dict(zip(self.names, self._call(*self._fed()), strict=True))

    def shown(self) -> list[np.ndarray]:
        """Returns what the batch that the next update draws has observed, [B, ...].

        After it comes what the network that acted remembered before, [B, S], if it remembers. The
        replay must have a transition; store waiting rows first.
        """
        call = self._engine.callable(self._shown, self._live.tensors)
        return list(call(*self._fed()))

    def _fed(self) -> Sequence[np.ndarray]:
        live = self._live.values()
        if self._alpha is not None:
            alpha = self._engine.run(self._alpha)
            live = self._live.with_value(live, "priority_alpha", float(alpha))
        return live

    @functools.cached_property
    def _call(self) -> Callable[..., Sequence[np.ndarray]]:
        # Made at first use: a run that never looks pays nothing for it.
        return self._engine.callable(self._gradients, self._live.tensors)


# Applies the gradients of a loss [], and of the losses that train one block alone.
Apply = Callable[[tf.Tensor, BlockLosses], AdamResult]
# on_sync(synced, moments) -> (moments, ops): what else happens at a sync. `moments` are Adam's,
# where a loop carries them.
OnSync = Callable[[tf.Tensor, Any], tuple[Any, list[Any]]]


class LearnStats(NamedTuple):
    """Statistics of the last update of a learning phase."""

    loss: Any  # [] mean over the batch
    q_mean: Any  # [] mean over the batch of q_tm1[a_tm1], with branches over these too
    q_max: Any  # [] largest q_tm1[a]
    grad_norm: Any  # [] global norm over the trained blocks, before clipping
    td_error: Any  # [B], [B, D] with branches, or [B L] if recurrent


class UpdateOutputs(NamedTuple):
    """Results of one update, from which statistics are made."""

    loss: Any  # [B] weighted
    target: Any  # [B], [B, D] with branches, or [B L] if recurrent
    td_error: Any  # the same
    q_tm1: Any  # [B, A], or [B L, A] if recurrent
    numerics: Any  # [3] of `targetnet.rl_core.graph.finite`

    def stats(self) -> LearnStats:
        # In a compiled loop each mean would be made in every update, for the last one alone.
        q_mean = tf.reduce_mean(self.target - self.td_error)  # []
        q_max = tf.reduce_max(self.q_tm1)  # []
        return LearnStats(tf.reduce_mean(self.loss), q_mean, q_max, self.numerics[1], self.td_error)


class BuiltUpdate(NamedTuple):
    """One update, built."""

    learned: UpdateOutputs
    moments: Any  # Adam's after it, where a loop carries them
    done: Any  # the op after which all of it is done
    made: Any  # [] bool: it was applied; None in a call of its own, which raises if it was not


class SingleUpdate(NamedTuple):
    """One update in a call of its own, built."""

    learned: UpdateOutputs
    done: tf.Operation  # the op after which all of it is done
    done_without_sync: tf.Operation  # the same, where Python knows that no sync is due
    observed: tf.Tensor  # [B, ...] what its batch learns from
    remembered: tf.Tensor | None  # [B, S] the states before these; None if there are none


class Update:
    """Builds updates: for a call of its own, for many in one call, for the loop in the graph.

    Args:
      config, keys, networks, memory, clock: of the agent.
      live: what updates are fed.

    Attributes:
      count: int64 scalar variable: updates made so far.
    """

    def __init__(
        self,
        config: DqnConfig,
        keys: Keys,
        live: LiveFeeds,
        networks: Networks,
        memory: ReplayMemory,
        clock: TargetClock,
    ) -> None:
        self._config, self._keys, self._live, self._networks = config, keys, live, networks
        self._memory, self._clock = memory, clock
        self._demonstrations = Demonstrations(config, memory.rows)
        self._objective: Callable[[Any, tf.Tensor], Regression]
        if config.rollout:
            self._objective = RolloutObjective(config, keys, networks, live, memory)
        else:
            of_steps = Objective(config, keys, networks, live, self._demonstrations)
            self._objective = SequenceObjective(of_steps, live) if config.is_recurrent else of_steps
        with tf.variable_scope("counters"):
            self.count = tf.get_variable(
                "updates", [], tf.int64, tf.zeros_initializer(), trainable=False
            )

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for the variable that counts updates."""
        return variable is self.count

    def single(self, apply: Apply, on_sync: OnSync) -> SingleUpdate:
        """Builds one in a call of its own."""
        _, single = self._build(apply, on_sync, single=True)
        assert single is not None
        return single

    def in_loop(
        self, adam: LoopAdam, moments: Moments, trained: Mapping[str, tf.Tensor] | None = None
    ) -> BuiltUpdate:
        """Builds one of many in one call, which carries Adam's moments.

        Args:
          adam: of the blocks that may be trained.
          moments: before it.
          trained: block -> bool scalar; None: all that `adam` has.
        """
        rates = {name: self._live[name] for name in ("learning_rate", "max_grad_norm")}

        def on_sync(synced: tf.Tensor, moments: Moments) -> tuple[Moments, list[Any]]:
            return adam.reset(moments, synced, moments_too="reset_moments" in self._config.on_sync)

        def apply(loss: tf.Tensor, own: BlockLosses) -> AdamResult:
            return adam.apply(loss, moments, trained, own=own, **rates)

        built, _ = self._build(apply, on_sync)
        return built

    def _build(
        self, apply: Apply, on_sync: OnSync, *, single: bool = False
    ) -> tuple[BuiltUpdate, SingleUpdate | None]:
        """Builds an update: 1 to 5 run in this order, 6 to 9 after them in any, 10 after 9.

        1. Read the count of updates. 2. Sample a batch; rewards are scaled and clipped there.
        3. Values of the networks, and the TD loss. 4. Weigh it, and take the mean. 5. `apply`
        (`ApplyOps`; in loops `LoopAdam.apply`): gradients, their norm, clipping, the check that
        all is finite, Adam. 6. The count grows. 7. New priorities. 8. The averaged weights.
        9. The target's age grows, and it may be synced. 10. Adam may be reset for that.
        """
        counter = self.count.read_value()
        stream = Stream(self._keys, "sample")
        batch = self._memory.sample(self._config.batch_size, stream, counter)
        td, priority, q_tm1, own = self._objective(batch, counter)
        weighted = _weighted(batch, td.loss)  # [B]
        own = {
            name: of._replace(loss=tf.reduce_mean(_weighted(batch, of.loss)))
            for name, of in own.items()
        }
        numerics, made, moments, applied = apply(tf.reduce_mean(weighted), own)
        learned = UpdateOutputs(weighted, td.target, td.td_error, q_tm1, numerics)
        # Of sequences both are made here: what is made under the dependencies below runs after the
        # update.
        shown = (batch.observed, batch.remembered) if single else (None, None)
        with tf.control_dependencies([applied, counter]):
            one = where(made, np.int64(1), np.int64(0))
            changes = [self.count.assign_add(one, read_value=False)]
            priority = self._with_bonus(priority, batch.row)
            changes += self._memory.update_priorities(batch.row, priority, made)
            if self._networks.ema:
                share = tf.subtract(1.0, self._live["ema_decay"])
                online, ema = self._networks.online, self._networks.ema
                whole = taken_whole(self._config)
                changes.append(copy_vars(online, ema, tau=share, only_if=made, whole=whole))
            synced, done = self._clock.advance(one, made, counter, td.td_error)
            if self._config.on_sync:
                moments, more = on_sync(synced, moments)
                done = tf.group(done, *more)
            done = tf.group(*changes, done)
            built = BuiltUpdate(learned, moments, done, made)
            if not single:
                return built, None
            without_sync = tf.group(*changes, self._clock.advance_without_sync())
            return built, SingleUpdate(learned, done, without_sync, *shown)

    def _with_bonus(self, priority: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Adds to the size of demonstrations' priorities, [B].

        DQfD's epsilon_d, Hester et al. (2018), https://arxiv.org/abs/1704.03732.
        """
        if "demonstration_bonus" not in self._live:
            return priority
        shown = tf.cast(self._demonstrations.among(row), tf.float32)
        return tf.abs(priority) + self._live["demonstration_bonus"] * shown


def _weighted(batch: Any, loss: tf.Tensor) -> tf.Tensor:
    """[B] times the weights of a prioritized batch."""
    return loss if batch.weight is None else batch.weight * loss
