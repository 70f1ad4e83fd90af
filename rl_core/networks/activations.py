"""Activations: functions of single numbers, which follow a layer."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow.compat.v1 as tf

Activation = Callable[[tf.Tensor], tf.Tensor]


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Returns x times the normal distribution's share below x, Hendrycks & Gimpel (2016).

    https://arxiv.org/abs/1606.08415; PyTorch's GELU, and that of JAX with approximate=False.
    """
    return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2.0)))


def silu(x: tf.Tensor) -> tf.Tensor:
    """Returns x times sigmoid(x): Elfwing, Uchibe & Doya (2018), https://arxiv.org/abs/1702.03118."""
    return x * tf.sigmoid(x)


# Clevert et al. (2016), https://arxiv.org/abs/1511.07289, is the source of elu.
ACTIVATIONS: dict[str, Activation] = {
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "elu": tf.nn.elu,
    "gelu": gelu,
    "silu": silu,
}
