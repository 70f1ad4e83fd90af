"""Refusal of an update that would make a weight NaN or infinite.

The numerics of an update are its loss, its gradient norm and its learning rate, in one tensor. If
they are finite, every weight is finite after the update, for these reasons. Adam moves a weight by
less than 8 times the learning rate, or by less than 4e-18 / epsilon times the learning rate where
the squared gradient underflows to 0. A gradient with a finite norm is below 2e19. With a learning
rate of at most 1e18 and an epsilon of at least 1e-30 no product overflows, and a step is smaller
than half of the last place of the largest float32, so no weight can exceed the largest float32.
Steps of other optimizers, and what weight decay takes off, are cut at 1e30, which is smaller too.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import RlCoreError

LARGEST_RATE = 1e18
_NOT_FINITE = "an update was not made: its loss or gradient norm is not finite"
# A learning rate above LARGEST_RATE times this factor is infinite.
_RATE_SCALE = float(np.finfo(np.float32).max) / LARGEST_RATE


class NotFinite(RlCoreError, ArithmeticError):
    """An update was not made, because its loss, gradient norm or rate is not finite.

    Attributes:
      numerics: of the update, as `numerics_of` returns them.
    """

    def __init__(self, numerics: np.ndarray) -> None:
        super().__init__(_NOT_FINITE)
        self.numerics = numerics


def numerics_of(
    loss: tf.Tensor, grad_norm: tf.Tensor, learning_rate: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the scalars that must be finite, as [3], or as [2] without a learning rate."""
    if learning_rate is None:
        return tf.stack([loss, grad_norm])
    return tf.stack([loss, grad_norm, learning_rate * _RATE_SCALE])


def all_finite(numerics: tf.Tensor) -> tf.Tensor:
    """Returns a bool scalar: all numerics are finite."""
    return tf.reduce_all(tf.math.is_finite(numerics))


def checked(numerics: tf.Tensor) -> tf.Tensor:
    """Returns the numerics behind a check: if one is not finite, the call raises.

    Ops with a control dependency on the result then do not run. XLA drops the check, so place it
    outside compiled functions.
    """
    return tf.debugging.check_numerics(numerics, _NOT_FINITE)


def was_not_finite(error: tf.errors.OpError) -> bool:
    """Returns True if `checked` raised this error."""
    return _NOT_FINITE in error.message


def where(condition: tf.Tensor | None, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    """Returns `new` if the scalar condition holds or is None, else `old`."""
    return new if condition is None else tf.where_v2(condition, new, old)
