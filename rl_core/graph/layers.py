"""Layers by `get_variable`, so that scopes, reuse and custom getters apply to them.

Keras layers ignore custom getters, which is what guards a target network here.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import numbers
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.arguments import require_whole
from targetnet.rl_core.errors import BoundsError, ScopeMismatch, ShapeError, quoted
from targetnet.rl_core.graph.scopes import current_root
from targetnet.rl_core.graph.xla import add_bias, convolve, product
from targetnet.rl_core.random import Draws


class Layer(NamedTuple):
    """A layer that was built.

    Attributes:
      kind: dense, conv2d or layer_norm.
      scope: full name of its variables' scope.
      inputs, outputs: [..., n] and [..., units].
    """

    kind: str
    scope: str
    inputs: tf.Tensor
    outputs: tf.Tensor


_BUILT: contextvars.ContextVar[tuple[tf.Graph, list[Layer]] | None] = contextvars.ContextVar(
    "built", default=None
)


@contextlib.contextmanager
def layers_built() -> Iterator[list[Layer]]:
    """Gives a list to which each layer is added that is built in this graph inside this context."""
    built: list[Layer] = []
    token = _BUILT.set((tf.get_default_graph(), built))
    try:
        yield built
    finally:
        _BUILT.reset(token)


def dense(inputs: tf.Tensor, units: int, name: str, *, initializer: Any = None) -> tf.Tensor:
    """`inputs @ w + b`: [B, n] -> [B, units].

    Args:
      initializer: for w; by default uniform within 1 / sqrt(n), as for b: LeCun et al. (1998),
        "Efficient BackProp", and the default of PyTorch's linear layer.

    Raises:
      ShapeError: the inputs are not [B, n] with n known.
    """
    fan_in = _known_last_dimension(inputs, 2, f"dense {name!r}")
    require_whole(f"units of dense {name!r}", units, 1)
    with tf.variable_scope(name):
        w = _variable("w", [fan_in, units], initializer or _uniform(fan_in, "w"))
        b = _variable("b", [units], _uniform(fan_in, "b"))
        return _built("dense", inputs, add_bias(product(inputs, w), b))


def noisy_dense(
    inputs: tf.Tensor, units: int, name: str, draws: Draws | None, *, sigma: float = 0.5
) -> tf.Tensor:
    """A dense layer whose weights have noise of a size that is learned: [B, n] -> [B, units].

        y   = inputs @ (w + w_sigma * eps_w) + b + b_sigma * eps_b
        eps_w[i, j] = f(e[i]) f(e[j]),  eps_b[j] = f(e[j]),  f(x) = sign(x) sqrt(|x|)

    with n + units independent standard normal e: the factorised noise of Fortunato et al.
    (2018), https://arxiv.org/abs/1706.10295. One draw serves the whole batch.

    Args:
      draws: where e comes from; None leaves the noise out, which is the layer's mean.
      sigma: the paper's sigma_0: w_sigma and b_sigma begin at sigma / sqrt(n).

    Raises:
      ShapeError: as for `dense`.
    """
    fan_in = _known_last_dimension(inputs, 2, f"noisy_dense {name!r}")
    mean = dense(inputs, units, name)  # [B, units]
    with tf.variable_scope(name) as scope:
        start = tf.constant_initializer(sigma / math.sqrt(fan_in))
        w_sigma = _variable("w_sigma", [fan_in, units], start)
        b_sigma = _variable("b_sigma", [units], start)
    if draws is None:
        return mean
    path = current_root().relative(scope.name)
    into = _signed_root(draws.normal(f"{path}/into", [fan_in]))  # [n]
    out = _signed_root(draws.normal(f"{path}/out", [units]))  # [units]
    return mean + (product(inputs * into, w_sigma) + b_sigma) * out


def dropout(
    inputs: tf.Tensor, rate: tf.Tensor | float, draws: Draws | None, name: str = "dropout"
) -> tf.Tensor:
    """Sets each element to 0 with probability `rate`, and divides the others by 1 - rate.

    Srivastava et al. (2014), https://jmlr.org/papers/v15/srivastava14a.html. `tf.nn.dropout` has
    a state that no checkpoint keeps; these numbers follow from the seed and the update.

    Args:
      inputs: [B, ...] float32.
      rate: in [0, 1); a scalar tensor may be fed, and change from call to call.
      draws: random numbers, as a network function is given them in an update; None returns
        `inputs`.
      name: differs from that of every other dropout in the same scope.

    Raises:
      BoundsError: `rate` is a number outside [0, 1).
    """
    if isinstance(rate, numbers.Real) and not 0 <= float(rate) < 1:
        raise BoundsError(f"rate of dropout {name!r} must be in [0, 1), got {quoted(rate)}")
    if draws is None:
        return inputs
    path = current_root().relative(tf.get_variable_scope().name)
    with tf.name_scope(name):
        shape = inputs.shape.as_list() if inputs.shape.is_fully_defined() else tf.shape(inputs)
        kept = draws.uniform(f"{path}/{name}", shape) >= rate
        return tf.where(kept, inputs / (1.0 - rate), tf.zeros_like(inputs))


def conv2d(
    inputs: tf.Tensor, filters: int, kernel: int, stride: int, name: str, *, padding: str = "VALID"
) -> tf.Tensor:
    """2-D convolution with bias: [B, H, W, C] -> [B, H', W', filters].

    It computes in the dtype of its inputs; its weights are float32.

    Args:
      kernel: height and width of the filters.
      padding: "VALID" or "SAME".

    Raises:
      ShapeError: the inputs are not [B, H, W, C] with C known.
      ArgumentError, BoundsError: a size is no whole number >= 1, or the padding is another word.
    """
    for what, size in (("filters", filters), ("kernel", kernel), ("stride", stride)):
        require_whole(f"{what} of conv2d {name!r}", size, 1)
    if padding not in ("VALID", "SAME"):
        raise BoundsError(
            f"padding of conv2d {name!r} must be 'VALID' or 'SAME', got {quoted(padding)}"
        )
    channels = _known_last_dimension(inputs, 4, f"conv2d {name!r}")
    fan_in = kernel * kernel * channels
    with tf.variable_scope(name):
        w = _variable("w", [kernel, kernel, channels, filters], _uniform(fan_in, "w"))
        b = _variable("b", [filters], _uniform(fan_in, "b"))
        w, b = in_dtype(w, inputs.dtype), in_dtype(b, inputs.dtype)
        return _built("conv2d", inputs, add_bias(convolve(inputs, w, stride, padding), b))


def layer_norm(inputs: tf.Tensor, name: str, *, epsilon: float = 1e-5) -> tf.Tensor:
    """Normalises the last dimension, then scales and shifts it; shape and dtype stay.

    It computes in float32. Ba et al. (2016), https://arxiv.org/abs/1607.06450.
    """
    size = _known_last_dimension(inputs, None, f"layer_norm {name!r}")
    with tf.variable_scope(name):
        scale = _variable("scale", [size], tf.ones_initializer())
        offset = _variable("offset", [size], tf.zeros_initializer())
        x = in_dtype(inputs, tf.float32)
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        normal = (x - mean) * tf.rsqrt(variance + epsilon) * scale + offset
        return _built("layer_norm", inputs, in_dtype(normal, inputs.dtype))


def in_dtype(x: Any, dtype: tf.DType) -> Any:
    """Casts a tensor or variable; one that has the dtype is returned as it is."""
    return x if x.dtype == dtype else tf.cast(x, dtype)


def _built(kind: str, inputs: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Returns the outputs of the layer whose scope is open, and takes note of it."""
    graph, built = _BUILT.get() or (None, [])
    if outputs.graph is graph:
        built.append(Layer(kind, tf.get_variable_scope().name, inputs, outputs))
    return outputs


def _variable(name: str, shape: Sequence[int], initializer: Any) -> tf.Variable:
    """Returns a variable of the layer whose scope is open, or what the scope's getter returns.

    Raises:
      ScopeMismatch: the scope has the variable already, and is not open to reuse it.
    """
    try:
        return tf.get_variable(name, shape, initializer=initializer)
    except ValueError as error:
        scope = tf.get_variable_scope()
        path = f"{scope.name}/{name}"
        if scope.reuse or path not in (v.op.name for v in tf.global_variables()):
            raise
        raise ScopeMismatch(
            f"variable {path} already exists: give the second layer another name, or open its "
            "scope with reuse=True to share the weights"
        ) from error


def _signed_root(x: tf.Tensor) -> tf.Tensor:
    return tf.sign(x) * tf.sqrt(tf.abs(x))


def _uniform(fan_in: int, name: str) -> Any:
    """Uniform within 1 / sqrt(fan_in), as a function of the root's seed and the name below it.

    By name, because TensorFlow's own op seeds are derived from the number of ops built so far:
    adding an op anywhere would then change every later weight of a seeded run.
    """
    bound, root = 1.0 / math.sqrt(fan_in), current_root()
    seed = tf.get_default_graph().seed if root.seed is None else root.seed
    if seed is None:
        return tf.random_uniform_initializer(-bound, bound)
    scope = root.relative(tf.get_variable_scope().name)
    path = np.int64(zlib.crc32(f"{scope}/{name}".encode()))

    def initializer(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> tf.Tensor:
        seeds = tf.stack([tf.cast(seed, tf.int64), path])
        return tf.random.stateless_uniform(shape, seeds, -bound, bound, dtype)

    return initializer


def _known_last_dimension(inputs: tf.Tensor, rank: int | None, where: str) -> int:
    shape = inputs.shape
    if (rank is not None and shape.rank != rank) or shape.rank in (None, 0) or shape[-1] is None:
        wanted = f"rank {rank}" if rank else "a known rank"
        raise ShapeError(f"{where} needs inputs of {wanted} with a known last size, got {shape}")
    return int(shape[-1])
