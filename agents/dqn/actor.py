"""The acting half of an agent: stores what the envs show in the replay and returns actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.model import DqnConfig
from agents.dqn.choosing import COLUMNS, Exploration, NetworkValues, Policy, greedy_policy
from agents.dqn.live_feeds import OwnFeeds
from agents.dqn.networks import Networks
from agents.dqn.step_buffer import RowBuffer
from rl_core.graph.engine import Engine
from rl_core.graph.feeds import feed_check
from rl_core.hyperparameters import Hyperparameters
from rl_core.replay import ReplayMemory, Rows

# Time steps that may wait to be stored, their bytes, and how many make the wait worth it.
_WAITING_AT_MOST = 64
_WAITING_BYTES = 1 << 22
_WORTH_WAITING = 3


class Acting:
    """Builds the calls that choose actions and store what came of them.

    Make it while the graph is being built.

    Args:
      engine, config, networks, memory: of the agent.
      exploration: chooses the actions.
      live: epsilon and temperature are read there.
      own: feeds the user's own live values to the networks.
      legal: [M, A] bool placeholder of the greedy policies; None if the envs have no action masks.

    Attributes:
      greedy: the greedy policy.
      greedy_averaged: the same with the averaged weights; None if the config keeps none.
      drawn: operations that store a time step and act on it, for a picture of the graph.
      follow: copies the online network to the one that acts, in a concurrent loop.
      time_step: how many there were; None if the graph has to be asked.
    """

    greedy_averaged: Policy | None = None
    follow: Callable[[], None]

    def __init__(
        self,
        engine: Engine,
        config: DqnConfig,
        networks: Networks,
        memory: ReplayMemory,
        exploration: Exploration,
        live: Hyperparameters,
        own: OwnFeeds,
        legal: tf.Tensor | None,
    ) -> None:
        self._config, self._live, self._exploration = config, live, exploration
        self._networks, self._own, self._masks = networks, own, legal is not None
        # The same arrays at every step: cheaper to hand over than new ones.
        self._fed = {name: np.zeros((), np.float32) for name in exploration.knobs}
        self._epsilon = self._fed["epsilon"]
        self._time_step = np.zeros(1, np.int64)
        self.time_step: int | None = 0
        self._build_step(engine, memory)
        self._build_store(engine, memory)
        if networks.behaviour:
            self._build_apart(engine)
        observations = networks.observations
        self.greedy = greedy_policy(engine, networks.greedy, observations, legal, own)
        if networks.greedy_ema is not None:
            self.greedy_averaged = greedy_policy(
                engine, networks.greedy_ema, observations, legal, own
            )
        # Plain epsilon-greedy needs nothing of the graph but the best action.
        self._outside = exploration.outside(self._masks)
        self._buffer = None if self._outside is None else RowBuffer()
        fitting = _WAITING_BYTES * memory.steps // memory.nbytes
        self._most = min(_WAITING_AT_MOST, fitting, memory.steps // 2)
        # Env steps from one phase to the next from which on they wait.
        many = _WORTH_WAITING * config.num_envs
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
        more = self._own.values() if legal is None else (*self._own.values(), legal)
        actions = self._step(observation, reward, terminated, autoreset, *self._fed.values(), *more)
        if self.time_step is not None:
            self.time_step += 1
        return actions

    def store(self, rows: Rows) -> None:
        """Writes the rows of several time steps, arrays [P, N, ...]."""
        self._store(*(rows[name] for name in self._columns))

    def flush(self) -> None:
        """Stores the time steps that wait; call it before anything reads the replay."""
        buffer = self._buffer
        if buffer is not None and buffer.count:
            self.store(buffer.rows())
            buffer.clear()

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
        return self._buffer is not None and self._live["learn_period"] >= self._worth_waiting

    def forget(self) -> None:
        """Drops the time steps that wait, because the replay was restored."""
        self.time_step = None
        if self._buffer is not None:
            self._buffer.clear()

    def _step_buffered(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
    ) -> np.ndarray:
        buffer, choose = self._buffer, self._outside
        assert buffer is not None and choose is not None
        self._check_shown((observation, reward, terminated, autoreset))
        if self.time_step is None:
            self.time_step = self._ask_time_step().item()
        actions = choose(self.greedy, observation, self._epsilon.item(), self.time_step)
        buffer.put(observation, actions, reward, terminated, autoreset)
        self.time_step += 1
        if buffer.count == self._most:
            self.flush()
        return actions

    def act(self, observation: np.ndarray, time_step: int, legal: np.ndarray | None) -> Rows:
        """Returns the columns that acting fills and stores nothing; see `DqnAgent.act`."""
        self._read_knobs()
        if self._outside is not None:
            epsilon = self._epsilon.item()
            return {"action": self._outside(self._best_apart, observation, epsilon, time_step)}
        self._time_step[0] = time_step
        more = () if legal is None else (legal,)
        chosen = self._act(
            observation, *self._fed.values(), *self._own.values(), *more, self._time_step
        )
        return dict(zip(COLUMNS, chosen, strict=True))

    def _read_knobs(self) -> None:
        for name, value in self._fed.items():
            value[...] = self._live[name]

    def _build_step(self, engine: Engine, memory: ReplayMemory) -> None:
        """Builds the call that stores a time step and acts on it."""
        shown = memory.placeholders([self._config.num_envs])
        self._observation, self._legal = shown["observation"], shown.get("legal")
        knobs, now = self._exploration.fed(), memory.rows.rows_written.read_value()
        chosen = self._choice(self._own.given_to(self._networks.values), now, knobs)
        first = [shown[name] for name in ("observation", "reward", "terminated", "autoreset")]
        self._check_shown = feed_check(first)
        feeds = [*first, *knobs.values(), *self._more_feeds()]
        write = memory.write(shown | chosen, now)
        self._step = engine.callable(chosen["action"], feeds, [write])
        self.drawn = [chosen["action"].op, write]

    def _build_store(self, engine: Engine, memory: ReplayMemory) -> None:
        """Builds the call that stores many time steps that were acted on before."""
        rows = memory.placeholders([None, self._config.num_envs])
        self._columns = tuple(rows)
        self._store = engine.callable(None, [*rows.values()], [memory.write_steps(rows)])
        self._ask_time_step = engine.callable(memory.rows.rows_written.read_value())

    def _build_apart(self, engine: Engine) -> None:
        """Builds the calls that act with a copy of the network."""
        knobs, now = self._exploration.fed(), tf.placeholder(tf.int64, [1], "time_step")
        values = self._own.given_to(self._networks.behaviour_values)
        feeds = [self._observation, *knobs.values(), *self._more_feeds(), now]
        chosen = self._choice(values, now, knobs)
        self._act = engine.callable([chosen[name] for name in COLUMNS], feeds)
        greedy = values(self._observation, None)
        self._best_apart = greedy_policy(engine, greedy, self._observation, None, self._own)
        self.follow = engine.callable(None, targets=[self._networks.behave_as_online()])

    def _choice(
        self, values: NetworkValues, now: tf.Tensor, knobs: Mapping[str, tf.Tensor]
    ) -> Rows:
        return self._exploration.of_fed(values, self._observation, self._legal, now, knobs)

    def _more_feeds(self) -> list[tf.Tensor]:
        masks = [] if self._legal is None else [self._legal]
        return [*self._own.tensors.values(), *masks]
