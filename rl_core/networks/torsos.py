"""Torsos: networks from observations to features.

All that is between the first and the last convolution has the dtype `compute`. Weights, their
gradients and dense layers are float32. `activation` follows each layer of a torso: a function of
ACTIVATIONS, or another one of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.graph.layers import conv2d, dense, in_dtype, layer_norm
from targetnet.rl_core.networks.activations import Activation
from targetnet.rl_core.networks.network import Torso

# Convolutions: (filters, kernel, stride).
MINATAR = (16, 3, 1)
NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
LEAST_SIDE = 36  # pixels that these need
IMPALA = (16, 32, 32)  # filters of each stage


def mlp_torso(
    units: Sequence[int], *, normalise: bool = False, activation: Activation = tf.nn.relu
) -> Torso:
    """Returns a torso of dense layers: [B, ...] -> [B, units[-1]].

    The observation is flattened first.

    Args:
      units: size of each layer.
      normalise: True puts a layer norm before each activation.
    """
    return lambda observation: _dense_layers(observation, units, normalise, activation)


def minatar_torso(
    units: Sequence[int] = (128,), *, normalise: bool = False, activation: Activation = tf.nn.relu
) -> Torso:
    """Returns a torso for MinAtar's 10x10 planes: [B, H, W, C] -> [B, units[-1]].

    One convolution with 16 filters of 3x3, then dense layers.
    Young & Tian (2019), https://arxiv.org/abs/1903.03176.
    """

    def convolutions(x: tf.Tensor) -> tf.Tensor:
        return activation(_normal(conv2d(x, *MINATAR, "conv_0"), normalise, "conv_norm_0"))

    return _convolutional("minatar", 3, convolutions, units, normalise, activation)


def nature_torso(
    units: Sequence[int] = (512,),
    *,
    normalise: bool = False,
    activation: Activation = tf.nn.relu,
    compute: tf.DType = tf.float32,
) -> Torso:
    """Returns a torso for 84x84 Atari frames: [B, H, W, C] -> [B, units[-1]].

    Three convolutions, then dense layers.
    Mnih et al. (2015), https://doi.org/10.1038/nature14236.
    """

    def convolutions(x: tf.Tensor) -> tf.Tensor:
        for i, (filters, kernel, stride) in enumerate(NATURE):
            x = conv2d(x, filters, kernel, stride, f"conv_{i}")
            x = activation(_normal(x, normalise, f"conv_norm_{i}"))
        return x

    return _convolutional("nature", LEAST_SIDE, convolutions, units, normalise, activation, compute)


def impala_torso(
    units: Sequence[int] = (256,),
    *,
    normalise: bool = False,
    activation: Activation = tf.nn.relu,
    compute: tf.DType = tf.float32,
) -> Torso:
    """Returns a torso of residual convolutions and dense layers: [B, H, W, C] -> [B, units[-1]].

    The deep network of Espeholt et al. (2018), https://arxiv.org/abs/1802.01561, without LSTM.
    """

    def residual(x: tf.Tensor, filters: int, name: str) -> tf.Tensor:
        y = x
        for i in range(2):
            y = _normal(conv2d(activation(y), filters, 3, 1, f"{name}_{i}", padding="SAME"),
                        normalise, f"{name}_norm_{i}")  # fmt: skip
        return x + y

    def convolutions(x: tf.Tensor) -> tf.Tensor:
        for i, filters in enumerate(IMPALA):
            x = conv2d(x, filters, 3, 1, f"conv_{i}", padding="SAME")
            x = tf.nn.max_pool2d(x, 3, 2, "SAME")  # [B, H / 2, W / 2, filters]
            for block in range(2):
                x = residual(x, filters, f"residual_{i}_{block}")
        return activation(x)

    return _convolutional("impala", 1, convolutions, units, normalise, activation, compute)


def _convolutional(
    name: str,
    side: int,
    convolutions: Callable[[tf.Tensor], tf.Tensor],
    units: Sequence[int],
    normalise: bool,
    activation: Activation,
    compute: tf.DType = tf.float32,
) -> Torso:
    def torso(observation: tf.Tensor) -> tf.Tensor:
        shape = observation.shape.as_list()[1:]
        if len(shape) != 3 or None in shape or min(shape[:2]) < side:
            raise ShapeError(
                f"the {name} network needs observations [H, W, C] of at least {side}x{side}, "
                f"got {shape}"
            )
        features = in_dtype(convolutions(in_dtype(observation, compute)), tf.float32)
        return _dense_layers(features, units, normalise, activation)

    return torso


def _dense_layers(
    x: tf.Tensor, units: Sequence[int], normalise: bool, activation: Activation
) -> tf.Tensor:
    if x.shape.rank != 2:
        x = tf.reshape(x, [-1, x.shape[1:].num_elements()])  # [B, n]
    for i, size in enumerate(units):
        x = activation(_normal(dense(x, size, f"dense_{i}"), normalise, f"norm_{i}"))
    return x


def _normal(x: tf.Tensor, normalise: bool, name: str) -> tf.Tensor:
    return layer_norm(x, name) if normalise else x
