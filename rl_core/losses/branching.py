"""The target of actions with several branches.

The caller makes the loss of each branch. No gradient flows through a target.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.td import require_shapes


def branching_target(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t_value: tf.Tensor,
    q_t_selector: tf.Tensor,
    name: str = "branching_target",
) -> tf.Tensor:
    """One target for all branches of an action: the mean of what the best choices are worth.

        target = r_t + discount_t * mean_d q_t_value[d, argmax_a q_t_selector[d, a]]  (no gradient)

    Tavakoli, Pardo & Kormushev (2018), https://arxiv.org/abs/1711.08946, who found it better than a
    target for each branch, and than the largest over the branches.

    Args:
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      q_t_value: [B, D, A] float, of D branches, usually the target network's.
      q_t_selector: [B, D, A] float, usually the online network's; the lowest float where a branch
        has no action, or an illegal one.

    Returns:
      [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        r_t, discount_t, q_t_value, q_t_selector = require_shapes(
            name,
            r_t=(r_t, "B"),
            discount_t=(discount_t, "B"),
            q_t_value=(q_t_value, "BDA"),
            q_t_selector=(q_t_selector, "BDA"),
        )
        best = tf.argmax(q_t_selector, axis=2, output_type=tf.int32)  # [B, D]
        worth = tf.gather(q_t_value, best, axis=2, batch_dims=2)  # [B, D]
        return tf.stop_gradient(r_t + discount_t * tf.reduce_mean(worth, axis=1))
