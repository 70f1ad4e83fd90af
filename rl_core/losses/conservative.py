"""Conservative Q-learning: a penalty on values of actions that are not in the data."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.masking import legal_only
from targetnet.rl_core.losses.td import at_action, require_shapes


def conservative_penalty(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    weight: float | tf.Tensor,
    legal_tm1: tf.Tensor | None = None,
) -> tf.Tensor:
    """Penalty on how far values of all actions lie above that of the action taken.

        penalty = weight * (log sum_a exp(q_tm1[a]) - q_tm1[a_tm1])

    CQL(H), Kumar et al. (2020), https://arxiv.org/abs/2006.04779, equation 4, whose alpha is
    `weight`. It is 0 at best, where the action taken is by far the best one. With distributions
    `q_tm1` are their means. A weight of 0 changes no bit of a finite loss.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient: weight * (softmax(q_tm1) - 1 at
        the action taken).
      a_tm1: [B] int in [0, A).
      weight: >= 0, a number or scalar tensor.
      legal_tm1: [B, A] bool: the sum is over legal actions; None: all are.

    Returns:
      [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    q_tm1, a_tm1 = require_shapes("conservative_penalty", q_tm1=(q_tm1, "BA"), a_tm1=(a_tm1, "B"))
    of_all = tf.reduce_logsumexp(legal_only(q_tm1, legal_tm1), axis=1)  # [B]
    return weight * (of_all - at_action(q_tm1, a_tm1))
