"""The acting half of an agent: stores what the envs show in the replay and returns actions."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.acting_calls import ActingCalls
from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.policy import Exploration, GreedyPolicy, Policy
from targetnet.agents.dqn.step_buffer import RowBuffer
from targetnet.agents.dqn.update_batching import BatchClient
from targetnet.rl_core.errors import ArgumentError, BoundsError, RlCoreError
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.replay import ReplayMemory, Rows, newest_frame

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
      joined: stores single time steps with those of other members; None: alone.

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
        joined: BatchClient | None = None,
    ) -> None:
        self._calls, self._live, self._own, self._joined = calls, live, own, joined
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
        if self._joined is not None:
            return self._step_joined(observation, reward, terminated, autoreset, self._joined)
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
        if self._joined is not None:
            self._joined.forget()

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

    def _step_joined(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        joined: BatchClient,
    ) -> np.ndarray:
        actions = self._chosen(observation, reward, terminated, autoreset)
        frame = newest_frame(observation, self._stack)
        joined.put(frame, actions, reward, terminated, autoreset)
        return actions

    def _chosen(self, observation: np.ndarray, *more: np.ndarray) -> np.ndarray:
        """Chooses outside the graph for one more time step, once what it shows is checked."""
        choose = self._in_numpy
        assert choose is not None
        self._calls.check_shown((observation, *more))
        if self.time_step is None:
            self.time_step = self._calls.time_step().item()
        greedy: Policy = self.greedy
        if self._joined is not None:
            greedy = partial(self._joined.chosen, greedy)
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
