"""Munchausen TD losses: values of a soft policy, and a bonus for actions the policy prefers.

Vieillard, Pietquin & Geist (2020), https://arxiv.org/abs/2007.14430. The caller weights and
averages. No gradient flows through a target.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.masking import legal_only
from targetnet.rl_core.losses.quantile import quantile_one_step
from targetnet.rl_core.losses.td import TdLoss, one_step, require_shapes


def log_policy(
    q: tf.Tensor, temperature: float | tf.Tensor, legal: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the log probabilities of the softmax policy of q.

        log pi[a] = x[a] - log sum_b exp(x[b])      x = (q - max_b q[b]) / temperature

    The maximum and the sum are over the legal actions. Vieillard, Pietquin & Geist (2020),
    appendix B.

    Args:
      q: [B, A] float.
      temperature: > 0, a number or scalar tensor.
      legal: [B, A] bool; None: every action is legal.

    Returns:
      [B, A] float; the float32 minimum at illegal actions, whose exp is exactly 0.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    q, temperature, legal = require_shapes(
        "log_policy",
        q=(q, "BA"),
        temperature=(tf.cast(temperature, tf.float32), ""),
        legal=(legal, "BA"),
    )
    best = tf.reduce_max(legal_only(q, legal), axis=1, keepdims=True)  # [B, 1]
    # Subtract the largest value before the division: q / temperature loses the digits in which
    # good actions differ.
    x = legal_only((q - best) / temperature, legal)  # [B, A]
    # Mask again: without any legal action, the softmax of equal minima would be uniform.
    return legal_only(tf.nn.log_softmax(x), legal)


def munchausen_bonus(
    q_tm1_target: tf.Tensor,
    a_tm1: tf.Tensor,
    alpha: float | tf.Tensor,
    temperature: float | tf.Tensor,
    clip: float | tf.Tensor,
    legal: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the bonus on the reward: the scaled log probability of the taken action.

        bonus = alpha * clip(temperature * log pi[a_tm1], clip, 0)      (no gradient)

    Vieillard, Pietquin & Geist (2020), who call `clip` l_0.

    Args:
      q_tm1_target: [B, A] float: the target network's values at s_tm1, which give pi.
      a_tm1: [B] int in [0, A).
      alpha: in [0, 1], a number or scalar tensor.
      temperature: > 0, a number or scalar tensor.
      clip: < 0, a number or scalar tensor.
      legal: [B, A] bool, at s_tm1; None: every action is legal.

    Returns:
      [B], between alpha * clip and 0.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    q_tm1_target, a_tm1, legal = require_shapes(
        "munchausen_bonus",
        q_tm1_target=(q_tm1_target, "BA"),
        a_tm1=(a_tm1, "B"),
        legal=(legal, "BA"),
    )
    log_pi = log_policy(q_tm1_target, temperature, legal)  # [B, A]
    log_pi_a = tf.gather(log_pi, a_tm1, axis=1, batch_dims=1)  # [B]
    return tf.stop_gradient(alpha * tf.clip_by_value(temperature * log_pi_a, clip, 0.0))


def soft_bootstrap(
    q_t: tf.Tensor, z_t: tf.Tensor, temperature: float | tf.Tensor, legal: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the value of s_t under the softmax policy, plus the policy's scaled entropy.

        v[...] = sum_a pi[a] * (z_t[a, ...] - temperature * log pi[a])      pi of q_t

    Vieillard, Pietquin & Geist (2020).

    Args:
      q_t: [B, A] float: the values that give pi.
      z_t: [B, A] float: values, or [B, A, M] float: quantiles of each value.
      temperature: > 0, a number or scalar tensor.
      legal: [B, A] bool; None: every action is legal. Illegal actions add exactly 0.

    Returns:
      [B] or [B, M].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    q_t, z_t, legal = require_shapes(
        "soft_bootstrap", q_t=(q_t, "BA"), z_t=(z_t, ("BA", "BAM")), legal=(legal, "BA")
    )
    log_pi = log_policy(q_t, temperature, legal)  # [B, A]
    if z_t.shape.rank == 3:
        log_pi = log_pi[:, :, tf.newaxis]  # [B, A, 1]
    soft = z_t - temperature * log_pi  # [B, A] or [B, A, M]
    # Where pi is 0, temperature * log pi may be infinite, and 0 * infinity is NaN.
    return tf.reduce_sum(tf.math.multiply_no_nan(soft, tf.exp(log_pi)), axis=1)


def munchausen_q_learning(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t: tf.Tensor,
    q_tm1_target: tf.Tensor,
    *,
    alpha: float | tf.Tensor,
    temperature: float | tf.Tensor,
    clip: float | tf.Tensor,
    legal_tm1: tf.Tensor | None = None,
    legal_t: tf.Tensor | None = None,
    name: str = "munchausen_q_learning",
) -> TdLoss:
    """One-step Munchausen Q-learning (M-DQN).

        target   = r_t + munchausen_bonus(q_tm1_target, a_tm1)
                   + discount_t * soft_bootstrap(q_t, q_t)      (no gradient)
        td_error = target - q_tm1[a_tm1]
        loss     = td_error ** 2 / 2

    Vieillard, Pietquin & Geist (2020). In the limit of temperature 0 and alpha 0 it equals
    `q_learning`.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      q_t: [B, A] float: the target network's values at s_t.
      q_tm1_target: [B, A] float: the target network's values at s_tm1.
      alpha, temperature, clip: as in `munchausen_bonus`.
      legal_tm1, legal_t: [B, A] bool, at s_tm1 and s_t; None: every action is legal.

    Returns:
      TdLoss(loss, target, td_error), each [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        q_tm1, a_tm1, r_t, discount_t, q_t, q_tm1_target, legal_tm1, legal_t = require_shapes(
            name,
            q_tm1=(q_tm1, "BA"),
            a_tm1=(a_tm1, "B"),
            r_t=(r_t, "B"),
            discount_t=(discount_t, "B"),
            q_t=(q_t, "BA"),
            q_tm1_target=(q_tm1_target, "BA"),
            legal_tm1=(legal_tm1, "BA"),
            legal_t=(legal_t, "BA"),
        )
        bonus = munchausen_bonus(q_tm1_target, a_tm1, alpha, temperature, clip, legal_tm1)  # [B]
        bootstrap = soft_bootstrap(q_t, q_t, temperature, legal_t)  # [B]
        return one_step(q_tm1, a_tm1, r_t + bonus, discount_t, bootstrap)


def munchausen_quantile(
    z_tm1: tf.Tensor,
    taus_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    z_t: tf.Tensor,
    q_t: tf.Tensor,
    q_tm1_target: tf.Tensor,
    kappa: float | tf.Tensor,
    *,
    alpha: float | tf.Tensor,
    temperature: float | tf.Tensor,
    clip: float | tf.Tensor,
    legal_tm1: tf.Tensor | None = None,
    legal_t: tf.Tensor | None = None,
    name: str = "munchausen_quantile",
) -> TdLoss:
    """One-step Munchausen Q-learning on quantiles of the return (M-IQN).

        y[j]     = r_t + munchausen_bonus(q_tm1_target, a_tm1)
                   + discount_t * soft_bootstrap(q_t, z_t)[j]      (no gradient)
        loss     = quantile_huber(z_tm1[a_tm1], taus_tm1, y, kappa)
        target   = mean_j y[j]
        td_error = target - mean_i z_tm1[a_tm1, i]

    Vieillard, Pietquin & Geist (2020).

    Args:
      z_tm1: [B, A, N] float. The only input that receives gradient.
      taus_tm1: [N] or [B, N] float in (0, 1): the fractions of z_tm1.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      z_t: [B, A, M] float: the target network's quantiles at s_t.
      q_t: [B, A] float: the means of z_t, which give the policy at s_t.
      q_tm1_target: [B, A] float: the target network's values at s_tm1.
      kappa: as in `quantile_huber`.
      alpha, temperature, clip: as in `munchausen_bonus`.
      legal_tm1, legal_t: [B, A] bool, at s_tm1 and s_t; None: every action is legal.

    Returns:
      TdLoss(loss, target, td_error), each [B]; target and td_error are of means.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        z_tm1, taus_tm1, a_tm1, r_t, discount_t, z_t, q_t, q_tm1_target, *legal = require_shapes(
            name,
            z_tm1=(z_tm1, "BAN"),
            taus_tm1=(taus_tm1, ("N", "BN")),
            a_tm1=(a_tm1, "B"),
            r_t=(r_t, "B"),
            discount_t=(discount_t, "B"),
            z_t=(z_t, "BAM"),
            q_t=(q_t, "BA"),
            q_tm1_target=(q_tm1_target, "BA"),
            legal_tm1=(legal_tm1, "BA"),
            legal_t=(legal_t, "BA"),
        )
        legal_tm1, legal_t = legal
        bonus = munchausen_bonus(q_tm1_target, a_tm1, alpha, temperature, clip, legal_tm1)  # [B]
        bootstrap = soft_bootstrap(q_t, z_t, temperature, legal_t)  # [B, M]
        return quantile_one_step(z_tm1, taus_tm1, a_tm1, r_t + bonus, discount_t, bootstrap, kappa)
