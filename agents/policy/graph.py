"""The greedy policy of a config as tensors of the default graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.envs import byte_bounds
from agents.config.model import DqnConfig
from agents.dqn.build import build_network
from envs import Envs
from rl_core.losses import legal_only
from rl_core.networks import ByteBounds, Conditions

SCOPE = "online"  # of the weights


class PolicyTensors(NamedTuple):
    """A greedy policy."""

    observation: tf.Tensor  # [M, ...] placeholder of the dtype that the replay stores
    legal: tf.Tensor | None  # [M, A] bool placeholder; None if the env has no action masks
    q: tf.Tensor  # [M, A] float32
    action: tf.Tensor  # [M] int64, in the env's own numbering


def build_policy(config: DqnConfig, envs: Envs, live: Mapping[str, float]) -> PolicyTensors:
    """Builds the policy of a config's network, its weights under `SCOPE`.

    Args:
      config: of the run.
      envs: of the config; they may be closed.
      live: the user's own live values, which become constants.
    """
    shape = [None, *envs.observation_shape]
    observation = tf.placeholder(envs.observation_dtype, shape, "observation")
    bounds = byte_bounds(config, envs)
    network = build_network(config, envs.num_actions, bounds and ByteBounds(*bounds))
    frozen = {name: tf.constant(value, tf.float32) for name, value in live.items()}
    with tf.variable_scope(SCOPE):
        values, _ = network(observation, conditions=Conditions(live=frozen))
    q = tf.identity(values.q, "q")
    legal = None
    if envs.has_action_masks:
        legal = tf.placeholder(tf.bool, [None, envs.num_actions], "action_mask")
    best = tf.argmax(legal_only(q, legal), axis=1, output_type=tf.int64)
    action = tf.add(best, np.int64(envs.first_action), "action")
    return PolicyTensors(observation, legal, q, action)
