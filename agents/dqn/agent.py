"""The DQN agent: one graph in which acting, storing, learning and syncing happen.

    step   writes what the envs showed into the replay and returns the actions (agents.dqn.actor)
    learn  makes K updates: sample, TD loss, gradients of the trained blocks, sync by target age

Every number that may change is a feed; everything with state is a variable. Which network, which
target, which replay and which exploration: each is one choice of the config, and here is where
they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.live_values import arm_name, live_knobs, live_values
from agents.config.model import DqnConfig
from agents.dqn.actor import Acting
from agents.dqn.diverging import DivergedInChunk, diverged
from agents.dqn.in_graph_loop import Chunk, Counts, DeviceLoop
from agents.dqn.live_feeds import LiveFeeds
from agents.dqn.memory import build_memory
from agents.dqn.needs import require_memory
from agents.dqn.networks import Networks
from agents.dqn.state import KeptState
from agents.dqn.target_clock import TargetClock
from agents.dqn.update import Learned, LearnStats, Update
from envs.in_graph.interface import InGraphEnv
from rl_core.errors import Diverged, RlCoreError
from rl_core.graph.engine import Engine
from rl_core.graph.finite import NotFinite, checked
from rl_core.graph.scopes import blocks_of
from rl_core.graph.sync import paired_variables
from rl_core.graph.weights import ScopeWeights
from rl_core.networks import ByteBounds
from rl_core.optimizers.adam import Adam
from rl_core.optimizers.freeze import ApplyOps, Arm, Exempt, FreezeSchedule
from rl_core.optimizers.fused import fused_updates
from rl_core.optimizers.packed_adam import Applied, LoopAdam, LoopMoments
from rl_core.optimizers.phase import Fused, PhaseCalls
from rl_core.replay import Rows

_OF_FRAMES = ("nature", "impala")
# Live values that the loop and the choice of an action read; updates are fed all others.
_NOT_OF_UPDATES = ("epsilon", "temperature", "learn_period", "updates_per_learn")


class Inspection(NamedTuple):
    """State read from the graph, for logs."""

    target_age: Any  # updates since the target was copied
    divergence: Any  # global L2 norm of online - target


class DqnAgent(KeptState):
    """Deep Q-learning, Mnih et al. (2015), https://doi.org/10.1038/nature14236, and its family.

        agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
        actions = agent.step(observation, reward, terminated, autoreset)
        stats = agent.learn(4)

    Args:
      config: one run.
      observation_shape, observation_dtype: of one env.
      num_actions: A.
      action_masks: whether the envs say which actions are legal.
      rules: of the env in the graph, for the compiled loop.
      byte_bounds: least and greatest byte of uint8 observations, each one number or one for each
        element, as `envs.byte_bounds` has them: by these they are scaled to [0, 1]. None: by 0
        and 255.

    Attributes:
      device_loop: many time steps in one call, if there are `rules`.
      hyperparameters: the live values; read and set them by name.
      greedy_averaged: as `greedy`, with the averaged weights; None if the config keeps none.
      freeze: whose turn it is to be trained; its arms' lengths are live values.
      engine: graph and session, for looking inside.
      replay: the replay memory.
      updates: gradient steps made so far.
      snapshots: the updates at which those that are still there were taken.

    Raises:
      ConfigError: the config's own network cannot be used.
      ShapeError: the network does not fit the observations.
      MemoryLimitError: it would need more memory than there is.
    """

    def __init__(
        self,
        config: DqnConfig,
        observation_shape: Sequence[int],
        observation_dtype: Any,
        num_actions: int,
        *,
        action_masks: bool = False,
        rules: InGraphEnv | None = None,
        byte_bounds: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        require_memory(config, observation_shape, observation_dtype, num_actions)
        self.config = config
        self.num_actions = num_actions
        self.action_masks = action_masks
        self.updates = 0
        self.snapshots: tuple[int, ...] = ()
        self._can_learn = False
        self.engine = Engine(threads=config.threads, onednn=config.onednn)
        with self.engine.building():
            tf.set_random_seed(config.seed)
            self._live = LiveFeeds(k for k in live_knobs(config) if k.name not in _NOT_OF_UPDATES)
            masked_actions = num_actions if action_masks else None
            self.replay = build_memory(
                config, self._live, observation_shape, observation_dtype, masked_actions
            )
            shape, dtype = [None, *observation_shape], tf.as_dtype(observation_dtype)
            self._observations = tf.placeholder(dtype, shape, "observations")
            bounds = None if byte_bounds is None else ByteBounds(*byte_bounds)
            self._networks = Networks(config, num_actions, self._observations, bounds)
            self._acting = Acting(
                config, self._networks, self.replay, self._observations, num_actions, action_masks
            )
            self._build_learn()
            self.device_loop = self._build_device_loop(rules)
            self._build_kept()
        self.hyperparameters = live_values(config, self.freeze, self._ops)
        self._live.start(self.hyperparameters)
        self.engine.start()
        self._acting.start(self.engine, self.hyperparameters)
        self.greedy_averaged = self._acting.greedy_averaged
        if self.device_loop is not None:
            self.device_loop.start(self.engine)
        self._sync_now = self.engine.callable(None, targets=[self._sync_op])
        self._inspect = self.engine.callable(self._state)
        self._rows = self.engine.callable(self._in_queue)
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
        legal: np.ndarray | None = None,
    ) -> np.ndarray:
        """Stores one time step of all envs and returns their actions, in one call.

        Args:
          observation: [N, ...] what the envs show now.
          reward: [N] float32, terminated: [N] bool, autoreset: [N] bool: of the step that led
            here. `autoreset` is true where that step was no transition but the reset after an
            episode's end, and for the very first observations.
          epsilon: probability of a random action; by default the live value.
          legal: [N, A] bool: which actions may be taken now; needed with action masks.

        Returns:
          [N] int32 actions.
        """
        return self._acting.step(observation, reward, terminated, autoreset, epsilon, legal)

    def act(
        self, observation: np.ndarray, time_step: int, legal: np.ndarray | None = None
    ) -> np.ndarray:
        """Actions of the network as it was when `follow` was last called; nothing is stored.

        May run in one thread while updates are made in another. Only with loop = "concurrent".

        Args:
          observation: [N, ...]; legal: [N, A] bool, needed with action masks.
          time_step: of all envs, counted from 0; it picks the random numbers.
        """
        return self._acting.act(observation, time_step, legal)

    def follow(self) -> None:
        """`act` uses the present weights from now on."""
        self._acting.follow()

    def store(self, rows: Rows) -> None:
        """Appends several time steps, arrays [P, N, ...], each as `step` would have stored it."""
        self._acting.store(rows)

    def greedy(self, observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """[M, ...] observations, [M, A] masks -> [M] int32 greedy actions; nothing is stored."""
        return self._acting.greedy(observation, legal)

    # What the loop calls.

    def learn(self, updates: int = 1, *, stats: bool = False) -> LearnStats | None:
        """Makes `updates` gradient steps, and syncs the target whenever it is old enough.

        The phase is cut where a freeze arm ends. Returns the last update's statistics if asked.

        Raises:
          Diverged: the loss or the gradient norm of an update is not finite. That update and those
            after it were not made: everything is as after the update before.
        """
        return self.plan(updates, stats=stats)()

    def plan(self, updates: int = 1, *, stats: bool = False) -> Callable[[], LearnStats | None]:
        """Reads what is live now, and returns the `learn` that goes by it, for any thread."""
        if updates < 1:
            raise ValueError(f"updates must be a whole number >= 1, got {updates}")
        self._acting.flush()
        if not self._can_learn:
            self._require_rows()
        before = self.freeze.position
        live, phases = self._live.values(), tuple(self._phases(updates))
        period = self.hyperparameters["sync_period"]
        if self._clock.now is None:
            self._clock.now = self.target_age

        def learn() -> LearnStats | None:
            result, first = None, self.updates
            try:
                for exempt, count in phases:
                    result = self._calls.run(exempt, count, live, stats, period)
                    self.updates += count
            except NotFinite as error:
                self.updates = int(self.engine.run(self._update.count))
                self._went_by(before, self.updates - first)
                raise self._diverged(error.signs, live) from None
            return result

        return learn

    def run_chunk(self, counts: Counts, time_steps: int) -> Chunk:
        """Makes time steps and updates as `training_loop` would, in one call; with `rules` only.

        Args:
          counts: where the loop is.
          time_steps: how many to make, unless the last env step comes before.

        Raises:
          Diverged: an update was not made, and nothing after it; see `learn`.
        """
        live, fed = self.hyperparameters, self._live.values()
        follow = live.source("exempt") != "override"
        exempt = self.freeze.exempt if follow else live["exempt"]
        for arm in range(len(self.config.freeze)):
            self.freeze.set_length(arm, live[arm_name(arm)])
        assert self.device_loop is not None
        self._moments.to_loops()
        chunk = self.device_loop.run(
            *counts,
            np.int64(time_steps),
            np.array(self.freeze.position, np.int64),
            np.array([arm.updates for arm in self.freeze.arms], np.int64),
            np.bool_(follow),
            np.array([name not in exempt for name in self._ops.names]),
            np.float32(live["epsilon"]),
            np.float32(live["temperature"] if self.config.boltzmann else 1.0),
            np.int64(live["learn_period"]),
            np.int64(live["updates_per_learn"]),
            *fed,
        )
        self.updates, self._clock.now = int(chunk.updates), None
        arm, done = chunk.arm.tolist()
        self.freeze.position = arm, done
        if not np.isfinite(chunk.signs).all():
            raise DivergedInChunk(str(self._diverged(chunk.signs, fed)), chunk)
        return chunk

    def sync(self) -> None:
        """Copies online to target at once; the target's age is 0 then."""
        self._sync_now()
        self._clock.now = 0

    def inspect(self) -> Inspection:
        """What the graph knows and the loop does not need."""
        return Inspection(*(value.item() for value in self._inspect()))

    @property
    def target_age(self) -> int:
        """Updates since the target was copied."""
        return self.inspect().target_age if self._clock.now is None else self._clock.now

    @property
    def not_compiled(self) -> str | None:
        """Why plain operations learn although the config says `xla`; None if they do not."""
        return self._calls.not_compiled

    def rows(self) -> int:
        """How many transitions may be sampled."""
        self._acting.flush()
        return int(self._rows())

    def close(self) -> None:
        self.engine.close()

    # The graph.

    def _build_learn(self) -> None:
        config, networks = self.config, self._networks
        self._clock = TargetClock(
            self._live["sync_period"], lambda: networks.sync(self._live["tau"])
        )
        self._update = Update(config, self._live, networks, self.replay, self._clock)
        self._weights = ScopeWeights(self.engine, networks.online)
        self._averaged = ScopeWeights(self.engine, networks.ema) if networks.ema else None

        def single(loss: tf.Tensor) -> Applied:
            rate = self._live["learning_rate"]
            self._ops = ApplyOps(
                loss,
                blocks_of(networks.online),
                lambda: Adam(rate, epsilon=config.adam_epsilon),
                max_grad_norm=self._live["max_grad_norm"],
                learning_rate=rate,
            )
            return Applied(self._ops.signs, None, None, self._ops.done)

        alone = self._update.alone(single)
        self._learned = alone.learned
        self._moments = LoopMoments(self.engine, self._ops)
        arms = [Arm(self._ops.check(arm.exempt), arm.updates) for arm in config.freeze]
        self.freeze = FreezeSchedule(arms) if arms else FreezeSchedule.constant()
        # Compiled calls are for what the config says will be used; with any other exempt set plain
        # operations learn. So do networks of whole frames, whose convolutions are faster so, and
        # phases of one update where operations share their work between threads.
        more_than_one = config.updates_per_learn != 1 or config.num_envs > 1
        one_too = config.xla and config.threads == 1
        used = config.network not in _OF_FRAMES and (more_than_one or one_too)
        count = tf.placeholder(tf.int32, [], "updates") if more_than_one else None
        fused_arms = {arm.exempt for arm in self.freeze.arms if used}
        fused = {exempt: self._build_fused(exempt, count) for exempt in fused_arms}
        self._calls = PhaseCalls(
            self.engine, self._ops, self._moments, alone.end, self._update.young_end,
            self._learned.stats(), fused, 1 if one_too else 2, self._live.tensors, self._clock,
        )  # fmt: skip

        self._sync_op = self._clock.copied_by(networks.sync())
        self._begin_op = self._clock.copied_by(networks.all_as_online())
        head, tail = self.replay.rows.queue()
        pairs = paired_variables(networks.online, networks.target)
        self._state = Inspection(
            self._clock.age.read_value(),
            tf.global_norm([of.read_value() - to.read_value() for of, to in pairs]),
        )
        self._in_queue = tail - head

    def _build_device_loop(self, rules: InGraphEnv | None) -> DeviceLoop | None:
        if rules is None:
            return None

        adam = LoopAdam(self._moments, self._ops.names)
        return DeviceLoop(
            self.config, rules, self._networks.values, self._acting, self.replay, adam,
            self._update, self._learned, self._live.tensors, self._ops.names, self.freeze,
        )  # fmt: skip

    def _build_fused(self, exempt: Exempt, count: tf.Tensor | None) -> Fused:
        adam = LoopAdam(self._moments, [name for name in self._ops.names if name not in exempt])
        last = fused_updates(
            lambda moments: self._update.in_loop(adam, moments),
            count,
            self._learned,
            adam,
            compiled=self.config.xla,
        )
        learned = Learned(*last)
        return Fused(learned.stats(), checked(learned.signs).op, count)

    # The session.

    def _begin_with_online(self) -> None:
        self.engine.callable(None, targets=[self._begin_op])()
        self._clock.now = 0

    def _diverged(self, signs: np.ndarray, live: Sequence[np.ndarray]) -> Diverged:
        rate = self._live.among(live)["learning_rate"]
        return diverged(signs.tolist(), self.updates, rate, self.config)

    def _went_by(self, position: tuple[int, int], updates: int) -> None:
        """Sets the freeze schedule to where it is so many updates after `position`."""
        self.freeze.position = position
        tuple(self._phases(updates))

    def _phases(self, updates: int) -> Iterator[tuple[Exempt, int]]:
        live = self.hyperparameters
        if live.source("exempt") == "override":
            return iter([(live["exempt"], updates)])
        for arm in range(len(self.config.freeze)):
            self.freeze.set_length(arm, live[arm_name(arm)])
        return self.freeze.phases(updates)

    def _require_rows(self) -> None:
        if self.rows() == 0:
            raise RlCoreError("nothing to learn from: no transition is in the replay yet")
        self._can_learn = True  # a ring of three time steps or more never runs empty again
