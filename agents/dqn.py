"""The DQN agent: one graph in which acting, storing, learning and syncing happen.

    step   writes what the envs showed into the replay and returns epsilon-greedy actions
    learn  makes K updates: sample, TD loss, gradients of the trained blocks, sync by target age

Every number that may change is a feed; everything with state is a variable.

Imports: agents.config, agents.kept_state, agents.live_values, rl_core. Never envs: it sees shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config import DqnConfig
from agents.kept_state import KeptState
from agents.live_values import arm_name, live_values
from rl_core.errors import RlCoreError
from rl_core.graph.engine import Engine
from rl_core.graph.freeze import ApplyOps, Arm, Exempt, FreezeSchedule
from rl_core.graph.fused import apply_again, fused_updates
from rl_core.graph.phase import PhaseCalls
from rl_core.graph.scopes import blocks_of, stop_gradient_getter
from rl_core.graph.sync import copy_vars, paired_variables
from rl_core.graph.weights import ScopeWeights
from rl_core.losses import TdLoss, double_q_learning, huber, q_learning, squared
from rl_core.networks import Network, dueling_head, mlp_torso, q_head, q_network
from rl_core.random import Stream
from rl_core.replay import Transitions, UniformReplay

# Loss [] -> (global gradient norm [], what is there once every trained block was applied).
Apply = Callable[[tf.Tensor], tuple[tf.Tensor, Any]]


class LearnStats(NamedTuple):
    """Of the last update of a learning phase."""

    loss: Any  # [] mean over the batch
    q_mean: Any  # [] mean over the batch of q_tm1[a_tm1]
    q_max: Any  # [] largest q_tm1[a]
    grad_norm: Any  # [] global norm over the trained blocks, before clipping
    td_error: Any  # [B]


class Inspection(NamedTuple):
    """State read from the graph, for logs."""

    target_age: Any  # updates since the target was copied
    divergence: Any  # global L2 norm of online - target
    rows: Any  # transitions that may be sampled


class _Live(NamedTuple):
    """The live values an update reads, each a feed; the fields' names are the values' names."""

    learning_rate: tf.Tensor
    discount: tf.Tensor
    max_grad_norm: tf.Tensor
    huber_delta: tf.Tensor
    tau: tf.Tensor
    sync_period: tf.Tensor
    ema_decay: tf.Tensor | None


class DqnAgent(KeptState):
    """Deep Q-learning, Mnih et al. (2015), https://doi.org/10.1038/nature14236.

        agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
        actions = agent.step(observation, reward, terminated, autoreset, epsilon)
        stats = agent.learn(4)

    Args:
      config: one run.
      observation_shape, observation_dtype: of one env.
      num_actions: A.

    Attributes:
      hyperparameters: the live values; read and set them by name.
      greedy_averaged: as `greedy`, with the averaged weights; None if the config keeps none.
      freeze: whose turn it is to be trained; its arms' lengths are live values.
      engine: graph and session, for looking inside.
      replay: the rows.
      contents: reads them out.
      updates: gradient steps made so far.
      snapshots: the updates at which those that are still there were taken.
    """

    def __init__(
        self,
        config: DqnConfig,
        observation_shape: Sequence[int],
        observation_dtype: Any,
        num_actions: int,
    ) -> None:
        self.config = config
        self.num_actions = num_actions
        self.updates = 0
        self.snapshots: tuple[int, ...] = ()
        self._can_learn = False
        self._epsilon = np.zeros((), np.float32)  # one feed for all steps: cheaper to hand over
        self.engine = Engine(threads=config.threads)
        with self.engine.building():
            tf.set_random_seed(config.seed)
            self.replay = UniformReplay(
                config.replay_capacity, config.num_envs, observation_shape, observation_dtype
            )
            self._network = build_network(config, num_actions)
            self._build_step(tuple(observation_shape), tf.as_dtype(observation_dtype))
            self._build_learn()
            self._build_kept()
        self.hyperparameters = live_values(config, self.freeze, self._ops)
        self.engine.start()
        self._make_callables()
        # Without a first copy the first updates would chase an unrelated initialisation.
        self._begin_with_online()

    # What the envs call.

    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        epsilon: float | None = None,
    ) -> np.ndarray:
        """Stores one time step of all envs and returns their actions, in one call.

        Args:
          observation: [N, ...] what the envs show now.
          reward: [N] float32, terminated: [N] bool, autoreset: [N] bool: of the step that led
            here. `autoreset` is true where that step was no transition but the reset after an
            episode's end, and for the very first observations.
          epsilon: probability of a random action; by default the live value.

        Returns:
          [N] int32 actions.
        """
        if epsilon is None:
            epsilon = self.hyperparameters["epsilon"]
        self._epsilon[...] = epsilon
        return self._step(observation, reward, terminated, autoreset, self._epsilon)

    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """[M, ...] observations -> [M] int32 greedy actions; nothing is stored."""
        return self._greedy(observation)

    # What the loop calls.

    def learn(self, updates: int = 1, *, stats: bool = False) -> LearnStats | None:
        """Makes `updates` gradient steps, and syncs the target whenever it is old enough.

        The phase is cut where a freeze arm ends. Returns the last update's statistics if asked.
        """
        if updates < 1:
            raise ValueError(f"updates must be a whole number >= 1, got {updates}")
        if not self._can_learn:
            self._require_rows()
        result = None
        live = self._live_feeds()
        for exempt, count in self._phases(updates):
            result = self._calls.run(exempt, count, live, stats)
            self.updates += count
        return result

    def sync(self) -> None:
        """Copies online to target at once; the target's age is 0 then."""
        self._sync_now()

    def inspect(self) -> Inspection:
        """What the graph knows and the loop does not need."""
        return Inspection(*(value.item() for value in self._inspect()))

    def close(self) -> None:
        self.engine.close()

    # The graph.

    def _build_step(self, shape: tuple[int, ...], dtype: tf.DType) -> None:
        N = self.config.num_envs
        self._step_feeds = (
            tf.placeholder(dtype, [N, *shape], "observation"),
            tf.placeholder(tf.float32, [N], "reward"),
            tf.placeholder(tf.bool, [N], "terminated"),
            tf.placeholder(tf.bool, [N], "autoreset"),
            tf.placeholder(tf.float32, [], "epsilon"),
        )
        observation, reward, terminated, autoreset, epsilon = self._step_feeds
        with tf.variable_scope("online") as online:
            q = self._network(observation)  # [N, A]
        self._online = online.name
        self._weights = ScopeWeights(self.engine, online.name)
        with tf.name_scope("epsilon_greedy"):
            now = self.replay.rows_written.read_value()
            coin, die = tf.unstack(Stream(self.config.seed, "act").uniform(now, [2, N]))  # [N]
            anything = tf.cast(die * self.num_actions, tf.int32)  # [N]
            self._action = tf.where(coin < epsilon, anything, _best(q))  # [N]
        self._write = self.replay.write(observation, self._action, reward, terminated, autoreset)

        self._observations = tf.placeholder(dtype, [None, *shape], "observations")
        with tf.variable_scope("online", reuse=True):
            self._greedy_action = _best(self._network(self._observations))  # [M]

    def _build_learn(self) -> None:
        config = self.config
        self._live = _Live(
            **{n: tf.placeholder(tf.float32, [], n) for n in _Live._fields[:-2]},
            sync_period=tf.placeholder(tf.int64, [], "sync_period"),
            ema_decay=tf.placeholder(tf.float32, [], "ema_decay") if config.ema_decay else None,
        )
        with tf.variable_scope("counters"):
            self._target_age = _counter("target_age")
            self._updates = _counter("updates")
        with tf.variable_scope("target", custom_getter=stop_gradient_getter) as target:
            self._network(self._observations)
        self._target = target.name
        self._build_average()

        def single(loss: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            self._ops = ApplyOps(
                loss,
                blocks_of(self._online),
                lambda: tf.train.AdamOptimizer(
                    self._live.learning_rate, epsilon=config.adam_epsilon
                ),
                max_grad_norm=self._live.max_grad_norm,
            )
            return self._ops.grad_norm, self._ops.done

        stats, end = self._build_update(single)
        arms = [Arm(self._ops.check(arm.exempt), arm.updates) for arm in config.freeze]
        self.freeze = FreezeSchedule(arms) if arms else FreezeSchedule.constant()
        # Compiled loops are for what the config says will be used; any other exempt set is
        # trained by single updates.
        more_than_one = config.updates_per_learn != 1 or config.num_envs > 1
        fused_arms = {arm.exempt for arm in self.freeze.arms if more_than_one}
        count = tf.placeholder(tf.int32, [], "updates")
        fused = {exempt: self._build_fused(exempt, count, stats) for exempt in fused_arms}
        feeds = [feed for feed in self._live if feed is not None]
        self._calls = PhaseCalls(self.engine, self._ops, end, stats, fused, count, feeds)

        copy = copy_vars(self._online, self._target)
        with tf.control_dependencies([copy]):
            self._sync_op = self._target_age.assign(0, read_value=False)
        head, tail = self.replay.queue()
        pairs = paired_variables(self._online, self._target)
        self._state = Inspection(
            self._target_age.read_value(),
            tf.global_norm([of.read_value() - to.read_value() for of, to in pairs]),
            tail - head,
        )

    def _build_average(self) -> None:
        """Exponential moving averages of the online weights, and the policy that has them."""
        self._average: str | None = None
        self._averaged: ScopeWeights | None = None
        self.greedy_averaged: Callable[[np.ndarray], np.ndarray] | None = None
        if not self.config.ema_decay:
            return
        with tf.variable_scope("ema", custom_getter=stop_gradient_getter) as average:
            self._averaged_action = _best(self._network(self._observations))  # [M]
        self._average = average.name
        self._averaged = ScopeWeights(self.engine, average.name)
        self._average_now = copy_vars(self._online, average.name)

    def _build_update(self, apply: Apply) -> tuple[LearnStats, tf.Operation]:
        """One update in the default graph: sample, loss, gradients, sync."""
        counter = self._updates.read_value()
        batch = self.replay.sample(
            self.config.batch_size, Stream(self.config.seed, "sample"), counter
        )
        td, q_tm1 = self._td_loss(batch)
        if self.config.loss == "huber":
            loss = tf.reduce_mean(huber(td.td_error, self._live.huber_delta))  # []
        else:
            loss = tf.reduce_mean(squared(td.td_error))  # []
        grad_norm, applied = apply(loss)
        q_mean = tf.reduce_mean(td.target - td.td_error)  # []
        stats = LearnStats(loss, q_mean, tf.reduce_max(q_tm1), grad_norm, td.td_error)
        with tf.control_dependencies([applied, counter]):
            changes = [self._updates.assign_add(1, read_value=False), self._sync_due()]
            if self._average:
                share = tf.subtract(1.0, self._live.ema_decay)
                changes.append(copy_vars(self._online, self._average, tau=share))
            return stats, tf.group(*changes)

    def _td_loss(self, batch: Transitions) -> tuple[TdLoss, tf.Tensor]:
        with tf.variable_scope("online", reuse=True):
            q_tm1 = self._network(batch.s_tm1)  # [B, A]
        with tf.variable_scope("target", reuse=True, custom_getter=stop_gradient_getter):
            q_t = self._network(batch.s_t)  # [B, A]
        # A time limit is not an end: only `terminated` cuts the bootstrap off.
        goes_on = 1.0 - tf.cast(batch.terminated, tf.float32)  # [B]
        transition = (q_tm1, batch.a_tm1, batch.r_t, self._live.discount * goes_on)
        if not self.config.double:
            return q_learning(*transition, q_t), q_tm1
        with tf.variable_scope("online", reuse=True, custom_getter=stop_gradient_getter):
            selector = self._network(batch.s_t)  # [B, A]
        return double_q_learning(*transition, q_t, selector), q_tm1

    def _sync_due(self) -> tf.Operation:
        """One update older; copied, and of age 0, if that is the period or more."""
        older = self._target_age.read_value() + 1

        def copied() -> tf.Tensor:
            copy = copy_vars(self._online, self._target, tau=self._live.tau)
            with tf.control_dependencies([copy]):
                return tf.zeros([], tf.int64)

        age = tf.cond(older >= self._live.sync_period, copied, lambda: older)
        return self._target_age.assign(age, read_value=False)

    def _build_fused(self, exempt: Exempt, count: tf.Tensor, like: LearnStats) -> LearnStats:
        def apply(loss: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
            live = self._live
            return apply_again(
                self._ops,
                loss,
                exempt,
                learning_rate=live.learning_rate,
                max_grad_norm=live.max_grad_norm,
            )

        return LearnStats(
            *fused_updates(lambda: self._build_update(apply), count, like, compiled=self.config.xla)
        )

    # The session.

    def _make_callables(self) -> None:
        engine = self.engine
        self._step = engine.callable(self._action, self._step_feeds, [self._write])
        self._greedy = engine.callable(self._greedy_action, [self._observations])
        self._sync_now = engine.callable(None, targets=[self._sync_op])
        self._inspect = engine.callable(self._state)
        if self._average:
            self.greedy_averaged = engine.callable(self._averaged_action, [self._observations])

    def _begin_with_online(self) -> None:
        self.sync()
        if self._average:
            self.engine.callable(None, targets=[self._average_now])()

    def _phases(self, updates: int) -> Iterator[tuple[Exempt, int]]:
        live = self.hyperparameters
        if live.source("exempt") == "override":
            return iter([(live["exempt"], updates)])
        for arm in range(len(self.config.freeze)):
            self.freeze.set_length(arm, live[arm_name(arm)])
        return self.freeze.phases(updates)

    def _live_feeds(self) -> list[np.generic]:
        live = self.hyperparameters
        values = [np.float32(live[name]) for name in _Live._fields[:-2]]
        average = [np.float32(live["ema_decay"])] if self._average else []
        return [*values, np.int64(live["sync_period"]), *average]

    def _require_rows(self) -> None:
        if self.inspect().rows == 0:
            raise RlCoreError("nothing to learn from: no transition is in the replay yet")
        self._can_learn = True  # a ring of three time steps or more never runs empty again


def build_network(config: DqnConfig, num_actions: int) -> Network:
    """The config's network: observations [B, ...] to action values [B, A]."""
    head = dueling_head(num_actions) if config.dueling else q_head(num_actions)
    return q_network(mlp_torso(config.hidden, normalise=config.layer_norm), head)


def _best(q: tf.Tensor) -> tf.Tensor:
    return tf.argmax(q, axis=1, output_type=tf.int32)


def _counter(name: str) -> tf.Variable:
    return tf.get_variable(name, [], tf.int64, tf.zeros_initializer(), trainable=False)
