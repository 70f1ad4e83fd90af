"""The half of the agent that acts: what the envs show goes into the replay, actions come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.model import DqnConfig
from agents.dqn.exploring import EpsilonGreedy
from agents.dqn.networks import Networks
from agents.dqn.step_buffer import RowBuffer
from rl_core.exploration import boltzmann, epsilon_greedy
from rl_core.graph.engine import Engine, feed_check
from rl_core.hyperparameters import Hyperparameters
from rl_core.losses import legal_only
from rl_core.networks import Values
from rl_core.random import Draws, Stream
from rl_core.replay import ReplayMemory, Rows

# (what for, shape) -> float32 in [0, 1) of this shape.
Uniform = Callable[[str, list[int]], tf.Tensor]

# How many time steps may wait to be stored, of how many bytes, and from how many on it is worth it.
_WAITING_AT_MOST = 64
_WAITING_BYTES = 1 << 22
_WORTH_WAITING = 3


class Policy(Protocol):
    """Observations [M, ...] and, with action masks, masks [M, A] -> actions [M]."""

    def __call__(self, observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray: ...


class Acting:
    """Builds the calls that choose actions and store what came of them.

    Args:
      config, networks, memory: of the agent.
      observations: [M, ...] placeholder of the greedy policies.
      num_actions: A.
      masks: whether the envs say which actions are legal.

    Attributes:
      greedy: the greedy policy.
      greedy_averaged: the same with the averaged weights; None if the config keeps none.
      follow: makes the network that acts in a concurrent loop what the online one is.
      time_step: how many there were; None if the graph has to be asked.
    """

    greedy: Policy
    greedy_averaged: Policy | None
    follow: Callable[[], None]

    def __init__(
        self,
        config: DqnConfig,
        networks: Networks,
        memory: ReplayMemory,
        observations: tf.Tensor,
        num_actions: int,
        masks: bool,
    ) -> None:
        self._config, self._num_actions, self._masks = config, num_actions, masks
        self._networks = networks
        # One feed each for all steps: cheaper to hand over.
        self._epsilon, self._temperature = np.zeros((), np.float32), np.zeros((), np.float32)
        self._time_step = np.zeros(1, np.int64)
        self._build_step(memory, observations)
        self._build_store(memory)
        if networks.behaviour:
            self._build_apart()
        # Plain epsilon-greedy needs nothing of the graph but the best action.
        self._buffer = None if masks or config.boltzmann or config.noisy else RowBuffer()
        fitting = _WAITING_BYTES * memory.steps // memory.nbytes
        self._most = min(_WAITING_AT_MOST, fitting, memory.steps // 2)
        stream = Stream(config.seed, "act")
        self._epsilon_greedy = EpsilonGreedy(stream, config.num_envs, num_actions)
        self._check_shown = feed_check(self._step_feeds[:4])
        self.time_step: int | None = 0
        self._greedy_feeds = [observations]
        legal = None
        if masks:
            legal = tf.placeholder(tf.bool, [None, num_actions], "legal_actions")
            self._greedy_feeds.append(legal)
        self._policies = [
            _best(legal_only(values.q, legal))  # [M]
            for values in (networks.greedy, networks.greedy_ema)
            if values is not None
        ]

    def start(self, engine: Engine, live: Hyperparameters) -> None:
        """Makes the calls, once the engine has started; epsilon and temperature are read there."""
        self._live = live
        self._step = engine.callable(self._action, self._step_feeds, [self._write])
        policies = [self._policy(engine, action) for action in self._policies]
        self.greedy = policies[0]
        self.greedy_averaged = policies[1] if policies[1:] else None
        self._store = engine.callable(None, [*self._rows.values()], [self._write_steps])
        self._ask_time_step = engine.callable(self._written)
        if self._networks.behaviour:
            self._act = engine.callable(self._action_apart, self._act_feeds)
            self._best_apart = engine.callable(self._best_of_copy, self._act_feeds[:1])
            self.follow = engine.callable(None, targets=[self._follow])

    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        epsilon: float | None,
        legal: np.ndarray | None,
    ) -> np.ndarray:
        """As `DqnAgent.step`."""
        self._epsilon[...] = self._live["epsilon"] if epsilon is None else epsilon
        if self._waits():
            return self._step_buffered(observation, reward, terminated, autoreset)
        self.flush()
        more = self._more(legal) if self._masks or self._config.boltzmann else ()
        actions = self._step(observation, reward, terminated, autoreset, self._epsilon, *more)
        if self.time_step is not None:
            self.time_step += 1
        return actions

    def store(self, rows: Rows) -> None:
        """Writes the rows of several time steps, arrays [P, N, ...]."""
        self._store(*(rows[name] for name in self._rows))

    def flush(self) -> None:
        """Stores the time steps that wait; whatever looks at the replay comes after it."""
        buffer = self._buffer
        if buffer is not None and buffer.count:
            self.store(buffer.rows())
            buffer.clear()

    @property
    def waiting_at_most(self) -> int:
        """Time steps."""
        return 0 if self._buffer is None else self._most

    def _waits(self) -> bool:
        """Whether the next time step may wait to be stored.

        With many steps from one phase of updates to the next, one call for all their rows is
        cheaper than one for each, and those that explore need no network. It depends on nothing
        but live values: a run and its replay go the same way.
        """
        if self._buffer is None or self._most < _WORTH_WAITING:
            return False
        return self._live["learn_period"] >= _WORTH_WAITING * self._config.num_envs

    def forget(self) -> None:
        """Drops the time steps that wait: the replay became another one."""
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
        buffer = self._buffer
        assert buffer is not None
        self._check_shown((observation, reward, terminated, autoreset))
        if self.time_step is None:
            self.time_step = self._ask_time_step().item()
        epsilon = self._epsilon.item()
        actions = self._epsilon_greedy(self.greedy, observation, epsilon, self.time_step)
        buffer.put(observation, actions, reward, terminated, autoreset)
        self.time_step += 1
        if buffer.count == self._most:
            self.flush()
        return actions

    def act(self, observation: np.ndarray, time_step: int, legal: np.ndarray | None) -> np.ndarray:
        """As `DqnAgent.act`."""
        self._epsilon[...] = self._live["epsilon"]
        if self._buffer is not None:
            epsilon = self._epsilon.item()
            return self._epsilon_greedy(self._best_apart, observation, epsilon, time_step)
        self._time_step[0] = time_step
        return self._act(observation, self._epsilon, *self._more(legal), self._time_step)

    def choose(
        self,
        values: Callable[[tf.Tensor, Draws | None], Values],
        observation: tf.Tensor,
        now: tf.Tensor,
        epsilon: tf.Tensor,
        temperature: tf.Tensor | None,
        legal: tf.Tensor | None,
        uniform: Uniform,
    ) -> tf.Tensor:
        """Actions for N observations.

        Args:
          values: of the network that acts.
          observation: [N, ...].
          now: int64 scalar or [1], the time step: what makes the random numbers differ.
          epsilon, temperature: float32 scalars; without Boltzmann exploration there is no
            temperature.
          legal: [N, A] bool, with masks.
          uniform: (name, shape) -> float32 in [0, 1), new at each time step.

        Returns:
          [N] int32.
        """
        config, N, A = self._config, self._config.num_envs, self._num_actions
        draws = Draws(config.seed, "act", now) if config.noisy else None
        q = values(observation, draws).q  # [N, A]
        if temperature is not None:
            choice = boltzmann(q, temperature, uniform("boltzmann", [N, A]), legal)  # [N]
        else:
            choice = _best(legal_only(q, legal))  # [N]
        coin, die = tf.unstack(uniform("act", [2, N]))  # [N]
        return epsilon_greedy(choice, epsilon, coin, die, A, legal)  # [N]

    def _more(self, legal: np.ndarray | None) -> list[np.ndarray]:
        more = [legal] if legal is not None else []
        if self._config.boltzmann:
            self._temperature[...] = self._live["temperature"]
            more.append(self._temperature)
        return more

    def _build_step(self, memory: ReplayMemory, observations: tf.Tensor) -> None:
        """Stores a time step and acts on it, in one call."""
        rows = self._rows_of([self._config.num_envs], observations)
        self._observation, self._legal = rows["observation"], rows.get("legal")
        knobs = self._live_feeds()
        now = memory.rows.rows_written.read_value()
        self._action = self._choose_fed(self._networks.values, now, knobs)  # [N]
        self._step_feeds = [
            *(rows[name] for name in ("observation", "reward", "terminated", "autoreset")),
            knobs[0], *self._legal_feed(), *knobs[1:],
        ]  # fmt: skip
        self._write = memory.write(rows | {"action": self._action})

    def _build_store(self, memory: ReplayMemory) -> None:
        """Stores many time steps that were acted on before."""
        self._rows = self._rows_of([None, self._config.num_envs], self._observation)
        self._write_steps = memory.write_steps(self._rows)
        self._written = memory.rows.rows_written.read_value()

    def _build_apart(self) -> None:
        """Acts with a copy of the network."""
        knobs = self._live_feeds()
        now = tf.placeholder(tf.int64, [1], "time_step")
        self._action_apart = self._choose_fed(self._networks.behaviour_values, now, knobs)
        self._best_of_copy = _best(self._networks.behaviour_values(self._observation).q)
        self._act_feeds = [self._observation, knobs[0], *self._legal_feed(), *knobs[1:], now]
        self._follow = self._networks.behave_as_online()

    def _choose_fed(
        self,
        values: Callable[[tf.Tensor, Draws | None], Values],
        now: tf.Tensor,
        knobs: list[tf.Tensor],
    ) -> tf.Tensor:
        """[N] actions on what was fed."""

        def uniform(name: str, shape: list[int]) -> tf.Tensor:
            return Stream(self._config.seed, name).uniform(now, shape)

        epsilon, temperature = [*knobs, None][:2]
        return self.choose(
            values, self._observation, now, epsilon, temperature, self._legal, uniform
        )

    def _legal_feed(self) -> list[tf.Tensor]:
        return [] if self._legal is None else [self._legal]

    def _live_feeds(self) -> list[tf.Tensor]:
        names = ["epsilon", *(["temperature"] if self._config.boltzmann else [])]
        return [tf.placeholder(tf.float32, [], name) for name in names]

    def _rows_of(self, lead: list[int | None], observations: tf.Tensor) -> Rows:
        """Placeholders of rows, in the order of the columns."""
        rows = {
            "observation": tf.placeholder(
                observations.dtype, [*lead, *observations.shape[1:]], "observation"
            ),
            "action": tf.placeholder(tf.int32, lead, "action"),
            "reward": tf.placeholder(tf.float32, lead, "reward"),
            "terminated": tf.placeholder(tf.bool, lead, "terminated"),
            "autoreset": tf.placeholder(tf.bool, lead, "autoreset"),
        }
        if self._masks:
            rows["legal"] = tf.placeholder(tf.bool, [*lead, self._num_actions], "legal")
        return rows

    def _policy(self, engine: Engine, action: tf.Tensor) -> Policy:
        call = engine.callable(action, self._greedy_feeds)

        def policy(observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
            return call(observation, legal) if self._masks else call(observation)

        return policy


def _best(q: tf.Tensor) -> tf.Tensor:
    return tf.argmax(q, axis=1, output_type=tf.int32)
