"""Exploration: chooses actions from action values and random numbers.

The caller passes the random numbers as tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.branches import by_branch
from targetnet.rl_core.losses.munchausen import log_policy
from targetnet.rl_core.losses.td import require_shapes

_SMALLEST = np.finfo(np.float32).tiny


def epsilon_greedy(
    best: tf.Tensor,
    epsilon: float | tf.Tensor,
    coin: tf.Tensor,
    die: tf.Tensor,
    num_actions: int,
    legal: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns a uniformly random legal action with probability epsilon, otherwise the best.

    Args:
      best: [N] int32 in [0, A): the greedy actions, legal already.
      epsilon: scalar in [0, 1], usually fed.
      coin: [N] float uniform in [0, 1): whether to explore.
      die: [N] float uniform in [0, 1): which random action, independent of `coin`.
      num_actions: A.
      legal: [N, A] bool; None: every action is legal.

    Returns:
      [N] int32.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope("epsilon_greedy"):
        best, epsilon, coin, die, legal = require_shapes(
            "epsilon_greedy",
            best=(best, "N"),
            epsilon=(tf.cast(epsilon, tf.float32), ""),
            coin=(coin, "N"),
            die=(die, "N"),
            legal=(legal, "NA"),
        )
        anything = tf.cast(die * num_actions, tf.int32) if legal is None else _any_legal(die, legal)
        return tf.where(coin < epsilon, anything, best)


def branching_epsilon_greedy(
    best: tf.Tensor,
    epsilon: float | tf.Tensor,
    coin: tf.Tensor,
    dice: tf.Tensor,
    branches: Sequence[int],
    legal: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns uniformly random legal choices in all branches with probability epsilon, else best.

    Args:
      best: [N, D] int32: the greedy actions, legal already.
      epsilon: scalar in [0, 1], usually fed.
      coin: [N] float uniform in [0, 1): whether to explore.
      dice: [N, D] float uniform in [0, 1): which random choice in each branch.
      branches: sizes of the branches, [D].
      legal: [N, A] bool, A the sum of the sizes; None: every choice is legal.

    Returns:
      [N, D] int32.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope("branching_epsilon_greedy"):
        best, epsilon, coin, dice, legal = require_shapes(
            "branching_epsilon_greedy",
            best=(best, "ND"),
            epsilon=(tf.cast(epsilon, tf.float32), ""),
            coin=(coin, "N"),
            dice=(dice, "ND"),
            legal=(legal, "NA"),
        )
        if legal is None:
            anything = tf.cast(dice * np.array(branches, np.float32), tf.int32)  # [N, D]
        else:
            apart = tf.reshape(by_branch(legal, branches, fill=False), [-1, max(branches)])
            anything = tf.reshape(_any_legal(tf.reshape(dice, [-1]), apart), [-1, len(branches)])
        return tf.where_v2((coin < epsilon)[:, tf.newaxis], anything, best)


def boltzmann(
    q: tf.Tensor,
    temperature: float | tf.Tensor,
    uniform: tf.Tensor,
    legal: tf.Tensor | None = None,
) -> tf.Tensor:
    """Draws actions from softmax(q / temperature) over the legal actions.

        action = argmax_a log pi[a] - log(-log(uniform[a]))

    The Gumbel-max trick: Gumbel (1954); Maddison, Tarlow & Minka (2014),
    https://arxiv.org/abs/1411.0030.

    Args:
      q: [N, A] float.
      temperature: scalar > 0, usually fed.
      uniform: [N, A] float uniform in [0, 1).
      legal: [N, A] bool; None: every action is legal.

    Returns:
      [N] int32.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope("boltzmann"):
        q, uniform, legal = require_shapes(
            "boltzmann", q=(q, "NA"), uniform=(uniform, "NA"), legal=(legal, "NA")
        )
        # A uniform number of 0 would give minus infinity, even to the only legal action.
        gumbel = -tf.log(-tf.log(tf.maximum(uniform, _SMALLEST)))  # [N, A]
        return tf.argmax(log_policy(q, temperature, legal) + gumbel, axis=1, output_type=tf.int32)


def _any_legal(die: tf.Tensor, legal: tf.Tensor) -> tf.Tensor:
    """Returns the legal action number floor(die * legal actions): [N], [N, A] -> [N]."""
    seen = tf.cumsum(tf.cast(legal, tf.int32), axis=1)  # [N, A] legal actions up to here
    count = seen[:, -1]  # [N]
    k = tf.cast(die * tf.cast(count, tf.float32), tf.int32)  # [N]
    before = tf.reduce_sum(tf.cast(seen <= k[:, tf.newaxis], tf.int32), axis=1)  # [N]
    # Without any legal action the episode is over, and any action in range will do.
    return tf.minimum(before, tf.shape(legal)[1] - 1)
