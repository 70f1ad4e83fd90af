"""The DQN agent: one graph in which acting, storing, learning and syncing happen.

    step   writes what the envs showed into the replay and returns the actions (`acting`)
    learn  makes K updates: sample, TD loss, gradients of the trained blocks, sync by target age
           (`learner`)

Every number that may change is a feed; everything with state is a variable. `AgentGraph` puts
together what is built in modules of its own; `Parts` is what one agent has of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.live_values import live_knobs, live_values
from targetnet.agents.config.members import built_otherwise
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.acting import ActingCalls, Actor, RecurrentState
from targetnet.agents.dqn.compiled import ChunkRunner, InGraphLoop
from targetnet.agents.dqn.learner import Learner, freeze_schedule
from targetnet.agents.dqn.live_feeds import LiveFeeds, OwnFeeds
from targetnet.agents.dqn.memory import build_memory
from targetnet.agents.dqn.memory_estimate import require_memory
from targetnet.agents.dqn.network import torsos
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.normalizer import Normalizer, require_numbers
from targetnet.agents.dqn.objective import require_branching
from targetnet.agents.dqn.policy import KNOBS, Exploration, GreedyPolicy
from targetnet.agents.dqn.state import AgentState, QValues
from targetnet.agents.dqn.target import Inspection
from targetnet.agents.dqn.update import LearnStats
from targetnet.agents.dqn.update_batching import (
    BatchClient,
    BatchedUpdateGraph,
    BatchedUpdates,
    can_batch,
)
from targetnet.agents.dqn.weight_resets import WeightResets
from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.rl_core.errors import ConfigError, RlCoreError
from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.members import ActiveMember, MemberHandle, MemberRebinder
from targetnet.rl_core.graph.scopes import MemberPart, Root, root_scope
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.networks import ObservationForm
from targetnet.rl_core.observation_parts import Part
from targetnet.rl_core.random import Keys
from targetnet.rl_core.replay import Rows

# Live values of the loop, the curves and the choice of an action; updates are fed all others.
_NOT_OF_UPDATES = (*KNOBS, "learn_period", "updates_per_learn", "histograms")


@dataclass
class Parts(MemberPart):
    """An agent's own parts: live values, and what Python knows around the calls of the graph.

    Attributes:
      engine: of its calls.
      hyperparameters: the live values; live: as updates are fed them; own: the user's own.
      rows: gives the number of transitions that may be sampled.
      set_keys: sets the keys of the random numbers.
      acting, learner, chunks, weight_resets, state, q_values: as `DqnAgent` has them.
    """

    engine: Engine
    hyperparameters: Hyperparameters
    live: LiveFeeds
    own: OwnFeeds
    learner: Learner
    acting: Actor
    chunks: ChunkRunner | None
    state: AgentState
    q_values: QValues
    weight_resets: WeightResets
    rows: Call
    set_keys: Call


class AgentGraph:
    """Builds everything that an agent has in the graph, and the first agent's parts on it.

    Args:
      engine, config, num_actions, rules: of the agent.
      root: under which it is built.
      observations: [M, ...] placeholder; legal: [M, A] bool placeholder, with action masks.
      observed: the form of observations.
      branches: sizes of the branches of an action, [D]; (): it has none.

    Raises:
      ConfigError: the config cannot learn branches, or its own network cannot be used.

    Attributes:
      num_actions: A.
      memory, networks: the replay and the networks.
      parts: of the agent.
      batched: makes updates of several members in one call; None where nobody could, or would
        gain.
      copy_learned: copies what one member has learned to another one, in the graph; they are ready
        for it (`targetnet.agents.dqn.state`). None without members.
    """

    def __init__(
        self,
        engine: Engine,
        root: Root,
        config: DqnConfig,
        num_actions: int,
        observations: tf.Tensor,
        legal: tf.Tensor | None,
        observed: ObservationForm,
        rules: InGraphEnv | None,
        branches: Sequence[int] = (),
    ) -> None:
        self._config, self.num_actions, self._masks = config, num_actions, legal is not None
        require_numbers(config, observed, observations.dtype)
        require_branching(config, branches)
        branches = tuple(branches)
        self._keys = keys = Keys(config.seed)
        live = LiveFeeds(k for k in live_knobs(config) if k.name not in _NOT_OF_UPDATES)
        self.memory = memory = build_memory(config, live, observations, legal, branches)
        own = OwnFeeds(config)
        self.networks = networks = Networks(
            config, num_actions, observations, own, observed, branches
        )
        learner = Learner(engine, config, keys, live, networks, memory)
        hyperparameters = live_values(config, learner.freeze, learner.ops)
        live.start(hyperparameters)
        own.start(hyperparameters)
        self._exploration = exploration = Exploration(config, keys, num_actions, branches)
        remembering = RecurrentState(networks, config.num_envs)
        normalizer = Normalizer(
            config, networks.online, torsos(config), observed, config.stored_stack
        )
        self._calls = ActingCalls(
            engine, networks, memory, exploration, remembering, normalizer, own, legal
        )
        acting = self._acting(self._calls, config, hyperparameters, own)
        chunks: ChunkRunner | None = None
        if rules is not None:
            loop = InGraphLoop(
                config, keys, live, remembering, normalizer, exploration, memory, learner, rules
            )
            chunks = ChunkRunner(engine, loop, learner, live, hyperparameters)
        rows = engine.callable(memory.rows.count())
        state = AgentState(
            engine, config, root, keys, networks, memory, acting, learner, hyperparameters,
            [remembering, *([] if chunks is None else [chunks.envs])],
        )  # fmt: skip
        q_values = QValues(engine, networks, own, state)
        weight_resets = WeightResets(engine, config, root, networks, learner, own, state)
        set_keys = engine.callable(None, [keys.fed], keys.assign)
        first = [v.initializer for v in tf.global_variables() if v.op.name.startswith(root.prefix)]
        self._set_first_values = engine.callable(None, [root.seed], first)
        self.parts = Parts(
            engine,
            hyperparameters,
            live,
            own,
            learner,
            acting,
            chunks,
            state,
            q_values,
            weight_resets,
            rows,
            set_keys,
        )
        self._active: ActiveMember | None = None
        self.batched: BatchedUpdates | None = None
        if root.members is not None and can_batch(config, exploration, self._masks):
            of_all = BatchedUpdateGraph(engine, root, networks, memory, learner, live, own)
            self._active, self.batched = of_all.active, BatchedUpdates(of_all)
        elif root.members is not None:
            self._active = ActiveMember(engine, root)
        self.copy_learned: Callable[[int, int], None] | None = None
        if self._active is not None:
            self.copy_learned = self._active.copies(state.learned_variables)

    def begin(self, parts: Parts) -> None:
        """Sets what initializers cannot: the envs in the graph, and the known age."""
        if parts.chunks is not None:
            parts.chunks.begin()
        parts.learner.clock.set_age(0)

    def parts_of(self, member: int, config: DqnConfig, batched: BatchedUpdates | None) -> Parts:
        """Returns the parts of a member that begins, once the engine is started.

        Args:
          batched: `self.batched` if it makes updates with those of other members; None: singly.
        """
        assert self._active is not None
        handle = MemberHandle(self._active, member)
        client = None if batched is None else BatchClient(batched, member)
        if client is not None:
            handle.first = client.flush
        parts = self._new_parts(config, handle, client)
        parts.learner.share_calls(client)
        handle.begin(config.seed)
        return self._begun(parts, config)

    def parts_again(self, config: DqnConfig) -> Parts:
        """Returns parts that begin again; see `DqnAgent.reset`."""
        if self._active is not None:
            raise RlCoreError("a member of a population cannot be reset: build the population anew")
        if self.parts.weight_resets.draws_apart:
            raise RlCoreError(
                f"network {config.network!r} draws first weights by TensorFlow's own initializers, "
                "which would go on with their random numbers: build the agent anew"
            )
        key = built_otherwise(self._config, config)
        if key is not None:
            before, after = (getattr(of, key) for of in (self._config, config))
            raise ConfigError(
                f"a reset may change the seed and live values, not {key}: {before!r} is to be "
                f"{after!r}"
            )
        parts = self._new_parts(config)
        self._set_first_values(np.int64(config.seed))
        return self._begun(parts, config)

    def _new_parts(
        self,
        config: DqnConfig,
        member: MemberHandle | None = None,
        client: BatchClient | None = None,
    ) -> Parts:
        of, live, own = self.parts, copy.copy(self.parts.live), copy.copy(self.parts.own)
        freeze = freeze_schedule(config, of.learner.ops)
        hyperparameters = live_values(config, freeze, of.learner.ops)
        live.start(hyperparameters)
        own.start(hyperparameters)
        firsts = self._config, of.hyperparameters, of.live, of.own, of.learner.freeze
        rebind = MemberRebinder(
            zip(firsts, (config, hyperparameters, live, own, freeze), strict=True), member
        )
        calls = rebind(self._calls)
        if client is not None:
            calls.greedy = client.greedy(own)
        rebind.put(of.acting, self._acting(calls, config, hyperparameters, own, client))
        return rebind(of)

    def _begun(self, parts: Parts, config: DqnConfig) -> Parts:
        parts.set_keys(self._keys.values(config.seed))
        self.begin(parts)
        return parts

    def _acting(
        self,
        calls: ActingCalls,
        config: DqnConfig,
        hyperparameters: Hyperparameters,
        own: OwnFeeds,
        client: BatchClient | None = None,
    ) -> Actor:
        rows, exploration = self.memory, self._exploration
        return Actor(calls, config, rows, exploration, hyperparameters, own, self._masks, client)


class DqnAgent:
    """Deep Q-learning, Mnih et al. (2015), https://doi.org/10.1038/nature14236, and its family.

        agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
        actions = agent.step(observation, reward, terminated, autoreset)
        stats = agent.learn(4)

    Several agents may share one engine, each under a scope. Results are bit-identical to training
    alone, if all layers come from rl_core.

    Args:
      config: one run.
      observation_shape, observation_dtype, num_actions: of one env.
      action_masks: whether the envs say which actions are legal.
      rules: of the env in the graph, for the compiled loop.
      byte_bounds, parts, branches: as `Envs` has them; without bounds uint8 is divided by 255.
      engine: one that has not started; whoever made it starts it. None makes and starts one.
      scope: variable scope of everything that is the agent's own; empty opens none.
      members: how many agents take turns on the graph; see `targetnet.agents.dqn.population`.

    Attributes:
      hyperparameters: the live values; read and set them by name.
      state: weights, snapshots, digest; reads and restores all of it.
      q_values: action values of one input now, by the target, and at earlier snapshots.
      weight_resets: draws weights anew, shrinks and perturbs them, recycles dormant units.
      engine, replay: graph and session, and the replay memory, for looking inside.
      networks, acting, learner: the parts, with everything that the methods here leave out.
      chunks: makes many time steps in one call; None without `rules`.
      batched: makes updates of several members on its graph in one call; None: nobody does.
      copy_learned: copies between members on its graph, see `Population.copy`; None without any.
      takes_turns: whether it is one of several members on its graph: only one thread may call it.

    Raises:
      ConfigError: the config's own network cannot be used, or it cannot learn branches.
      ShapeError: the network does not fit the observations.
      MemoryLimitError: it would need more memory than there is.
    """

    takes_turns = False

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
        parts: Sequence[Part] = (),
        branches: Sequence[int] = (),
        engine: Engine | None = None,
        scope: str = "",
        members: int | None = None,
    ) -> None:
        seen = observation_shape, observation_dtype, num_actions
        require_memory(config, *seen, members, packed=bool(parts), branches=branches)
        self.engine = engine or Engine(threads=config.threads, onednn=config.onednn)
        with self.engine.building(), root_scope(scope, config.seed, members) as root:
            # For layers of the user's own that draw by TensorFlow's op seeds.
            tf.set_random_seed(config.seed)
            shape, dtype = [None, *observation_shape], tf.as_dtype(observation_dtype)
            observations = tf.placeholder(dtype, shape, "observations")
            legal = _legal_actions(num_actions) if action_masks else None
            graph = AgentGraph(
                self.engine, root, config, num_actions, observations, legal,
                ObservationForm.of(byte_bounds, parts), rules, branches,
            )  # fmt: skip
        self.engine.at_start(lambda: graph.begin(self._parts))
        self._use(graph, graph.parts, config)
        if engine is None:
            self.engine.start()

    def _use(self, graph: AgentGraph, parts: Parts, config: DqnConfig) -> None:
        self.config, self.num_actions, self._can_learn = config, graph.num_actions, False
        self._graph, self._parts, self.engine = graph, parts, parts.engine
        self.replay, self.networks, self.batched = graph.memory, graph.networks, graph.batched
        self.copy_learned, self.weight_resets = graph.copy_learned, parts.weight_resets
        self.acting: Actor = parts.acting
        self.learner, self.chunks = parts.learner, parts.chunks
        self.hyperparameters = parts.hyperparameters
        self.state, self.q_values = parts.state, parts.q_values

    def reset(self, config: DqnConfig | None = None) -> None:
        """Makes this the agent that would be built for a config, bit for bit, in the same graph.

        Weights, optimizers, replay, snapshots, counters and live values begin again; graph and
        calls stay. Parts, such as `hyperparameters`, are new: take them from the agent again.

        Args:
          config: with another seed and other live values; None: the same.

        Raises ConfigError or RlCoreError: that needs another graph; or it is a member of a
        population, or its own network draws first weights by TensorFlow's initializers.
        """
        config = config or self.config
        self._use(self._graph, self._graph.parts_again(config), config)

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

        Returns [N] int32 actions, or [N, D] with branches.
        """
        return self.acting.step(observation, reward, terminated, autoreset, epsilon, legal)

    def act(self, observation: np.ndarray, time_step: int, *more: np.ndarray | None) -> Rows:
        """Chooses by the network as it was when `follow` was last called; see `Actor.act`.

        May run in one thread while updates are made in another. Only with loop = "concurrent".
        """
        return self.acting.act(observation, time_step, *more)

    def follow(self) -> None:
        """Gives `act` the present weights."""
        self.acting.follow()

    def store(self, rows: Rows) -> None:
        """Appends several time steps, arrays [P, N, ...], each as `step` would have stored it.

        Raises ArgumentError or BoundsError: a column is missing, or there are too many at once.
        """
        self.acting.store(rows)

    @property
    def greedy(self) -> GreedyPolicy:
        """[M, ...] observations, [M, A] masks -> [M] or [M, D] int32 actions; nothing is stored.

        With a memory each observation is an episode's first; `greedy.playing(M)` remembers.
        """
        return self.acting.greedy

    # What the loop calls.

    def learn(self, updates: int = 1, *, stats: bool = False) -> LearnStats | None:
        """Makes `updates` gradient steps, and syncs the target whenever it is old enough.

        The phase is cut where a freeze arm ends. Returns the last update's statistics if asked.

        Raises Diverged: the loss or the gradient norm of an update is not finite. That update and
        those after it were not made: everything is as after the update before.
        """
        return self.plan(updates, stats=stats)()

    def plan(self, updates: int = 1, *, stats: bool = False) -> Callable[[], LearnStats | None]:
        """Reads what is live now, and returns the `learn` that goes by it, for any thread."""
        self.acting.flush()
        if not self._can_learn:
            T = self.config.rollout
            if T and self.state.contents.written() <= T:
                raise RlCoreError(
                    f"nothing to learn from: a rollout of {T} time steps is not there yet"
                )
            if self.rows() == 0:
                raise RlCoreError("nothing to learn from: no transition is in the replay yet")
            self._can_learn = True  # a ring of three time steps or more never runs empty again
        return self.learner.plan(self.hyperparameters, updates, stats=stats)

    def sync(self) -> None:
        """Makes a full copy of online to target, whatever `tau` is; the target's age is 0 then.

        Raises RlCoreError: there is no target network, because the agent learns from rollouts.
        """
        self.learner.sync(self.hyperparameters.env_step)

    def inspect(self) -> Inspection:
        """Reads what the graph knows and the loop does not need."""
        return self.learner.inspect()

    @property
    def updates(self) -> int:
        """Gradient steps made so far."""
        return self.learner.updates

    def rows(self) -> int:
        """Returns the number of transitions that may be sampled."""
        self.acting.flush()
        return int(self._parts.rows())

    def close(self) -> None:
        """Closes the engine and with it the session."""
        self.engine.close()


def _legal_actions(num_actions: int) -> tf.Tensor:
    return tf.placeholder(tf.bool, [None, num_actions], "legal_actions")
