"""Counter-based random numbers in the graph: a pure function of (seed, stream, counter).

Stateful random ops restart their sequence after a restore; these have no state at all.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

_PHILOX = 1  # tf.random.Algorithm.PHILOX


class Keys:
    """The keys of an agent's streams, as data of the graph: one variable has them all.

    So one graph serves every seed, and several agents in a graph have each their own. Make it
    while the graph is being built, build streams from it, and assign the values when the session
    is open.

    Args:
      seed: the run's seed.

    Attributes:
      fed: placeholder of the values; assign: the operation that keeps what is fed.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._places: dict[str, int] = {}
        with tf.variable_scope("streams") as scope:
            # How many streams there are is known when everything is built.
            none = tf.placeholder_with_default(np.zeros(0, np.uint64), [None])
            self._variable = tf2.Variable(none, trainable=False, name=f"{scope.name}/keys")
        tf.add_to_collection(tf.GraphKeys.GLOBAL_VARIABLES, self._variable)
        self.fed = tf.placeholder(tf.uint64, [None], "keys")
        self.assign = self._variable.assign(self.fed, read_value=False)

    def of(self, name: str) -> tf.Tensor:
        """[1] uint64 key of the stream `name`."""
        place = self._places.setdefault(name, len(self._places))
        return tf.gather(self._variable.read_value(), [place])

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for the variable of the keys."""
        return variable is self._variable

    def values(self) -> np.ndarray:
        """[S] uint64 keys of all streams that were built."""
        keys = [_key(self.seed, name) for name in self._places]
        return np.concatenate([np.zeros(0, np.uint64), *keys])


class Stream:
    """One stream of Philox numbers (Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405).

    Args:
      seed: the run's seed, which becomes a constant of the graph; or an agent's keys.
      name: what the numbers are for; streams of different names are independent.
    """

    def __init__(self, seed: int | Keys, name: str) -> None:
        self._key: np.ndarray | tf.Tensor
        if isinstance(seed, Keys):
            self._host_key, self._key = _key(seed.seed, name), seed.of(name)
        else:
            self._host_key = self._key = _key(seed, name)

    def uniform(self, counter: tf.Tensor, shape: list[int]) -> tf.Tensor:
        """float32 in [0, 1), of `shape`; `counter` is an int64 scalar or [1]."""
        return tf.raw_ops.StatelessRandomUniformV2(
            shape=shape, key=self._key, counter=_place(counter), alg=_PHILOX, dtype=tf.float32
        )

    def uniform_outside(self, first: int, count: int, shape: tuple[int, ...]) -> np.ndarray:
        """Computes `uniform` of the counters first, ..., first + count - 1 without a graph.

        Returns:
          [count, *shape] float32, the same bits.
        """
        size = math.prod(shape)
        groups = np.arange(-(-size // 4), dtype=np.uint64)[None, :]
        counters = np.arange(first, first + count, dtype=np.uint64)[:, None]
        words = _philox(int(self._host_key[0]), groups, counters)[:, :size]  # [count, size]
        # The low 23 bits as the mantissa of a number in [1, 2).
        floats = ((words & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32)
        return (floats - np.float32(1)).reshape(count, *shape)

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
      seed: the run's seed, or an agent's keys.
      purpose: what is evaluated for what; other purposes have other numbers.
      counter: int64 scalar or [1]; it must differ from one evaluation to the next.
    """

    def __init__(self, seed: int | Keys, purpose: str, counter: tf.Tensor) -> None:
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


def _key(seed: int, name: str) -> np.ndarray:
    """Returns the key of the stream `name`, [1] uint64."""
    words = np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1, "u8")
    return words.astype(np.uint64)


def _place(counter: tf.Tensor) -> tf.Tensor:
    # The generator's 128-bit counter: one draw uses up low words, so ours is the high one.
    return tf.cast(counter * np.array([0, 1], np.int64), tf.uint64)


def _philox(key: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Philox-4x32-10 of the counters (low, high), [1, G] and [C, 1] uint64: [C, 4 G] uint32."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low, high = np.broadcast_arrays(low, high)
    x = [low & mask, low >> half, high & mask, high >> half]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [
            (b >> half) ^ x[1] ^ np.uint64(k0), b & mask,
            (a >> half) ^ x[3] ^ np.uint64(k1), a & mask,
        ]  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(x, axis=-1).reshape(len(low), -1).astype(np.uint32)
