"""Heads: features to action values.

Imports: rl_core.graph.layers. Never agents, never envs.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from rl_core.graph.layers import dense
from rl_core.networks.network import Head


def q_head(num_actions: int) -> Head:
    """One dense layer, block `head`: [B, F] -> [B, A]."""

    def head(features: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope("head"):
            return dense(features, num_actions, "q")  # [B, A]

    return head


def dueling_head(num_actions: int) -> Head:
    """A value and an advantage, blocks `value` and `advantage`: [B, F] -> [B, A].

        q[a] = value + advantage[a] - mean_a advantage[a]

    Wang et al. (2016), https://arxiv.org/abs/1511.06581, equation 9.
    """

    def head(features: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope("value"):
            value = dense(features, 1, "v")  # [B, 1]
        with tf.variable_scope("advantage"):
            advantage = dense(features, num_actions, "a")  # [B, A]
        return value + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)

    return head
