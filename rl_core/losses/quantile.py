"""Quantile TD losses on quantiles of the return, one value per transition.

The caller weights and averages. No gradient flows through a target.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.td import TdLoss, at_action, at_best, huber, require_shapes


def quantile_midpoints(n: int) -> np.ndarray:
    """Returns the midpoints of n equal parts of (0, 1): (i + 1/2) / n, [n] float32.

    Dabney et al. (2018), https://arxiv.org/abs/1710.10044, lemma 2.
    """
    return (np.arange(n, dtype=np.float32) + 0.5) / n


def quantile_huber(
    z: tf.Tensor,
    taus: tf.Tensor,
    target: tf.Tensor,
    kappa: float | tf.Tensor,
    masses: tf.Tensor | None = None,
) -> tf.Tensor:
    """Quantile Huber loss: quantile regression that is quadratic for small errors.

        u_ij = target[j] - z[i]
        loss = sum_i mean_j |taus[i] - 1{u_ij < 0}| * huber(u_ij, kappa) / kappa

    Dabney et al. (2018), https://arxiv.org/abs/1710.10044, equation 10; divided by kappa as in
    Dabney et al. (2018b), https://arxiv.org/abs/1806.06923, so that for a small kappa the loss
    approaches plain quantile regression.

    Args:
      z: [B, N] float. The only input that receives gradient.
      taus: [N] or [B, N] float in (0, 1): the fraction of each quantile in z.
      target: [B, M] float: samples or quantiles.
      kappa: > 0, a number or scalar tensor: the error at which the loss turns from quadratic to
        linear.
      masses: [B, M] float, with the sum 1: weights of the targets in the mean over j; None: equal.

    Returns:
      [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    z, taus, target, kappa, masses = require_shapes(
        "quantile_huber",
        z=(z, "BN"),
        taus=(taus, ("N", "BN")),
        target=(target, "BM"),
        kappa=(tf.cast(kappa, tf.float32), ""),
        masses=(masses, "BM"),
    )
    u = tf.stop_gradient(target)[:, tf.newaxis, :] - z[:, :, tf.newaxis]  # [B, N, M]
    below = tf.cast(u < 0.0, u.dtype)  # [B, N, M]
    weight = tf.stop_gradient(tf.abs(taus[..., tf.newaxis] - below))  # [B, N, M]
    each = weight * huber(u, kappa) / kappa  # [B, N, M]
    if masses is None:
        return tf.reduce_sum(tf.reduce_mean(each, axis=2), axis=1)
    return tf.reduce_sum(tf.stop_gradient(masses)[:, tf.newaxis] * each, axis=[1, 2])


def quantile_q_learning(
    z_tm1: tf.Tensor,
    taus_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    z_t: tf.Tensor,
    q_t_selector: tf.Tensor,
    kappa: float | tf.Tensor = 1.0,
    name: str = "quantile_q_learning",
) -> TdLoss:
    """One-step Q-learning on quantiles of the return (QR-DQN; IQN with drawn fractions).

        b        = argmax_a q_t_selector[a]
        y[j]     = r_t + discount_t * z_t[b, j]      (no gradient)
        loss     = quantile_huber(z_tm1[a_tm1], taus_tm1, y, kappa)
        target   = mean_j y[j]
        td_error = target - mean_i z_tm1[a_tm1, i]

    Dabney et al. (2018), https://arxiv.org/abs/1710.10044, algorithm 1; Dabney et al. (2018b),
    https://arxiv.org/abs/1806.06923.

    Args:
      z_tm1: [B, A, N] float. The only input that receives gradient.
      taus_tm1: [N] or [B, N] float in (0, 1): the fractions of z_tm1.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      z_t: [B, A, M] float, at fractions of equal weight.
      q_t_selector: [B, A] float, already masked: the means of z_t, or for double Q-learning the
        online network's values.
      kappa: as in `quantile_huber`.

    Returns:
      TdLoss(loss, target, td_error), each [B]; target and td_error are of means.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        z_tm1, taus_tm1, a_tm1, r_t, discount_t, z_t, q_t_selector = require_shapes(
            name,
            z_tm1=(z_tm1, "BAN"),
            taus_tm1=(taus_tm1, ("N", "BN")),
            a_tm1=(a_tm1, "B"),
            r_t=(r_t, "B"),
            discount_t=(discount_t, "B"),
            z_t=(z_t, "BAM"),
            q_t_selector=(q_t_selector, "BA"),
        )
        bootstrap = at_best(z_t, q_t_selector)  # [B, M]
        return quantile_one_step(z_tm1, taus_tm1, a_tm1, r_t, discount_t, bootstrap, kappa)


def quantile_one_step(
    z_tm1: tf.Tensor,
    taus_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    bootstrap: tf.Tensor,
    kappa: float | tf.Tensor,
) -> TdLoss:
    """Returns the loss of `quantile_q_learning` for given quantiles of s_t, `bootstrap` [B, M]."""
    za_tm1 = at_action(z_tm1, a_tm1)  # [B, N]
    y = tf.stop_gradient(r_t[:, tf.newaxis] + discount_t[:, tf.newaxis] * bootstrap)  # [B, M]
    loss = quantile_huber(za_tm1, taus_tm1, y, kappa)  # [B]
    target = tf.reduce_mean(y, axis=1)  # [B]
    return TdLoss(loss, target, target - tf.reduce_mean(za_tm1, axis=1))


def fraction_loss(
    shares: tf.Tensor,
    z_edges: tf.Tensor,
    z: tf.Tensor,
    a_tm1: tf.Tensor,
    entropy_weight: float | tf.Tensor,
    name: str = "fraction_loss",
) -> tf.Tensor:
    """Loss of proposed fractions (FQF): its gradient is that of a 1-Wasserstein distance.

        edge[i]  = share[0] + ... + share[i]                              i = 0 ... N - 2
        slope[i] = 2 * z_edges[a_tm1, i] - z[a_tm1, i] - z[a_tm1, i + 1]      (no gradient)
        loss     = sum_i slope[i] * edge[i] - entropy_weight * entropy
        entropy  = - sum_i share[i] * log(share[i])

    Yang et al. (2019), https://arxiv.org/abs/1911.02140: the slope is the distance's derivative by
    an edge (proposition 1), for quantiles that grow with their fractions. The value of the loss is
    not the distance.

    Args:
      shares: [B, N] float, with the sum 1. The only input that receives gradient.
      z_edges: [B, A, M] float, M = N - 1: quantiles at the edges between the shares.
      z: [B, A, N] float: quantiles in the middle of the shares.
      a_tm1: [B] int in [0, A).
      entropy_weight: a number or scalar tensor.

    Returns:
      [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        shares, z_edges, z, a_tm1, entropy_weight = require_shapes(
            name,
            shares=(shares, "BN"),
            z_edges=(z_edges, "BAM"),
            z=(z, "BAN"),
            a_tm1=(a_tm1, "B"),
            entropy_weight=(tf.cast(entropy_weight, tf.float32), ""),
        )
        za = at_action(z, a_tm1)  # [B, N]
        slope = 2.0 * at_action(z_edges, a_tm1) - za[:, :-1] - za[:, 1:]  # [B, M]
        edges = tf.cumsum(shares, axis=1)[:, :-1]  # [B, M]
        # A share may be too small for float32, where its logarithm would be infinite.
        entropy = -tf.reduce_sum(shares * tf.math.log(tf.maximum(shares, 1e-30)), axis=1)  # [B]
        loss = tf.reduce_sum(tf.stop_gradient(slope) * edges, axis=1)  # [B]
        return loss - entropy_weight * entropy
