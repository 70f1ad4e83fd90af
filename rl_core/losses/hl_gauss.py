"""HL-Gauss: a number is learned by cross-entropy with a histogram around it.

The caller weights and averages. No gradient flows through a target.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses.td import TdLoss, at_action, require_shapes


def gaussian_histogram(
    target: tf.Tensor, atoms_z: tf.Tensor, sigma: float | tf.Tensor
) -> tf.Tensor:
    """Returns the mass of a truncated normal distribution in each of N bins.

        width   = the spacing of atoms_z
        x       = clip((target - atoms_z[0]) / width + 1/2, 0, N)
        F(y)    = erf((y - x) / (sqrt(2) * sigma))
        mass[i] = (F(i + 1) - F(i)) / (F(N) - F(0))

    Bins are centred on the atoms, so the outer edges are half a spacing beyond the first and the
    last atom. A target beyond them counts as one at the edge.

    Imani & White (2018), https://arxiv.org/abs/1806.04613; Farebrother et al. (2024),
    https://arxiv.org/abs/2403.03950, section 3.1 and appendix A, who do not clip.

    Args:
      target: [B] float.
      atoms_z: [N] float, evenly spaced and ascending, N >= 2.
      sigma: standard deviation in widths of a bin, > 0; the paper's sigma / width. A number or a
        scalar tensor.

    Returns:
      [B, N] probabilities.

    Raises:
      ShapeError: an argument has the wrong rank.
    """
    target, atoms_z = require_shapes(
        "gaussian_histogram", target=(target, "B"), atoms_z=(atoms_z, "N")
    )
    bins = tf.cast(tf.size(atoms_z), tf.float32)  # []
    width = (atoms_z[-1] - atoms_z[0]) / (bins - 1.0)  # []
    # In widths of a bin: all edges are whole numbers then, whatever the unit of the return.
    x = tf.clip_by_value((target - atoms_z[0]) / width + 0.5, 0.0, bins)  # [B]
    edges = tf.cast(tf.range(tf.size(atoms_z) + 1), tf.float32)  # [N + 1]
    below = tf.math.erf((edges - x[:, tf.newaxis]) / (np.float32(np.sqrt(2)) * sigma))  # [B, N + 1]
    # Where erf is 1 but for its last bit, it may fall by that bit from one edge to the next.
    mass = tf.maximum(below[:, 1:] - below[:, :-1], 0.0)  # [B, N]
    return mass / (below[:, -1:] - below[:, :1])


def hl_gauss(
    logits_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    target: tf.Tensor,
    atoms_z: tf.Tensor,
    sigma: float | tf.Tensor,
    name: str = "hl_gauss",
) -> TdLoss:
    """Cross-entropy of a categorical distribution with a histogram around a given target.

        m        = gaussian_histogram(target, atoms_z, sigma)      (no gradient)
        loss     = -sum_i m[i] * log softmax(logits_tm1[a_tm1])[i]
        td_error = target - sum_i softmax(logits_tm1[a_tm1])[i] * atoms_z[i]

    The target is a number, such as that of Q-learning, and no distribution: the return's
    distribution is not learned. Farebrother et al. (2024), https://arxiv.org/abs/2403.03950,
    section 3.1.

    Args:
      logits_tm1: [B, A, N] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      target: [B] float.
      atoms_z: [N] float, evenly spaced and ascending: the centres of the bins.
      sigma: standard deviation of the histogram in widths of a bin, > 0.

    Returns:
      TdLoss(loss, target, td_error), each [B]; the target is clipped to the range of the bins.

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        logits_tm1, a_tm1, target, atoms_z = require_shapes(
            name,
            logits_tm1=(logits_tm1, "BAN"),
            a_tm1=(a_tm1, "B"),
            target=(target, "B"),
            atoms_z=(atoms_z, "N"),
        )
        target, atoms_z = tf.stop_gradient(target), tf.stop_gradient(atoms_z)
        m = tf.stop_gradient(gaussian_histogram(target, atoms_z, sigma))  # [B, N]
        log_p = tf.nn.log_softmax(at_action(logits_tm1, a_tm1))  # [B, N]
        half = (atoms_z[1] - atoms_z[0]) / 2  # []
        target = tf.clip_by_value(target, atoms_z[0] - half, atoms_z[-1] + half)  # [B]
        q_tm1 = tf.reduce_sum(tf.exp(log_p) * atoms_z, axis=1)  # [B]
        return TdLoss(-tf.reduce_sum(m * log_p, axis=1), target, target - q_tm1)
