"""Temporal-difference losses: one value per transition, never reduced.

The caller weights and averages. No gradient flows through a target.

Imports: rl_core.errors. Never agents, never envs.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from rl_core.errors import ShapeError


class TdLoss(NamedTuple):
    """All [B]: the loss of each transition, the bootstrapped target, target - estimate."""

    loss: tf.Tensor
    target: tf.Tensor
    td_error: tf.Tensor


def q_learning(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t: tf.Tensor,
    name: str = "q_learning",
) -> TdLoss:
    """One-step Q-learning loss.

        target   = r_t + discount_t * max_a q_t[a]      (no gradient)
        td_error = target - q_tm1[a_tm1]
        loss     = td_error ** 2 / 2

    Watkins & Dayan (1992), https://doi.org/10.1007/BF00992698; with q_t from a target
    network, Mnih et al. (2015), https://doi.org/10.1038/nature14236.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      q_t: [B, A] float.

    Returns:
      TdLoss(loss, target, td_error), each [B].

    Raises:
      ShapeError: an argument has the wrong rank.
    """
    with tf.name_scope(name):
        q_tm1, r_t, discount_t, q_t = map(tf.convert_to_tensor, (q_tm1, r_t, discount_t, q_t))
        a_tm1 = tf.convert_to_tensor(a_tm1)
        require_ranks(
            name,
            q_tm1=(q_tm1, 2),
            a_tm1=(a_tm1, 1),
            r_t=(r_t, 1),
            discount_t=(discount_t, 1),
            q_t=(q_t, 2),
        )
        return _one_step(q_tm1, a_tm1, r_t, discount_t, tf.reduce_max(q_t, axis=1))


def double_q_learning(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t_value: tf.Tensor,
    q_t_selector: tf.Tensor,
    name: str = "double_q_learning",
) -> TdLoss:
    """One-step double Q-learning loss: one network chooses the action, the other values it.

        target   = r_t + discount_t * q_t_value[argmax_a q_t_selector[a]]      (no gradient)
        td_error = target - q_tm1[a_tm1]
        loss     = td_error ** 2 / 2

    van Hasselt, Guez & Silver (2016), https://arxiv.org/abs/1509.06461.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      q_t_value: [B, A] float, usually the target network's.
      q_t_selector: [B, A] float, usually the online network's.

    Returns:
      TdLoss(loss, target, td_error), each [B].

    Raises:
      ShapeError: an argument has the wrong rank.
    """
    with tf.name_scope(name):
        q_tm1, r_t, discount_t = map(tf.convert_to_tensor, (q_tm1, r_t, discount_t))
        a_tm1, q_t_value, q_t_selector = map(tf.convert_to_tensor, (a_tm1, q_t_value, q_t_selector))
        require_ranks(
            name,
            q_tm1=(q_tm1, 2),
            a_tm1=(a_tm1, 1),
            r_t=(r_t, 1),
            discount_t=(discount_t, 1),
            q_t_value=(q_t_value, 2),
            q_t_selector=(q_t_selector, 2),
        )
        best = tf.argmax(q_t_selector, axis=1, output_type=tf.int32)  # [B]
        bootstrap = tf.gather(q_t_value, best, axis=1, batch_dims=1)  # [B]
        return _one_step(q_tm1, a_tm1, r_t, discount_t, bootstrap)


def squared(td_error: tf.Tensor) -> tf.Tensor:
    """`td_error ** 2 / 2`, per transition: [B] -> [B]."""
    return 0.5 * tf.square(td_error)


def huber(td_error: tf.Tensor, delta: float | tf.Tensor = 1.0) -> tf.Tensor:
    """Huber loss per transition: [B] -> [B].

        td_error ** 2 / 2                     where |td_error| <= delta
        delta * (|td_error| - delta / 2)      elsewhere

    Huber (1964), https://doi.org/10.1214/aoms/1177703732. Its gradient is the TD error
    clipped to [-delta, delta], as in Mnih et al. (2015).
    """
    absolute = tf.abs(td_error)
    quadratic = tf.minimum(absolute, delta)
    return 0.5 * tf.square(quadratic) + delta * (absolute - quadratic)


def _one_step(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    bootstrap: tf.Tensor,  # [B]
) -> TdLoss:
    qa_tm1 = tf.gather(q_tm1, a_tm1, axis=1, batch_dims=1)  # [B]
    target = tf.stop_gradient(r_t + discount_t * bootstrap)  # [B]
    td_error = target - qa_tm1  # [B]
    return TdLoss(squared(td_error), target, td_error)


def require_ranks(where: str, **tensors: tuple[tf.Tensor, int]) -> None:
    """Raises ShapeError naming every tensor whose rank is not the wanted one."""
    wrong = [
        f"{name} must have rank {rank}, got shape {tensor.shape}"
        for name, (tensor, rank) in tensors.items()
        if tensor.shape.rank not in (None, rank)
    ]
    if wrong:
        raise ShapeError(f"{where}: {'; '.join(wrong)}")
