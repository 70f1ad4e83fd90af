"""Learning from demonstrations: a margin between the action shown and all others."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.masking import legal_only
from targetnet.rl_core.losses.td import at_action, require_shapes


def large_margin(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    margin: float | tf.Tensor,
    weight: float | tf.Tensor,
    demonstration: tf.Tensor,
    legal_tm1: tf.Tensor | None = None,
) -> tf.Tensor:
    """Large-margin loss of demonstrated actions.

        loss = weight * (max_a (q_tm1[a] + margin * (a != a_tm1)) - q_tm1[a_tm1])

    where a transition is a demonstration, else 0. It is 0 as soon as the action shown is better
    than each other one by the margin. DQfD's J_E, Hester et al. (2018),
    https://arxiv.org/abs/1704.03732, equation 2, whose lambda_2 is `weight`; Piot, Geist & Pietquin
    (2014), https://doi.org/10.1007/978-3-662-44851-9_35. With distributions `q_tm1` are their
    means. A weight of 0 changes no bit of a finite loss.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient: weight at the best other action,
        and -weight at the action shown, unless that is the maximum.
      a_tm1: [B] int in [0, A): the action shown.
      margin: >= 0, a number or scalar tensor.
      weight: >= 0, likewise.
      demonstration: [B] bool.
      legal_tm1: [B, A] bool: the maximum is over legal actions; None: all are.

    Returns:
      [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    q_tm1, a_tm1, demonstration = require_shapes(
        "large_margin",
        q_tm1=(q_tm1, "BA"),
        a_tm1=(a_tm1, "B"),
        demonstration=(demonstration, "B"),
    )
    others = tf.one_hot(a_tm1, tf.shape(q_tm1)[1], on_value=0.0, off_value=1.0)  # [B, A]
    best = tf.reduce_max(legal_only(q_tm1 + margin * others, legal_tm1), axis=1)  # [B]
    above = best - at_action(q_tm1, a_tm1)
    return weight * tf.where_v2(demonstration, above, 0.0)
