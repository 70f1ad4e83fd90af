"""The parts of an agent: what is in the graph, and what each agent on that graph has of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from targetnet.agents.config.live_values import live_knobs, live_values
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.acting_calls import ActingCalls
from targetnet.agents.dqn.actor import Actor
from targetnet.agents.dqn.batched_update_graph import BatchedUpdateGraph, can_join
from targetnet.agents.dqn.branching import require_branching
from targetnet.agents.dqn.chunk_runner import ChunkRunner
from targetnet.agents.dqn.in_graph_loop import InGraphLoop
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import LiveFeeds, OwnFeeds
from targetnet.agents.dqn.memory import build_memory
from targetnet.agents.dqn.network_parts import torsos
from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.normalizer import Normalizer, require_numbers
from targetnet.agents.dqn.policy import KNOBS, Exploration
from targetnet.agents.dqn.q_values import QValues
from targetnet.agents.dqn.recurrent_state import RecurrentState
from targetnet.agents.dqn.state import AgentState
from targetnet.agents.dqn.update_batching import BatchClient, BatchedUpdates
from targetnet.agents.dqn.weight_resets import WeightResets
from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.members import ActiveMember, MemberHandle
from targetnet.rl_core.graph.scopes import Root
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.networks import ObservationForm
from targetnet.rl_core.random import Keys

# Live values of the loop, the curves and the choice of an action; updates are fed all others.
_NOT_OF_UPDATES = (*KNOBS, "learn_period", "updates_per_learn", "histograms")


@dataclass
class Parts:
    """An agent's own parts: live values, and what Python knows around the calls of the graph.

    Attributes:
      engine: of its calls.
      values: the live values; live: as updates are fed them; own: the user's own.
      rows: gives the number of transitions that may be sampled.
      set_keys: sets the keys of the random numbers.
      acting, learner, chunks, renewal, state, q_values: as `DqnAgent` has them.
    """

    engine: Engine
    values: Hyperparameters
    live: LiveFeeds
    own: OwnFeeds
    learner: Learner
    acting: Actor
    chunks: ChunkRunner | None
    state: AgentState
    q_values: QValues
    renewal: WeightResets
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
      joint: makes updates of several members together; None where nobody could, or would gain.
      copy_learned: copies what one member has learned to another one, in the graph; they are ready
        for it (`targetnet.agents.dqn.learned_state`). None without members.
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
        self.num_actions, self._masks = num_actions, legal is not None
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
        values = live_values(config, learner.freeze, learner.ops)
        live.start(values)
        own.start(values)
        self._exploration = exploration = Exploration(config, keys, num_actions, branches)
        remembering = RecurrentState(networks, config.num_envs)
        normalizer = Normalizer(
            config, networks.online, torsos(config), observed, config.stored_stack
        )
        self._calls = ActingCalls(
            engine, networks, memory, exploration, remembering, normalizer, own, legal
        )
        acting = self._acting(self._calls, config, values, own)
        chunks: ChunkRunner | None = None
        if rules is not None:
            loop = InGraphLoop(
                config, keys, live, remembering, normalizer, exploration, memory, learner, rules
            )
            chunks = ChunkRunner(engine, loop, learner, live, values)
        rows = engine.callable(memory.rows.count())
        state = AgentState(
            engine, config, root, keys, networks, memory, acting, learner, values,
            [remembering, *([] if chunks is None else [chunks.envs])],
        )  # fmt: skip
        q_values = QValues(engine, networks, own, state)
        renewal = WeightResets(engine, config, root, networks, learner, own, state)
        set_keys = engine.callable(None, [keys.fed], keys.assign)
        self.parts = Parts(
            engine,
            values,
            live,
            own,
            learner,
            acting,
            chunks,
            state,
            q_values,
            renewal,
            rows,
            set_keys,
        )
        self._active: ActiveMember | None = None
        self.joint: BatchedUpdates | None = None
        if root.members is not None and can_join(config, exploration, self._masks):
            of_all = BatchedUpdateGraph(engine, root, networks, memory, learner, live, own)
            self._active, self.joint = of_all.active, BatchedUpdates(of_all)
        elif root.members is not None:
            self._active = ActiveMember(engine, root)
        self.copy_learned: Callable[[int, int], None] | None = None
        if self._active is not None:
            self.copy_learned = self._active.copies(state.learned_variables)

    def begin(self, parts: Parts) -> None:
        """Sets what initializers cannot: the envs in the graph, and the known age."""
        if parts.chunks is not None:
            parts.chunks.begin()
        parts.learner.clock.know(0)

    def parts_of(self, member: int, config: DqnConfig, joint: BatchedUpdates | None) -> Parts:
        """Returns the parts of a member that begins, once the engine is started.

        Args:
          joint: `self.joint` if it makes updates with those of other members; None: alone.
        """
        assert self._active is not None
        of, place = self.parts, MemberHandle(self._active, member)
        joined = None if joint is None else BatchClient(joint, member)
        if joined is not None:
            place.first = joined.flush
        # Copies: the tensors are those of all members, and each has values of its own.
        live, own = copy.copy(of.live), copy.copy(of.own)
        learner = of.learner.of_member(place, config, live, joined)
        values = live_values(config, learner.freeze, learner.ops)
        live.start(values)
        own.start(values)
        calls = self._calls.of_member(place, own)
        if joined is not None:
            calls.greedy = joined.greedy(own)
        acting = self._acting(calls, config, values, own, joined)
        state = of.state.of_member(place, config, acting, learner, values)
        chunks = of.chunks and of.chunks.of_member(place, config, learner, live, values)
        parts = place.copy(
            of, values=values, live=live, own=own, learner=learner, acting=acting, state=state,
            chunks=chunks, q_values=of.q_values.of_member(place, own, state),
            renewal=of.renewal.of_member(place, config, learner, own, state),
        )  # fmt: skip
        place.begin(config.seed)
        parts.set_keys(self._keys.values(config.seed))
        self.begin(parts)
        return parts

    def _acting(
        self,
        calls: ActingCalls,
        config: DqnConfig,
        values: Hyperparameters,
        own: OwnFeeds,
        joined: BatchClient | None = None,
    ) -> Actor:
        rows, exploration = self.memory, self._exploration
        return Actor(calls, config, rows, exploration, values, own, self._masks, joined)
