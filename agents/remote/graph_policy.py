"""Action values of a network by a graph of its own, for the networks that NumPy does not serve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.envs import observed
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.network import build_network
from targetnet.agents.remote.deliveries import Weights
from targetnet.envs import Envs
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.weights import ScopeWeights
from targetnet.rl_core.networks import Conditions
from targetnet.rl_core.random import Draws

_SCOPE = "online"


class GraphPolicy:
    """Action values of a config's network; each actor draws noise of its own if it is noisy."""

    def __init__(self, config: DqnConfig, envs: Envs, actor: int) -> None:
        self._names = config.own_live_names
        self._engine = Engine(threads=config.threads, onednn=config.onednn)
        with self._engine.building():
            shape = [None, *envs.observation_shape]
            observation = tf.placeholder(envs.observation_dtype, shape, "observation")
            now = tf.placeholder(tf.int64, [1], "time_step")
            live = {name: tf.placeholder(tf.float32, [], f"live_{name}") for name in self._names}
            seen = observed(config, envs)
            network = build_network(config, envs.num_actions, seen, envs.branches)
            draws = Draws(config.seed, f"act/{actor}", now) if config.noisy else None
            with tf.variable_scope(_SCOPE):
                values, _ = network(observation, conditions=Conditions(draws, live))
            self._weights = ScopeWeights(self._engine, _SCOPE)
            self._call = self._engine.callable(values.q, [observation, now, *live.values()])
        self._engine.start()

    def load(self, weights: Weights) -> None:
        """Acts by these weights from now on."""
        self._weights.load(weights)

    def values(
        self, observation: np.ndarray, time_step: int, live: Mapping[str, float]
    ) -> np.ndarray:
        """[M, ...] observations -> [M, A] float32; the time step picks the noise."""
        own = [np.float32(live[name]) for name in self._names]
        values: np.ndarray = self._call(observation, np.array([time_step], np.int64), *own)
        return values
