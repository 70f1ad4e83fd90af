"""The half of the agent that acts: what the envs show goes into the replay, actions come out.

Imports: agents.config, agents.networks, rl_core. Never envs: it sees shapes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config import DqnConfig
from agents.networks import Networks
from rl_core.exploration import boltzmann, epsilon_greedy
from rl_core.graph.engine import Engine
from rl_core.hyperparameters import Hyperparameters
from rl_core.losses import legal_only
from rl_core.random import Draws, Stream
from rl_core.replay import UniformReplay


class Policy(Protocol):
    """Observations [M, ...] and, with action masks, masks [M, A] -> actions [M]."""

    def __call__(self, observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray: ...


class Acting:
    """Builds one call that stores a time step and chooses actions, and the greedy policies.

    Args:
      config, networks, replay: of the agent.
      observations: [M, ...] placeholder of the greedy policies.
      num_actions: A.
      masks: whether the envs say which actions are legal.

    Attributes:
      greedy: the greedy policy.
      greedy_averaged: the same with the averaged weights; None if the config keeps none.
    """

    greedy: Policy
    greedy_averaged: Policy | None

    def __init__(
        self,
        config: DqnConfig,
        networks: Networks,
        replay: UniformReplay,
        observations: tf.Tensor,
        num_actions: int,
        masks: bool,
    ) -> None:
        self._config, self._num_actions, self._masks = config, num_actions, masks
        # One feed each for all steps: cheaper to hand over.
        self._epsilon, self._temperature = np.zeros((), np.float32), np.zeros((), np.float32)
        self._build_step(networks, replay, observations)
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
        if not self._masks and not self._config.boltzmann:
            return self._step(observation, reward, terminated, autoreset, self._epsilon)
        more = [legal] if self._masks else []
        if self._config.boltzmann:
            self._temperature[...] = self._live["temperature"]
            more.append(self._temperature)
        return self._step(observation, reward, terminated, autoreset, self._epsilon, *more)

    def _build_step(
        self, networks: Networks, replay: UniformReplay, observations: tf.Tensor
    ) -> None:
        config, N, A = self._config, self._config.num_envs, self._num_actions
        observation = tf.placeholder(
            observations.dtype, [N, *observations.shape[1:]], "observation"
        )
        reward = tf.placeholder(tf.float32, [N], "reward")
        terminated = tf.placeholder(tf.bool, [N], "terminated")
        autoreset = tf.placeholder(tf.bool, [N], "autoreset")
        epsilon = tf.placeholder(tf.float32, [], "epsilon")
        self._step_feeds = [observation, reward, terminated, autoreset, epsilon]
        legal = None
        if self._masks:
            legal = tf.placeholder(tf.bool, [N, A], "legal")
            self._step_feeds.append(legal)
        now = replay.rows_written.read_value()
        draws = Draws(config.seed, "act", now) if config.noisy else None
        q = networks.values(observation, draws).q  # [N, A]
        if config.boltzmann:
            temperature = tf.placeholder(tf.float32, [], "temperature")
            self._step_feeds.append(temperature)
            numbers = Stream(config.seed, "boltzmann").uniform(now, [N, A])
            choice = boltzmann(q, temperature, numbers, legal)  # [N]
        else:
            choice = _best(legal_only(q, legal))  # [N]
        coin, die = tf.unstack(Stream(config.seed, "act").uniform(now, [2, N]))  # [N]
        self._action = epsilon_greedy(choice, epsilon, coin, die, A, legal)  # [N]
        self._write = replay.write(observation, self._action, reward, terminated, autoreset, legal)

    def _policy(self, engine: Engine, action: tf.Tensor) -> Policy:
        call = engine.callable(action, self._greedy_feeds)

        def policy(observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
            return call(observation, legal) if self._masks else call(observation)

        return policy


def _best(q: tf.Tensor) -> tf.Tensor:
    return tf.argmax(q, axis=1, output_type=tf.int32)
