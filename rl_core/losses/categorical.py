"""Categorical TD losses over fixed atoms of the return, one value per transition.

The caller weights and averages. No gradient flows through a target.
"""

from __future__ import annotations

import numbers

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import BoundsError, quoted
from targetnet.rl_core.losses.td import TdLoss, at_action, at_best, require_shapes


def support(v_min: float, v_max: float, atoms: int) -> np.ndarray:
    """Returns evenly spaced atoms from `v_min` to `v_max`, both included: [N] float32.

    Raises:
      BoundsError: `v_min` is not below `v_max`, or there are fewer than 2 atoms.
    """
    if not v_min < v_max:
        raise BoundsError(f"support: v_min must be below v_max, got {v_min} and {v_max}")
    if not isinstance(atoms, numbers.Integral) or atoms < 2:
        raise BoundsError(f"support: atoms must be a whole number >= 2, got {quoted(atoms)}")
    return np.linspace(v_min, v_max, atoms, dtype=np.float32)


def categorical_projection(z_p: tf.Tensor, p: tf.Tensor, z_q: tf.Tensor) -> tf.Tensor:
    """Projects a distribution onto other atoms; each atom splits its mass between two neighbours.

        x_j  = clip((z_p[j] - z_q[0]) / dz, 0, N - 1)      dz = the spacing of z_q
        q[i] = sum_j p[j] * max(0, 1 - |x_j - i|)

    Mass beyond the ends of `z_q` goes to the ends. The total mass stays the same, and so does the
    mean of the mass between the ends.

    Bellemare, Dabney & Munos (2017), https://arxiv.org/abs/1707.06887, equation 7.

    Args:
      z_p: [B, M] float: the given atoms.
      p: [B, M] float: the probabilities of the given atoms.
      z_q: [N] float, evenly spaced and ascending, N >= 2: the new atoms.

    Returns:
      [B, N] probabilities.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    z_p, p, z_q = require_shapes(
        "categorical_projection", z_p=(z_p, "BM"), p=(p, "BM"), z_q=(z_q, "N")
    )
    last = tf.cast(tf.size(z_q) - 1, tf.float32)  # []
    spacing = (z_q[-1] - z_q[0]) / last  # []
    # Positions are in steps of the spacing, not in units of return: the two shares of an atom are
    # then exactly s and 1 - s, and rounding loses no mass.
    x = tf.clip_by_value((z_p - z_q[0]) / spacing, 0.0, last)  # [B, M]
    i = tf.cast(tf.range(tf.size(z_q)), tf.float32)  # [N]
    distance = tf.abs(x[:, tf.newaxis, :] - i[:, tf.newaxis])  # [B, N, M]
    share = tf.maximum(1.0 - distance, 0.0)  # [B, N, M]
    return tf.reduce_sum(p[:, tf.newaxis, :] * share, axis=2)


def categorical_q_learning(
    logits_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    p_t: tf.Tensor,
    q_t_selector: tf.Tensor,
    atoms_z: tf.Tensor,
    name: str = "categorical_q_learning",
) -> TdLoss:
    """One-step Q-learning on the distribution of returns (C51).

        b        = argmax_a q_t_selector[a]
        m        = p_t[b] at r_t + discount_t * atoms_z, projected on atoms_z      (no gradient)
        loss     = -sum_i m[i] * log softmax(logits_tm1[a_tm1])[i]
        target   = sum_i m[i] * atoms_z[i]
        td_error = target - sum_i softmax(logits_tm1[a_tm1])[i] * atoms_z[i]

    Bellemare, Dabney & Munos (2017), https://arxiv.org/abs/1707.06887, algorithm 1; with the
    online network as selector, double Q-learning as in Hessel et al. (2018),
    https://arxiv.org/abs/1710.02298.

    Args:
      logits_tm1: [B, A, N] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      p_t: [B, A, N] float: probabilities, not logits.
      q_t_selector: [B, A] float, already masked: the expected values of p_t, or for double
        Q-learning the online network's values.
      atoms_z: [N] float, evenly spaced and ascending.

    Returns:
      TdLoss(loss, target, td_error), each [B]; target and td_error are of expected values.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        logits_tm1, a_tm1, r_t, discount_t, p_t, q_t_selector, atoms_z = require_shapes(
            name,
            logits_tm1=(logits_tm1, "BAN"),
            a_tm1=(a_tm1, "B"),
            r_t=(r_t, "B"),
            discount_t=(discount_t, "B"),
            p_t=(p_t, "BAN"),
            q_t_selector=(q_t_selector, "BA"),
            atoms_z=(atoms_z, "N"),
        )
        moved = r_t[:, tf.newaxis] + discount_t[:, tf.newaxis] * atoms_z  # [B, N]
        m = tf.stop_gradient(
            categorical_projection(moved, at_best(p_t, q_t_selector), atoms_z)
        )  # [B, N]
        log_p = tf.nn.log_softmax(at_action(logits_tm1, a_tm1))  # [B, N]
        loss = -tf.reduce_sum(m * log_p, axis=1)  # [B]
        atoms_z = tf.stop_gradient(atoms_z)
        target = tf.reduce_sum(m * atoms_z, axis=1)  # [B]
        return TdLoss(loss, target, target - tf.reduce_sum(tf.exp(log_p) * atoms_z, axis=1))
