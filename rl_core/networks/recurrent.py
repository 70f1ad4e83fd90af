"""Recurrent layers: from features and a state to features that know what was seen before.

    gru    Cho et al. (2014), https://arxiv.org/abs/1406.1078
    lstm   Hochreiter & Schmidhuber (1997), https://doi.org/10.1162/neco.1997.9.8.1735

A state is one array [B, S], so that a replay can keep it as a column. A new episode begins with a
state of zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.layers import dense
from targetnet.rl_core.graph.xla import add_bias, product


class Recurrent(ABC):
    """A recurrent layer, in the scopes `input` and `state` below the one that is open.

    Args:
      units: U, its features.

    Attributes:
      units: the same.
      state_size: S, numbers of its state.
    """

    gates: ClassVar[int]  # numbers for each unit that inputs and state give
    kept: ClassVar[int]  # numbers for each unit that go on to the next step

    def __init__(self, units: int) -> None:
        self.units = units
        self.state_size = units * self.kept

    @abstractmethod
    def next_state(self, seen: tf.Tensor, before: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Returns the state after a step, [B, S]; its first U numbers are the features.

        Args:
          seen: [B, gates * U] what the inputs give.
          before: [B, gates * U] what the features before give.
          state: [B, S] before the step.
        """

    def step(self, features: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One step: [B, F], [B, S] -> features [B, U], and the state after it [B, S]."""
        seen = dense(features, self.gates * self.units, "input")
        before = dense(state[:, : self.units], self.gates * self.units, "state")
        state = self.next_state(seen, before, state)
        return state[:, : self.units], state

    def unroll(
        self, features: tf.Tensor, state: tf.Tensor, begins: tf.Tensor, held: int = 0
    ) -> tf.Tensor:
        """T steps, one after the other.

        Args:
          features: [T, B, F] with T and B known.
          state: [B, S] before the first step.
          begins: [T, B] bool: where an episode begins, the state is zeros before the step.
          held: the gradient of later steps does not flow into this many first ones.

        Returns:
          [T, B, U].
        """
        T, B, F = features.shape.as_list()
        seen = dense(tf.reshape(features, [T * B, F]), self.gates * self.units, "input")
        seen = tf.reshape(seen, [T, B, self.gates * self.units])
        # The layer is built once, outside of the loop, by which its variables are read there.
        with tf.variable_scope("state"):
            size = [self.units, self.gates * self.units]
            w, b = tf.get_variable("w", size), tf.get_variable("b", size[1:])
        parts, begin = [], 0
        for end in (held, T):
            if end > begin:
                part = slice(begin, end)
                outputs, state = self._loop(
                    seen[part], begins[part], state, tf.identity(w), tf.identity(b)
                )
                parts.append(outputs)
                state, begin = tf.stop_gradient(state), end
        return tf.concat(parts, axis=0)

    def _loop(
        self, seen: tf.Tensor, begins: tf.Tensor, state: tf.Tensor, w: tf.Tensor, b: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        T, B, _ = seen.shape.as_list()
        outputs = tf.TensorArray(tf.float32, T, element_shape=[B, self.units])

        def body(
            t: tf.Tensor, state: tf.Tensor, outputs: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
            state = tf.where_v2(begins[t][:, None], 0.0, state)
            before = add_bias(product(state[:, : self.units], w), b)
            state = self.next_state(seen[t], before, state)
            return t + 1, state, outputs.write(t, state[:, : self.units])

        _, state, outputs = tf.while_loop(
            lambda t, *_: t < T,
            body,
            (tf.constant(0), state, outputs),
            parallel_iterations=1,
            maximum_iterations=T,
        )
        return outputs.stack(), state


class Gru(Recurrent):
    """A gated recurrent unit.

        z, r = sigmoid(input + before)            (each its own part)
        n    = tanh(input + r * before)
        h'   = (1 - z) * n + z * h

    The reset gate is applied after the product with the state's weights, as in cuDNN and PyTorch.
    """

    gates, kept = 3, 1

    def next_state(self, seen: tf.Tensor, before: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Returns h' [B, U]."""
        U = self.units
        z, r = tf.split(tf.sigmoid(seen[:, : 2 * U] + before[:, : 2 * U]), 2, axis=1)
        n = tf.tanh(seen[:, 2 * U :] + r * before[:, 2 * U :])
        return (1.0 - z) * n + z * state


class Lstm(Recurrent):
    """Long short-term memory with forget gates (Gers et al. 2000), which begin at sigmoid(1).

        i, f, o = sigmoid(input + before),  f of 1 more
        c'      = f * c + i * tanh(input + before)
        h'      = o * tanh(c')

    The state is h and c side by side.
    """

    gates, kept = 4, 2

    def next_state(self, seen: tf.Tensor, before: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Returns h' and c', [B, 2 U]."""
        i, f, o, new = tf.split(seen + before, 4, axis=1)
        cell = tf.sigmoid(f + 1.0) * state[:, self.units :] + tf.sigmoid(i) * tf.tanh(new)
        return tf.concat([tf.sigmoid(o) * tf.tanh(cell), cell], axis=1)


RECURRENT: dict[str, type[Recurrent]] = {"gru": Gru, "lstm": Lstm}
