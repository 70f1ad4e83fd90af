"""Rescaled values: a function that makes large returns small, and its inverse."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

_EPSILON = 1e-3  # of both papers; keeps the inverse Lipschitz


def rescaled(x: tf.Tensor) -> tf.Tensor:
    """Returns h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x, elementwise.

    Pohlen et al. (2018), https://arxiv.org/abs/1805.11593; used by R2D2, Kapturowski et al. (2019),
    https://openreview.net/forum?id=r1lyTjAqYX.
    """
    size = tf.abs(x)
    # sqrt(|x| + 1) - 1 without the difference of two numbers that are nearly alike.
    return tf.sign(x) * size / (tf.sqrt(size + 1.0) + 1.0) + _EPSILON * x


def unscaled(y: tf.Tensor) -> tf.Tensor:
    """Returns the x for which `rescaled(x)` is y, elementwise.

    sign(y) (((sqrt(1 + 4 e (|y| + 1 + e)) - 1) / (2 e))^2 - 1),  e = 0.001
    """
    size = tf.abs(y)
    # Let s = sqrt(|x| + 1) - 1: |y| = s + e s (s + 2), of which this is the root above 0, again
    # without a difference of numbers that are nearly alike.
    linear = 1.0 + 2.0 * _EPSILON
    s = 2.0 * size / (linear + tf.sqrt(linear * linear + 4.0 * _EPSILON * size))
    return tf.sign(y) * s * (s + 2.0)
