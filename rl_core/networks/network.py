"""A network is a torso and a head, each in a scope of its own.

Imports: nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow.compat.v1 as tf

Torso = Callable[[tf.Tensor], tf.Tensor]  # observations [B, ...] -> features [B, F]
Head = Callable[[tf.Tensor], tf.Tensor]  # features [B, F] -> action values [B, A]
Network = Callable[[tf.Tensor], tf.Tensor]  # observations [B, ...] -> action values [B, A]


def q_network(torso: Torso, head: Head) -> Network:
    """Observations [B, ...] -> action values [B, A].

    The torso's variables are under `torso`; the head names its own scopes, because a head may
    be more than one block.
    """

    def network(observation: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope("torso"):
            features = torso(as_float(observation))  # [B, F]
        return head(features)  # [B, A]

    return network


def as_float(observation: tf.Tensor) -> tf.Tensor:
    """float32 of the same shape; bytes, which are pixels, are brought to [0, 1]."""
    if observation.dtype == tf.uint8:
        return tf.cast(observation, tf.float32) / 255.0
    return tf.cast(observation, tf.float32)
