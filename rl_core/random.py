"""Counter-based random numbers in the graph: a pure function of (seed, stream, counter).

Stateful random ops restart their sequence after a restore; these have no state at all.

Imports: nothing of ours.
"""

from __future__ import annotations

import zlib

import numpy as np
import tensorflow.compat.v1 as tf

_PHILOX = 1  # tf.random.Algorithm.PHILOX


class Stream:
    """One stream of Philox numbers (Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405).

    Args:
      seed: the run's seed.
      name: what the numbers are for; streams of different names are independent.
    """

    def __init__(self, seed: int, name: str) -> None:
        words = np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1, "u8")
        self._key = words.astype(np.uint64)

    def uniform(self, counter: tf.Tensor, shape: list[int]) -> tf.Tensor:
        """float32 in [0, 1), of `shape`; `counter` is an int64 scalar or [1]."""
        return tf.raw_ops.StatelessRandomUniformV2(
            shape=shape, key=self._key, counter=_place(counter), alg=_PHILOX, dtype=tf.float32
        )

    def integers(
        self, counter: tf.Tensor, shape: list[int], low: tf.Tensor, high: tf.Tensor
    ) -> tf.Tensor:
        """int64 in [low, high), of `shape`; `counter` as in `uniform`; bounds are scalars."""
        return tf.raw_ops.StatelessRandomUniformIntV2(
            shape=shape,
            key=self._key,
            counter=_place(counter),
            alg=_PHILOX,
            minval=low,
            maxval=high,
        )


class Draws:
    """The random numbers of one evaluation of a network, each kind under a name of its own.

    They come from integers: unlike those of floats, the operations for these give the same
    numbers compiled by XLA and not.

    Args:
      seed: the run's seed.
      purpose: what is evaluated for what; other purposes have other numbers.
      counter: int64 scalar or [1]; it must differ from one evaluation to the next.
    """

    def __init__(self, seed: int, purpose: str, counter: tf.Tensor) -> None:
        self._seed, self._purpose, self._counter = seed, purpose, counter

    def uniform(self, name: str, shape: list[int]) -> tf.Tensor:
        """float32 in (0, 1)."""
        stream = Stream(self._seed, f"{self._purpose}/{name}")
        low, high = np.int64(0), np.int64(1 << 23)
        whole = stream.integers(self._counter, shape, low, high)
        return (tf.cast(whole, tf.float32) + 0.5) * np.float32(2.0**-23)

    def normal(self, name: str, shape: list[int]) -> tf.Tensor:
        """float32, standard normal: the quantile function of uniform numbers."""
        return np.float32(np.sqrt(2)) * tf.math.erfinv(2 * self.uniform(name, shape) - 1)


def _place(counter: tf.Tensor) -> tf.Tensor:
    # The generator's 128-bit counter: one draw uses up low words, so ours is the high one.
    return tf.cast(counter * np.array([0, 1], np.int64), tf.uint64)
