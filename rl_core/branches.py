"""Values of actions that have several branches: side by side in one row, and apart.

An action of D branches is a choice in each. The values of all choices are a row [A], the branches
one after the other, with A the sum of their sizes. Sizes () are of actions without branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

LOWEST = np.finfo(np.float32).min


def by_branch(values: tf.Tensor, sizes: Sequence[int], fill: Any = LOWEST) -> tf.Tensor:
    """Puts branches apart: [M, A, ...] -> [M, D, n, ...], with n the largest of the sizes [D].

    Args:
      fill: in the places that a smaller branch does not have, behind its own.
    """
    n, rest = max(sizes), values.shape.as_list()[2:]
    if len({*sizes}) < 2:
        return tf.reshape(values, [-1, len(sizes), n, *rest])
    behind = [[0, 0]] * len(rest)
    return tf.stack(
        [
            tf.pad(of, [[0, 0], [0, n - size], *behind], constant_values=fill)
            for of, size in zip(tf.split(values, list(sizes), axis=1), sizes, strict=True)
        ],
        axis=1,
    )


def centred(values: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """Returns values less their mean over each branch: [M, A, ...] -> [M, A, ...]."""
    n, rest = max(sizes), values.shape.as_list()[2:]
    if len({*sizes}) < 2:
        apart = tf.reshape(values, [-1, len(sizes), n, *rest])
        less = apart - tf.reduce_mean(apart, axis=2, keepdims=True)
        return tf.reshape(less, [-1, sum(sizes), *rest])
    return tf.concat(
        [
            of - tf.reduce_mean(of, axis=1, keepdims=True)
            for of in tf.split(values, list(sizes), axis=1)
        ],
        axis=1,
    )
