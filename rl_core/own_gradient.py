"""Gradients of our own in place of those that TensorFlow derives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf


class OwnGradient:
    """A gradient that a graph uses for one function of tensors, in place of TensorFlow's.

        of_square = OwnGradient("Square", lambda dy, x: [2.0 * dy * x])
        y = of_square(x * x, x)

    `tf.custom_gradient` does the same, but registers a function anew at each call, for as long as
    the process lives, and with it the whole graph in which it was called. Outside of graphs the
    gradient is TensorFlow's.

    Args:
      name: differs from that of every other one.
      gradient: given dy, the gradient of the loss with respect to what was computed, and the
        inputs, it returns that with respect to each input; None: none flows there.
    """

    def __init__(self, name: str, gradient: Callable[..., Sequence[tf.Tensor | None]]) -> None:
        self._name = f"Targetnet{name}"

        @tf.RegisterGradient(self._name)
        def of_all(op: tf.Operation, dy: tf.Tensor, *_: Any) -> list[tf.Tensor | None]:
            return [None, *gradient(dy, *op.inputs[1:])]

    def __call__(self, value: tf.Tensor, *inputs: Any) -> tf.Tensor:
        """Returns `value`, as it was computed from the inputs, with this gradient."""
        with tf.get_default_graph().gradient_override_map({"IdentityN": self._name}):
            return tf.identity_n([value, *inputs])[0]
