"""Action masks: illegal actions get a value so low that no maximum chooses them."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.td import require_shapes


def legal_only(q: tf.Tensor, legal: tf.Tensor | None) -> tf.Tensor:
    """Returns action values with the lowest finite float at illegal actions.

        legal_only(q, legal)[a] = q[a] if legal[a], else the float32 minimum

    The minimum is finite, so 0 * bootstrap is 0 even if an episode ended without a legal action.
    Huang & Ontanon (2020), https://arxiv.org/abs/2006.14171.

    Args:
      q: [B, A] float. Only legal actions receive gradient.
      legal: [B, A] bool, or None: every action is legal, and `q` itself is returned.

    Returns:
      [B, A] float.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    if legal is None:
        return q
    q, legal = require_shapes("legal_only", q=(q, "BA"), legal=(legal, "BA"))
    return tf.where(legal, q, tf.fill(tf.shape(q), tf.float32.min))
