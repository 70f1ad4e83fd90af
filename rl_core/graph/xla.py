"""Arithmetic in a form that XLA compiles well for the CPU; elsewhere plain operations.

On the CPU, XLA is good at products of large matrices and of a vector and a matrix. It is bad at:
a product with one small dimension, which costs as much as with a larger one; convolutions, which
take 3 to 12 times as long as a product of the patches with the weights; sums, which add one number
at a time, while a product with ones adds eight; and conditions, which copy every variable that a
branch may change. TensorFlow's plain operations have good kernels for all of these.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import operator
import re
from collections.abc import Callable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.variable_overrides import current_overrides
from targetnet.rl_core.own_gradient import OwnGradient

_COMPILED = contextvars.ContextVar("compiled", default=False)
# Measured with batches of 64 and layers of 64. Up to _FEW_COLUMNS columns, one product with a
# vector per column is faster than a matrix product; up to _FEW_ROWS rows, a sum of multiples of
# the rows is.
_FEW_COLUMNS, _FEW_ROWS = 4, 8
_HALVINGS = 4


_UNSUPPORTED = re.compile(r"unsupported operations when trying to compile .*?: (\w+)")


def why_not_compiled(error: tf.errors.OpError) -> str | None:
    """Returns why XLA cannot compile the call that raised `error`; None for another error.

    A call that fails to compile has not changed any variable.
    """
    if "tf2xla conversion failed" not in error.message:
        return None
    missing = _UNSUPPORTED.search(error.message)
    return f"XLA has no {missing[1]}" if missing else error.message.partition("\n")[0]


@contextlib.contextmanager
def built_for_xla(wanted: bool = True) -> Iterator[None]:
    """Makes the functions below build the form for XLA inside this context."""
    token = _COMPILED.set(wanted)
    try:
        yield
    finally:
        _COMPILED.reset(token)


def building_for_xla() -> bool:
    """Returns True while what is built is for XLA."""
    return _COMPILED.get()


def product(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Returns x @ w: [B, n], [n, m] -> [B, m]."""
    if not building_for_xla():
        return x @ w
    x, w = tf.convert_to_tensor(x), tf.convert_to_tensor(w)
    n, m = w.shape.as_list()
    if n <= _FEW_ROWS:
        y = _outer_products(x, w)
    elif m <= _FEW_COLUMNS:
        y = tf.stack([tf.linalg.matvec(x, w[:, j]) for j in range(m)], axis=1)
    else:
        y = x @ w
    return _OF_PRODUCT(y, x, w)


def _gradient_of_product(dy: tf.Tensor, x: tf.Tensor, w: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    m = int(w.shape[1])
    if m > _FEW_COLUMNS:
        return tf.matmul(dy, w, transpose_b=True), tf.matmul(x, dy, transpose_a=True)
    dx = _outer_products(dy, tf.transpose(w)) if m <= 2 else dy @ tf.transpose(w)
    return dx, tf.stack([tf.linalg.matvec(tf.transpose(x), dy[:, j]) for j in range(m)], 1)


_OF_PRODUCT = OwnGradient("Product", _gradient_of_product)


def _outer_products(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Returns x @ w as a sum of multiples of w's rows; XLA fuses it with the following ops."""
    terms = [x[:, i, tf.newaxis] * w[i] for i in range(int(w.shape[0]))]
    return functools.reduce(operator.add, terms)


def convolve(inputs: tf.Tensor, w: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Returns a convolution: [B, H, W, C], [k, k, C, F] -> [B, H', W', F].

    Args:
      padding: "VALID" or "SAME".
    """
    if not building_for_xla():
        return tf.nn.conv2d(inputs, w, strides=stride, padding=padding)
    if padding == "SAME":
        inputs = _padded(inputs, int(w.shape[0]), stride)
    return _product_of_patches(inputs, w, stride)


def add_bias(inputs: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns inputs [..., n] + b [n]."""
    if not building_for_xla():
        return tf.nn.bias_add(inputs, b)

    b = tf.convert_to_tensor(b)
    return _OF_SUM(inputs + b, inputs, b)


def _gradient_of_sum(dy: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    rows = tf.reshape(dy, [-1, dy.shape[-1]])
    ones = tf.ones([1, tf.shape(rows)[0]])
    return dy, tf.reshape(ones @ rows, [-1])


_OF_SUM = OwnGradient("Sum", _gradient_of_sum)


def sum_of_squares(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the sum of the squares of all elements of all tensors: []."""
    if not building_for_xla():
        return 2.0 * tf.add_n([tf.nn.l2_loss(t) for t in tensors])
    squares = tf.square(flat(tensors))
    half = int(squares.shape[0])
    for _ in range(_HALVINGS):
        half //= 2
        squares = squares[:half] + squares[half:]
    return tf.reduce_sum(squares)


def flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns all elements as [n], with zeros appended until n is a multiple of 2**_HALVINGS."""
    parts = [tf.reshape(t, [-1]) for t in tensors]
    missing = -sum(int(part.shape[0]) for part in parts) % 2**_HALVINGS
    if missing:
        parts.append(tf.zeros([missing], parts[0].dtype))
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)


def when(condition: tf.Tensor, do: Callable[[], tf.Operation]) -> tf.Tensor:
    """Runs `do` if `condition`, a bool scalar, holds; returns `condition` after that.

    It is a `tf.cond`; for XLA a loop of at most one iteration. Where values stand in for variables
    (`variable_overrides`) `do` is always built, and what it assigns is selected by `condition`.
    """

    def done(value: bool) -> tf.Tensor:
        with tf.control_dependencies([do()]):
            return tf.constant(value)

    others = current_overrides()
    if others is not None:
        with others.only_if(condition):
            do()
        return condition
    if not building_for_xla():
        return tf.cond(condition, lambda: done(True), lambda: tf.constant(False))
    # A loop with zero or one iteration: it works in place, while a condition would copy every
    # variable each time.
    ended = tf.while_loop(
        lambda again: again, lambda _: (done(False),), [condition], parallel_iterations=1
    )
    with tf.control_dependencies([ended]):
        return tf.identity(condition)


def _product_of_patches(x: tf.Tensor, w: tf.Tensor, stride: int) -> tf.Tensor:
    k, _, channels, filters = w.shape.as_list()
    rows, columns = ((size - k) // stride + 1 for size in x.shape.as_list()[1:3])
    shifted = [
        x[:, i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
        for i in range(k)
        for j in range(k)
    ]
    patches = tf.reshape(tf.concat(shifted, axis=3), [-1, k * k * channels])
    product = patches @ tf.reshape(w, [k * k * channels, filters])
    return tf.reshape(product, [-1, rows, columns, filters])


def _padded(x: tf.Tensor, k: int, stride: int) -> tf.Tensor:
    """Returns x with the zeros of "SAME" padding: ceil(size / stride) outputs, an odd zero last."""
    around = [[0, 0]]
    for size in x.shape.as_list()[1:3]:
        more = max((-(-size // stride) - 1) * stride + k - size, 0)
        around.append([more // 2, more - more // 2])
    return tf.pad(x, [*around, [0, 0]])
