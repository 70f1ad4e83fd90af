"""The greedy policy of a config as tensors of the default graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.envs import observed
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.network import build_network, recurrent_of
from targetnet.envs import Envs
from targetnet.rl_core.branches import by_branch
from targetnet.rl_core.losses import legal_only
from targetnet.rl_core.networks import STATELESS, Conditions, State

SCOPE = "online"  # of the weights
INPUT = "observation"
STATE, NEXT_STATE = "state", "next_state"


class PolicyTensors(NamedTuple):
    """A greedy policy."""

    # By name, placeholders [M, ...] of the dtypes that the replay stores: `observation`, or of each
    # part `observation_PART`.
    observations: dict[str, tf.Tensor]
    legal: tf.Tensor | None  # [M, A] bool placeholder; None if the env has no action masks
    q: tf.Tensor  # [M, A] float32
    action: tf.Tensor  # [M, ...] int64, as the env takes them
    state: State = STATELESS  # [M, S] float32 placeholder of what it remembers; (): nothing
    next_state: State = STATELESS  # [M, S] after the observations


def build_policy(
    config: DqnConfig, envs: Envs, live: Mapping[str, float], *, packed: bool
) -> PolicyTensors:
    """Builds the policy of a config's network, its weights under `SCOPE`.

    Args:
      config: of the run.
      envs: of the config; they may be closed.
      live: the user's own live values, which become constants.
      packed: whether observations of several parts are fed as packed rows, or part by part.
    """
    shown: Any
    if packed or not envs.parts:
        shape = [None, *envs.observation_shape]
        shown = tf.placeholder(envs.observation_dtype, shape, INPUT)
        observations = {INPUT: shown}
    else:
        shown = {
            part.name: tf.placeholder(part.dtype, [None, *part.shape], _input_of(part.name))
            for part in envs.parts
        }
        observations = {_input_of(name): of for name, of in shown.items()}
    form = envs.spaces.actions
    network = build_network(config, form.outputs, observed(config, envs), form.branches)
    frozen = {name: tf.constant(value, tf.float32) for name, value in live.items()}
    state: State = STATELESS
    recurrent = recurrent_of(config)
    if recurrent is not None:
        state = tf.placeholder(tf.float32, [None, recurrent.state_size], STATE)
    with tf.variable_scope(SCOPE):
        values, after = network(shown, state, Conditions(live=frozen))
    q = tf.identity(values.q, "q")
    legal = None
    if envs.has_action_masks:
        legal = tf.placeholder(tf.bool, [None, form.outputs], "action_mask")
    choice = legal_only(q, legal)
    if form.branches:
        choice = by_branch(choice, form.branches)  # [M, D, n]
    best = tf.argmax(choice, axis=choice.shape.rank - 1, output_type=tf.int64)
    own = best + np.asarray(form.first, np.int64)
    action = tf.reshape(own, [-1, *form.shape], "action")
    if config.is_recurrent:
        after = tf.identity(after, NEXT_STATE)
    return PolicyTensors(observations, legal, q, action, state, after)


def _input_of(part: str) -> str:
    return f"{INPUT}_{re.sub(r'[^A-Za-z0-9_]', '_', part)}"
