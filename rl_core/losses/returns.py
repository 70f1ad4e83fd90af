"""Returns over many steps, as targets: one value per transition, never reduced.

No gradient flows through a target.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.td import require_shapes


def lambda_returns(
    r_t: tf.Tensor, discount_t: tf.Tensor, v_t: tf.Tensor, lambda_t: tf.Tensor
) -> tf.Tensor:
    """Lambda-returns of T consecutive steps, computed backwards.

        G[t]   = r_t[t] + discount_t[t] * ((1 - lambda_t[t]) * v_t[t] + lambda_t[t] * G[t + 1])
        G[T]   = v_t[T - 1]

    With v_t the largest action value of each step's destination these are the targets of Q(lambda):
    Peng & Williams (1996), https://doi.org/10.1007/BF00114731, which does not cut the return where
    an action was not greedy; Daley & Amato (2019), https://arxiv.org/abs/1810.09967;
    Gallici et al. (2024), https://arxiv.org/abs/2407.04811 (PQN).

    Args:
      r_t: [T, B] float.
      discount_t: [T, B] float; 0 where the episode terminated.
      v_t: [T, B] float, of the destinations: what is bootstrapped from.
      lambda_t: [T, B] float in [0, 1]; 0 where a return must not go on, such as where the episode
        was truncated: it bootstraps from that step's destination alone.

    Returns:
      [T, B], without gradient.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope("lambda_returns"):
        steps = require_shapes(
            "lambda_returns",
            r_t=(r_t, "TB"),
            discount_t=(discount_t, "TB"),
            v_t=(v_t, "TB"),
            lambda_t=(lambda_t, "TB"),
        )

        def one_earlier(after: tf.Tensor, step: tuple[tf.Tensor, ...]) -> tf.Tensor:
            r, discount, v, share = step
            return r + discount * ((1.0 - share) * v + share * after)

        last = steps[2][-1]  # [B]
        returns = tf.scan(one_earlier, tuple(steps), last, parallel_iterations=1, reverse=True)
        return tf.stop_gradient(returns)
