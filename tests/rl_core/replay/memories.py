"""Replay memories of transitions, built by hand as an agent builds them from its config."""

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.replay import (
    NStepTransitions,
    PrioritizedSampler,
    ReplayMemory,
    UniformSampler,
    ValidRows,
    transition_columns,
)

# Column by column, as `transition_columns` declares them.
NAMES = ("observation", "action", "reward", "terminated", "autoreset", "legal")


def uniform(
    capacity,
    num_envs,
    shape=(),
    dtype=np.int32,
    *,
    discount=0.5,
    n_step=None,
    num_actions=None,
    name="replay",
):
    """Draws uniformly; `discount` and `n_step` may be tensors."""
    rows = ValidRows(capacity, num_envs, transition_columns(shape, dtype, num_actions), name=name)
    items = NStepTransitions(rows, returns(discount), None if n_step is None else returns(n_step))
    return ReplayMemory(rows, UniformSampler(rows), items)


def prioritized(
    capacity,
    num_envs,
    shape=(),
    dtype=np.int32,
    *,
    alpha=1.0,
    beta=1.0,
    discount=0.5,
    num_actions=None,
    name="replay",
):
    """Draws by priority; `alpha`, `beta` and `discount` may be tensors."""
    rows = ValidRows(capacity, num_envs, transition_columns(shape, dtype, num_actions), name=name)
    sampler = PrioritizedSampler(rows, returns(alpha), returns(beta))
    return ReplayMemory(rows, sampler, NStepTransitions(rows, returns(discount)))


def returns(scalar):
    """Returns a function that returns the scalar as a tensor."""
    return lambda: tf.convert_to_tensor(scalar)


def named(*columns):
    """Rows of columns given in their order."""
    return dict(zip(NAMES, columns, strict=False))
