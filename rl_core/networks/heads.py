"""Heads: features to what the agent knows of each action's return.

    q_head            its expectation
    categorical_head  the probabilities of fixed atoms
    quantile_head     fixed quantiles
    implicit_head     whatever quantiles are asked for
    fqf_head          quantiles of fractions that it proposes for each observation

Each stands on `Streams`, the layers between the features and the numbers of a head, which may
be dueling, noisy and deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.branches import centred
from targetnet.rl_core.graph.layers import dense, noisy_dense
from targetnet.rl_core.losses.quantile import quantile_midpoints
from targetnet.rl_core.networks.activations import Activation
from targetnet.rl_core.networks.network import Head, Values
from targetnet.rl_core.random import Draws

COSINES = 64  # in the embedding of a fraction


@dataclass(frozen=True)
class Streams:
    """Layers from features [B, F] to n numbers per action: [B, A, n], or [B, A] for n = 1.

    One stream is the block `head`. Two (dueling) are the blocks `value` and `advantage`:

        x[a] = value + advantage[a] - mean_a advantage[a]

    Wang et al. (2016), https://arxiv.org/abs/1511.06581, equation 9; with distributions, Hessel
    et al. (2018), https://arxiv.org/abs/1710.02298.

    With branches, the advantages of each are less their own mean, and hidden layers before the
    last one are of each branch: Tavakoli, Pardo & Kormushev (2018),
    https://arxiv.org/abs/1711.08946.

    Args:
      num_actions: A.
      dueling: two streams instead of one.
      hidden: units of each dense layer before the last, per stream.
      noisy: every layer here is noisy, Fortunato et al. (2018).
      branches: sizes of the branches of an action, with the sum A; (): it has none.
      activation: follows each hidden layer.
    """

    num_actions: int
    dueling: bool = False
    hidden: Sequence[int] = ()
    noisy: bool = False
    branches: tuple[int, ...] = ()
    activation: Activation = tf.nn.relu

    def __call__(self, features: tf.Tensor, n: int, draws: Draws | None) -> tf.Tensor:
        if not self.dueling:
            return self._of_actions("head", "q", features, n, draws)
        value = self._stream("value", "v", features, 1, n, draws)  # [B, 1, n]
        advantage = self._of_actions("advantage", "a", features, n, draws)
        if self.branches:
            return value + centred(advantage, self.branches)
        return value + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)

    def _of_actions(
        self, block: str, last: str, x: tf.Tensor, n: int, draws: Draws | None
    ) -> tf.Tensor:
        """[B, F] -> [B, A, n], or [B, A] for n = 1."""
        if not self.branches or not self.hidden:
            # A last layer of each branch would be this one in pieces.
            return self._stream(block, last, x, self.num_actions, n, draws)
        each = [
            self._stream(f"{block}/branch_{d}", last, x, size, n, draws)
            for d, size in enumerate(self.branches)
        ]
        return tf.concat(each, axis=1)

    def _stream(
        self, block: str, last: str, x: tf.Tensor, actions: int, n: int, draws: Draws | None
    ) -> tf.Tensor:
        with tf.variable_scope(block):
            for i, units in enumerate(self.hidden):
                x = self.activation(self._layer(x, units, f"dense_{i}", draws))
            x = self._layer(x, actions * n, last, draws)  # [B, actions * n]
        return tf.reshape(x, [-1, actions, n]) if n > 1 else x

    def _layer(self, x: tf.Tensor, units: int, name: str, draws: Draws | None) -> tf.Tensor:
        return noisy_dense(x, units, name, draws) if self.noisy else dense(x, units, name)


def q_head(streams: Streams) -> Head:
    """Expected returns: q [B, A]."""

    def head(features: tf.Tensor, draws: Draws | None = None) -> Values:
        return Values(streams(features, 1, draws))

    return head


def categorical_head(streams: Streams, support: np.ndarray) -> Head:
    """C51: logits [B, A, N] of the atoms `support` [N].

    Bellemare, Dabney & Munos (2017), https://arxiv.org/abs/1707.06887.
    """

    def head(features: tf.Tensor, draws: Draws | None = None) -> Values:
        logits = streams(features, len(support), draws)  # [B, A, N]
        return Values(tf.reduce_sum(tf.nn.softmax(logits) * support, axis=2), logits=logits)

    return head


def quantile_head(streams: Streams, quantiles: int) -> Head:
    """QR-DQN: the quantiles (i + 1/2) / N, z [B, A, N].

    Dabney et al. (2018), https://arxiv.org/abs/1710.10044.
    """
    taus = quantile_midpoints(quantiles)  # [N]

    def head(features: tf.Tensor, draws: Draws | None = None) -> Values:
        z = streams(features, quantiles, draws)  # [B, A, N], or [B, A] for N = 1
        z = z if quantiles > 1 else z[:, :, tf.newaxis]
        return Values(tf.reduce_mean(z, axis=2), z=z, taus=taus)

    return head


def implicit_head(streams: Streams, samples: int, acting: int, cosines: int = COSINES) -> Head:
    """IQN: quantiles of any fractions tau, z [B, A, N].

        z[a](tau) = streams(features * embedding(tau))[a]

    Dabney et al. (2018b), https://arxiv.org/abs/1806.06923. `q` is the mean over the `acting`
    midpoints of equal shares of (0, 1), where the paper draws them: the same policy each time
    it is asked, and the one that can be exported.

    Args:
      samples: fractions drawn for learning; without draws, z is of the acting ones.
      acting: fractions behind q.
      cosines: in the embedding of a fraction.
    """
    fixed = quantile_midpoints(acting)[None]  # [1, K]

    def head(features: tf.Tensor, draws: Draws | None = None) -> Values:
        z = _quantiles_at(tf.constant(fixed), streams, features, draws, cosines)  # [B, A, K]
        q = tf.reduce_mean(z, axis=2)
        if draws is None:
            return Values(q, z=z, taus=fixed[0])
        # Without the scope in its name: copies that are averaged are asked for the same ones.
        B = features.shape[0]
        shape = [B, samples] if B is not None else tf.stack([tf.shape(features)[0], samples])
        taus = tf.ensure_shape(draws.uniform("taus", shape), [B, samples])
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            z = _quantiles_at(taus, streams, features, draws, cosines)
        return Values(q, z=z, taus=taus)

    return head


def fqf_head(streams: Streams, fractions: int, cosines: int = COSINES) -> Head:
    """FQF: quantiles of fractions that are proposed for each observation, z [B, A, N].

        share   = softmax(dense(features)), the block `fractions`            [B, N]
        edge[i] = share[0] + ... + share[i]
        tau[i]  = edge[i] - share[i] / 2, the middle of a share
        q[a]    = sum_i share[i] * z[a](tau[i])

    with z of `implicit_head`. Yang et al. (2019), https://arxiv.org/abs/1911.02140. No gradient of
    q and z reaches the shares. With draws, `own` is what `fraction_loss` needs: the shares, which
    have a gradient, and z at all edges but the last, [B, A, N - 1].

    Args:
      fractions: N >= 2.
      cosines: in the embedding of a fraction.
    """

    def head(features: tf.Tensor, draws: Draws | None = None) -> Values:
        with tf.variable_scope("fractions"):
            shares = tf.nn.softmax(dense(features, fractions, "shares"))  # [B, N]
        widths = tf.stop_gradient(shares)
        edges = tf.cumsum(widths, axis=1)
        taus = edges - widths / 2
        z = _quantiles_at(taus, streams, features, draws, cosines)  # [B, A, N]
        q = tf.reduce_sum(widths[:, None] * z, axis=2)
        if draws is None:
            return Values(q, z=z, taus=taus)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            z_edges = _quantiles_at(edges[:, :-1], streams, features, draws, cosines)
        return Values(q, z=z, taus=taus, own=(shares, z_edges))

    return head


def _quantiles_at(
    taus: tf.Tensor, streams: Streams, features: tf.Tensor, draws: Draws | None, cosines: int
) -> tf.Tensor:
    """[B or 1, N] fractions, [B, F] -> [B, A, N]."""
    size, N = features.shape[-1], taus.shape[-1]
    embedded = embedding(taus, size, cosines)  # [B or 1, N, F]
    mixed = tf.reshape(features[:, None] * embedded, [-1, size])  # [B * N, F]
    z = tf.reshape(streams(mixed, 1, draws), [-1, N, streams.num_actions])  # [B, N, A]
    return tf.transpose(z, [0, 2, 1])


def embedding(taus: tf.Tensor, size: int, cosines: int) -> tf.Tensor:
    """ReLU of a dense layer over cos(pi i tau), i = 0 ... cosines - 1: [B, N] -> [B, N, size].

    Dabney et al. (2018b), equation 4; the block `embedding`.
    """
    angles = np.pi * np.arange(cosines, dtype=np.float32)  # [n]
    waves = tf.reshape(tf.cos(taus[..., None] * angles), [-1, cosines])  # [B * N, n]
    with tf.variable_scope("embedding"):
        embedded = tf.nn.relu(dense(waves, size, "cosines"))  # [B * N, F]
    return tf.reshape(embedded, [-1, taus.shape[-1], size])
