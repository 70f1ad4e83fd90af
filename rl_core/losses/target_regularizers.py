"""Other ways to hold a target still than a copy alone: what bootstraps, and a pull on the values.

The caller weights and averages. A weight of 0 changes no bit.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.td import at_action, require_shapes


def blend(
    of_target: tf.Tensor,
    of_online: tf.Tensor,
    online_is_lower: tf.Tensor,
    online_weight: float | tf.Tensor,
    min_weight: float | tf.Tensor,
) -> tf.Tensor:
    """Blends what the target and the online network say of s_t, to bootstrap from.

        x     = of_target + online_weight * (of_online - of_target)
        lower = of_online where online_is_lower, else of_target
        blend = x + min_weight * (lower - x)

    online_weight = 1 bootstraps without a target network. min_weight = 1 is MINTO, which takes the
    smaller estimate of each action before the maximum: Hendawy et al. (2025),
    https://arxiv.org/abs/2510.02590. A weight of exactly 0 or 1 gives exactly the one or the other.

    Args:
      of_target, of_online: [B, A] values, or [B, A, N]: probabilities of atoms, or quantiles.
      online_is_lower: [B, A] bool: whether the online network expects the smaller return.
      online_weight, min_weight: in [0, 1], numbers or scalar tensors.

    Returns:
      The shape of `of_target`.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    of_target, of_online, online_is_lower = require_shapes(
        "blend",
        of_target=(of_target, ("BA", "BAN")),
        of_online=(of_online, ("BA", "BAN")),
        online_is_lower=(online_is_lower, "BA"),
    )
    if of_target.shape.rank == 3:
        online_is_lower = online_is_lower[:, :, tf.newaxis]  # [B, A, 1]
    lower = tf.where_v2(online_is_lower, of_online, of_target)
    return _towards(_towards(of_target, of_online, online_weight), lower, min_weight)


def _towards(one: tf.Tensor, other: tf.Tensor, share: float | tf.Tensor) -> tf.Tensor:
    # one + 1 * (other - one) may differ from other in the last bit.
    moved = one + share * (other - one)
    return tf.where_v2(tf.equal(share, 1.0), other, moved)


def functional_penalty(
    q_tm1: tf.Tensor, a_tm1: tf.Tensor, q_tm1_target: tf.Tensor, weight: float | tf.Tensor
) -> tf.Tensor:
    """Penalty on how far the value of the action taken is from the target network's.

        penalty = weight / 2 * (q_tm1[a_tm1] - q_tm1_target[a_tm1]) ** 2

    Functional regularization, Piché et al. (2021), https://arxiv.org/abs/2106.02613, whose kappa is
    `weight`, and who bootstrap from the online network.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      q_tm1_target: [B, A] float, of the target network at s_tm1.
      weight: >= 0, a number or scalar tensor.

    Returns:
      [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    q_tm1, a_tm1, q_tm1_target = require_shapes(
        "functional_penalty",
        q_tm1=(q_tm1, "BA"),
        a_tm1=(a_tm1, "B"),
        q_tm1_target=(q_tm1_target, "BA"),
    )
    away = at_action(q_tm1, a_tm1) - tf.stop_gradient(at_action(q_tm1_target, a_tm1))  # [B]
    return 0.5 * weight * tf.square(away)
