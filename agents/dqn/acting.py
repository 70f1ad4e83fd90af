"""Acting of one agent: chooses actions, stores what envs showed, and remembers recurrent states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.normalizer import Normalizer
from targetnet.agents.dqn.policy import Exploration, GreedyPolicy, Policy
from targetnet.agents.dqn.update_batching import BatchClient
from targetnet.rl_core.errors import ArgumentError, BoundsError, RlCoreError
from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.feeds import feed_check
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.networks import STATELESS, Conditions, State, Values
from targetnet.rl_core.replay import STATE, ReplayMemory, Rows, newest_frame


class RecurrentState:
    """The recurrent state of N envs, in a variable; of a network without memory nothing.

    Make it while the graph is being built.

    Args:
      networks: of the agent.
      num_envs: N.
    """

    def __init__(self, networks: Networks, num_envs: int) -> None:
        self._networks = networks
        self._state: tf.Variable | None = None
        if networks.recurrent is not None:
            with tf.variable_scope("acting"):
                self._state = tf.get_variable(
                    STATE, [num_envs, networks.recurrent.state_size], tf.float32,
                    tf.zeros_initializer(), trainable=False,
                )  # fmt: skip

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for the variable."""
        return variable is self._state

    def act(
        self,
        observation: tf.Tensor,
        autoreset: tf.Tensor | None,
        conditions: Conditions,
        *,
        apart: bool = False,
    ) -> tuple[list[Values], Rows, list[tf.Operation]]:
        """Asks the network that acts for its values, and remembers what it saw.

        Args:
          observation: [N, ...].
          autoreset: [N] bool: where an episode begins, with nothing to remember. None: no memory.
          apart: as for `Networks.acting`.

        Returns:
          Its values, the columns of the replay that belong to the time step, and what keeps the
          state for the next one.
        """
        before: State = STATELESS
        if self._state is not None:
            assert autoreset is not None
            before = tf.where_v2(autoreset[:, None], 0.0, self._state.read_value())
        values, after = self._networks.acting(observation, before, conditions, apart=apart)
        if self._state is None:
            return values, {}, []
        return values, {STATE: before}, [self._state.assign(after, read_value=False)]


_NAMES = ("observation", "action", "reward", "terminated", "autoreset", "legal")


class RowBuffer:
    """Time steps of N envs that wait to be stored together.

    Attributes:
      count: time steps that wait.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self._kept: list[bytes] = []  # column by column, time step after time step

    def put(
        self,
        observation: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        legal: np.ndarray | None = None,
        more: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> None:
        """Adds one time step: columns [N, ...], each with the dtype and shape of the first.

        Args:
          more: columns that not every replay has.
        """
        # Copies: the envs write the next step into the same arrays. Each column by its name: a
        # loop over them takes three times as long.
        self._kept += (
            observation.tobytes(), action.tobytes(), reward.tobytes(), terminated.tobytes(),
            autoreset.tobytes(),
        )  # fmt: skip
        if legal is not None:
            self._kept.append(legal.tobytes())
        for column in more.values():
            self._kept.append(column.tobytes())
        self._last, self._more = (observation, action, reward, terminated, autoreset, legal), more
        self.count += 1

    def rows(self) -> Rows:
        """Returns all that wait, [count, N, ...]."""
        last = {name: c for name, c in zip(_NAMES, self._last, strict=True) if c is not None}
        last |= self._more
        return {
            name: np.frombuffer(b"".join(self._kept[i :: len(last)]), column.dtype).reshape(
                self.count, *column.shape
            )
            for i, (name, column) in enumerate(last.items())
        }


class ActingCalls(MemberPart):
    """Builds the calls. Make it while the graph is being built.

    Args:
      engine, networks, memory: of the agent.
      exploration: chooses the actions.
      remembering: asks the network that acts.
      normalizer: takes in what is stored.
      own: feeds the user's own live values to the networks.
      legal: [M, A] bool placeholder of the greedy policies; None if the envs have no action masks.

    Attributes:
      greedy: the greedy policy.
      greedy_averaged: the same with the averaged weights; None if the config keeps none.
      acts_apart: whether there is a network that acts in a concurrent loop.
      greedy_apart: the same with the network that acts in a concurrent loop; not in others, nor if
        it remembers.
      step: stores a time step and chooses on it; check_shown: checks what it is fed first.
      store: stores many time steps, most_at_once at most; columns: in the order in which it is
        fed them.
      time_step: how many were stored.
      act: chooses by the network of a concurrent loop; follow: gives it the present weights.
      drawn: operations that store a time step and act on it, for a picture of the graph.
    """

    greedy_averaged: GreedyPolicy | None = None
    greedy_apart: GreedyPolicy
    act: Call
    follow: Call

    def __init__(
        self,
        engine: Engine,
        networks: Networks,
        memory: ReplayMemory,
        exploration: Exploration,
        remembering: RecurrentState,
        normalizer: Normalizer,
        own: OwnFeeds,
        legal: tf.Tensor | None,
    ) -> None:
        self._exploration, self._networks, self._own = exploration, networks, own
        self._remembering, self._normalizer = remembering, normalizer
        self._num_envs, self.most_at_once = memory.rows.num_envs, memory.rows.most_at_once
        self.acts_apart = bool(networks.behaviour)
        self._build_step(engine, memory)
        self._build_store(engine, memory, exploration.gives_priorities)
        if self.acts_apart:
            self._build_apart(engine)
        shown = networks.observations, legal, own, networks.branches
        state = networks.state
        self.greedy = GreedyPolicy(
            engine, networks.greedy, *shown, state=state, after=networks.after
        )
        if networks.greedy_ema is not None:
            self.greedy_averaged = GreedyPolicy(
                engine, networks.greedy_ema, *shown, state=state, after=networks.after_ema
            )

    def _build_step(self, engine: Engine, memory: ReplayMemory) -> None:
        """Builds the call that stores a time step and acts on it."""
        shown, stack = memory.placeholders([self._num_envs]), memory.rows.stack
        self._observation, self._legal = shown["observation"], shown.get("legal")
        if stack > 1:
            whole = self._networks.observations
            shape = [self._num_envs, *whole.shape.as_list()[1:]]
            self._observation = tf.placeholder(whole.dtype, shape, "observation")
            shown["observation"] = newest_frame(self._observation, stack)
        knobs, now = self._exploration.fed(), memory.rows.rows_written.read_value()
        chosen, kept = self._choice(shown["autoreset"], now, knobs)
        first = [self._observation, *(shown[n] for n in ("reward", "terminated", "autoreset"))]
        self.check_shown = feed_check(first)
        feeds = [*first, *knobs.values(), *self._more_feeds()]
        write = memory.write(shown | chosen, now)
        # After the network has acted: it is set anew.
        with tf.control_dependencies([*chosen.values(), *kept]):
            kept += self._normalizer.see(shown["observation"])
        self.step = engine.callable(chosen["action"], feeds, [write, *kept])
        self.drawn = [chosen["action"].op, write, *kept]

    def _build_store(self, engine: Engine, memory: ReplayMemory, priorities: bool) -> None:
        """Builds the call that stores many time steps that were acted on before."""
        lead = [None, self._num_envs]
        rows, priority = memory.placeholders(lead), {}
        if priorities:
            priority["priority"] = tf.placeholder(tf.float32, lead, "priority")
        write = memory.write_steps(rows, priority.get("priority"))
        seen = self._normalizer.see(rows["observation"])
        self.columns = (*rows, *priority)
        self.store = engine.callable(None, [*rows.values(), *priority.values()], [write, *seen])
        self.time_step = engine.callable(memory.rows.rows_written.read_value())

    def _build_apart(self, engine: Engine) -> None:
        """Builds the calls that act with a copy of the network."""
        knobs, now = self._exploration.fed(), tf.placeholder(tf.int64, [1], "time_step")
        feeds = [self._observation, *knobs.values(), *self._more_feeds(), now]
        begins: tf.Tensor | None = None
        if self._networks.recurrent is not None:
            begins = tf.placeholder(tf.bool, [self._num_envs], "autoreset")
            feeds.append(begins)
        chosen, kept = self._choice(begins, now, knobs, apart=True)
        columns = [chosen[name] for name in self._exploration.columns]
        self.act = engine.callable(columns, feeds, kept)
        if begins is None:
            plain = Conditions(live=self._own.tensors)
            (greedy, *_), _ = self._networks.acting(self._observation, STATELESS, plain, apart=True)
            self.greedy_apart = GreedyPolicy(
                engine, greedy, self._observation, None, self._own, self._networks.branches
            )
        self.follow = engine.callable(None, targets=[self._networks.behave_as_online()])

    def _choice(
        self,
        autoreset: tf.Tensor | None,
        now: tf.Tensor,
        knobs: Mapping[str, tf.Tensor],
        *,
        apart: bool = False,
    ) -> tuple[Rows, list[tf.Operation]]:
        """The columns that acting fills, and what remembers the time step."""
        exploration, conditions = self._exploration, Conditions(live=self._own.tensors)
        conditions = conditions._replace(draws=exploration.draws(now))
        values, more, kept = self._remembering.act(
            self._observation, autoreset, conditions, apart=apart
        )
        return exploration.of_fed(values, self._legal, now, knobs) | more, kept

    def _more_feeds(self) -> list[tf.Tensor]:
        masks = [] if self._legal is None else [self._legal]
        return [*self._own.tensors.values(), *masks]


# Time steps that may wait to be stored, their bytes, and how many make the wait worth it.
_WAITING_AT_MOST = 64
_WAITING_BYTES = 1 << 22
_WORTH_WAITING = 3


class Actor:
    """One agent's acting: the calls into the graph, and what Python knows around them.

    Args:
      calls: of the graph.
      config: of the agent.
      memory: where the time steps go.
      exploration: chooses the actions.
      live: epsilon and temperature are read there.
      own: the user's own live values.
      masks: whether the envs say which actions are legal.
      client: stores single time steps with those of other members; None: alone.

    Attributes:
      greedy: the greedy policy.
      greedy_averaged: the same with the averaged weights; None if the config keeps none.
      drawn: operations that store a time step and act on it, for a picture of the graph.
      time_step: how many there were; None if the graph has to be asked.
    """

    def __init__(
        self,
        calls: ActingCalls,
        config: DqnConfig,
        memory: ReplayMemory,
        exploration: Exploration,
        live: Hyperparameters,
        own: OwnFeeds,
        masks: bool,
        client: BatchClient | None = None,
    ) -> None:
        self._calls, self._live, self._own, self._client = calls, live, own, client
        self.greedy: GreedyPolicy = calls.greedy
        self.greedy_averaged, self.drawn = calls.greedy_averaged, calls.drawn
        # The same arrays at every step: cheaper to hand over than new ones.
        self._fed = {name: np.zeros((), np.float32) for name in exploration.knobs}
        self._epsilon = self._fed["epsilon"]
        self._time_step = np.zeros(1, np.int64)
        self.time_step: int | None = 0
        self._stack = memory.rows.stack
        self._columns, self._remembers = exploration.columns, config.is_recurrent
        # Plain epsilon-greedy needs nothing of the graph but the best action.
        self._in_numpy = exploration.in_numpy(masks, config.seed)
        # What a row changes of a network's numbers must not wait until somebody asks for the rows.
        may_wait = self._in_numpy is not None and not config.normalize_observations
        self._buffer = RowBuffer() if may_wait else None
        fitting = _WAITING_BYTES * memory.steps // memory.nbytes
        self._most = min(_WAITING_AT_MOST, fitting, memory.steps // 2, memory.rows.most_at_once)
        # Env steps from one phase to the next from which on they wait.
        many = _WORTH_WAITING * config.num_envs
        self._rollout = config.rollout * config.num_envs  # rows between two phases; 0: a replay
        self._worth_waiting = many if self._most >= _WORTH_WAITING else math.inf

    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        epsilon: float | None,
        legal: np.ndarray | None,
    ) -> np.ndarray:
        """Stores one time step of all envs and returns their actions; see `DqnAgent.step`."""
        self._read_knobs()
        if epsilon is not None:
            self._epsilon[...] = epsilon
        if self._waits():
            return self._step_buffered(observation, reward, terminated, autoreset)
        self.flush()
        if self._client is not None:
            return self._step_batched(observation, reward, terminated, autoreset, self._client)
        more = self._own.values() if legal is None else (*self._own.values(), legal)
        actions = self._calls.step(
            observation, reward, terminated, autoreset, *self._fed.values(), *more
        )
        if self.time_step is not None:
            self.time_step += 1
        return actions

    def store(self, rows: Rows) -> None:
        """See `DqnAgent.store`."""
        _require_rows(rows, self._calls)
        self._write(rows)
        self.time_step = None

    def flush(self) -> None:
        """Stores the time steps that wait; call it before anything reads the replay."""
        buffer = self._buffer
        if buffer is not None and buffer.count:
            self._write(buffer.rows())
            buffer.clear()

    def _write(self, rows: Rows) -> None:
        self._calls.store(*(rows[name] for name in self._calls.columns))

    @property
    def waiting_at_most(self) -> int:
        """Time steps that may wait to be stored."""
        return 0 if self._buffer is None else self._most

    def _waits(self) -> bool:
        """Says whether the next time step may wait to be stored.

        With many time steps between two phases of updates, one call for all their rows is cheaper
        than one for each, and random actions skip the network. The answer depends on live values
        alone, so a run and its replay do the same.
        """
        if self._buffer is None:
            return False
        return (self._rollout or self._live["learn_period"]) >= self._worth_waiting

    def forget(self) -> None:
        """Drops the time steps that wait, because the replay was restored."""
        self.time_step = None
        if self._buffer is not None:
            self._buffer.clear()
        if self._client is not None:
            self._client.forget()

    def _step_buffered(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
    ) -> np.ndarray:
        buffer = self._buffer
        assert buffer is not None
        actions = self._chosen(observation, reward, terminated, autoreset)
        frame = newest_frame(observation, self._stack)
        buffer.put(frame, actions, reward, terminated, autoreset)
        if buffer.count == self._most:
            self.flush()
        return actions

    def _step_batched(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        client: BatchClient,
    ) -> np.ndarray:
        actions = self._chosen(observation, reward, terminated, autoreset)
        frame = newest_frame(observation, self._stack)
        client.put(frame, actions, reward, terminated, autoreset)
        return actions

    def _chosen(self, observation: np.ndarray, *more: np.ndarray) -> np.ndarray:
        """Chooses outside the graph for one more time step, once what it shows is checked."""
        choose = self._in_numpy
        assert choose is not None
        self._calls.check_shown((observation, *more))
        if self.time_step is None:
            self.time_step = self._calls.time_step().item()
        greedy: Policy = self.greedy
        if self._client is not None:
            greedy = partial(self._client.chosen, greedy)
        actions = choose(greedy, observation, self._epsilon.item(), self.time_step)
        self.time_step += 1
        return actions

    def act(
        self,
        observation: np.ndarray,
        time_step: int,
        legal: np.ndarray | None = None,
        autoreset: np.ndarray | None = None,
    ) -> Rows:
        """Chooses by the network as it was when `follow` was last called; stores nothing.

        Args:
          observation: [N, ...].
          time_step: of all envs, counted from 0; it picks the random numbers.
          legal: [N, A] bool, needed with action masks.
          autoreset: [N] bool, as for `DqnAgent.step`; needed with a memory.

        Returns:
          The columns that acting fills: `action`, [N] or with branches [N, D] int32; with a memory,
          `state` before it.
        """
        _require_apart(self._calls)
        self._read_knobs()
        if self._in_numpy is not None:
            how = self._epsilon.item(), time_step
            return {"action": self._in_numpy(self._calls.greedy_apart, observation, *how)}
        self._time_step[0] = time_step
        fed = [*self._fed.values(), *self._own.values(), *(() if legal is None else (legal,))]
        begins = (autoreset,) if self._remembers else ()
        chosen = self._calls.act(observation, *fed, self._time_step, *begins)
        return dict(zip(self._columns, chosen, strict=True))

    def _read_knobs(self) -> None:
        for name, value in self._fed.items():
            value[...] = self._live[name]

    def follow(self) -> None:
        """Gives the network that acts in a concurrent loop the present weights."""
        _require_apart(self._calls)
        self._calls.follow()


def _require_rows(rows: Rows, calls: ActingCalls) -> None:
    missing = [name for name in calls.columns if name not in rows]
    if missing:
        has = ", ".join(calls.columns)
        raise ArgumentError(f"rows have the columns {has}; {missing[0]} is not there")
    count, most = len(rows[calls.columns[0]]), calls.most_at_once
    if not 1 <= count <= most:
        raise BoundsError(f"rows must be 1 to {most:,} time steps at once, got {count:,}")


def _require_apart(calls: ActingCalls) -> None:
    if not calls.acts_apart:
        raise RlCoreError("act and follow need loop = 'concurrent', where a network acts apart")
