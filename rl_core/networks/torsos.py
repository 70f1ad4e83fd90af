"""Torsos: observations to features.

Imports: rl_core.graph.layers. Never agents, never envs.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from rl_core.graph.layers import dense, layer_norm
from rl_core.networks.network import Torso


def mlp_torso(units: Sequence[int], *, normalise: bool = False) -> Torso:
    """Dense layers with ReLU, on the flattened observation: [B, ...] -> [B, units[-1]].

    Args:
      units: size of each layer.
      normalise: layer norm before each ReLU.
    """

    def torso(observation: tf.Tensor) -> tf.Tensor:
        x = tf.reshape(observation, [-1, observation.shape[1:].num_elements()])  # [B, n]
        for i, size in enumerate(units):
            x = dense(x, size, f"dense_{i}")
            if normalise:
                x = layer_norm(x, f"norm_{i}")
            x = tf.nn.relu(x)
        return x

    return torso
