"""Noticing an update that leads out of what is finite, before anything of it is kept.

The signs of an update are its loss, its gradient norm and its learning rate, in one tensor. If
they are finite, so is every weight after the update. Adam moves a weight by less than 8 times the
learning rate, or by 4e-18 / epsilon times it where squares of gradients vanish; a gradient whose
norm is finite is below 2e19. With a learning rate of 1e18 and an epsilon of 1e-30 no product
overflows, and a step stays below half of the last place of the largest float32, so that no weight
can be carried beyond it.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.errors import RlCoreError

LARGEST_RATE = 1e18
LEAST_EPSILON = 1e-30
_NOT_FINITE = "an update was not made: its loss or gradient norm is not finite"
# A learning rate above the largest becomes infinite by this.
_REACH = float(np.finfo(np.float32).max) / LARGEST_RATE


class NotFinite(RlCoreError, ArithmeticError):
    """An update was not made.

    Attributes:
      signs: of the update.
    """

    def __init__(self, signs: np.ndarray) -> None:
        super().__init__(_NOT_FINITE)
        self.signs = signs


def signs_of(
    loss: tf.Tensor, grad_norm: tf.Tensor, learning_rate: tf.Tensor | None = None
) -> tf.Tensor:
    """[3] or, without a learning rate, [2]: what must be finite, all scalars."""
    if learning_rate is None:
        return tf.stack([loss, grad_norm])
    return tf.stack([loss, grad_norm, learning_rate * _REACH])


def all_finite(signs: tf.Tensor) -> tf.Tensor:
    """Bool scalar."""
    return tf.reduce_all(tf.math.is_finite(signs))


def checked(signs: tf.Tensor) -> tf.Tensor:
    """The signs; what waits for them is not run if one is not finite, and the call raises.

    XLA leaves this check out: put it outside of what it compiles.
    """
    return tf.debugging.check_numerics(signs, _NOT_FINITE)


def was_not_finite(error: tf.errors.OpError) -> bool:
    """Whether it was `checked` that raised this."""
    return _NOT_FINITE in error.message


def where(condition: tf.Tensor | None, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    """`new` if the scalar condition holds, or if there is none."""
    return new if condition is None else tf.where_v2(condition, new, old)
