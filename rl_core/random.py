"""Counter-based random numbers in the graph: a pure function of (seed, stream, counter).

Stateful random ops restart their sequence after a restore; these have no state at all.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from rl_core.graph.xla import compiled

_PHILOX = 1  # tf.random.Algorithm.PHILOX


class Keys:
    """The keys of an agent's streams, as data of the graph: a variable for each.

    So one graph serves every seed, and several agents in a graph have each their own. Make it
    while the graph is being built, build streams from it, and assign the values when the session
    is open.

    Args:
      seed: the run's seed.

    Attributes:
      fed: placeholder of the values; assign: the operations that keep what is fed.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.fed = tf.placeholder(tf.uint64, [None], "keys")
        self.assign: list[tf.Operation] = []
        self._variables: dict[str, tf.Variable] = {}

    def of(self, name: str) -> tf.Tensor:
        """[1] uint64 key of the stream `name`."""
        if name not in self._variables:
            with tf.init_scope():  # out of the function that may be being built
                self._variables[name] = self._variable(len(self._variables))
        return self._variables[name].read_value()

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for the variable of a key."""
        return any(variable is own for own in self._variables.values())

    def values(self, seed: int | None = None) -> np.ndarray:
        """[S] uint64 keys of all streams that were built, by default of the agent's seed."""
        seed = self.seed if seed is None else seed
        keys = [_key(seed, name) for name in self._variables]
        return np.concatenate([np.zeros(0, np.uint64), *keys])

    def _variable(self, place: int) -> tf.Variable:
        # One of several keys would have to be gathered, which takes twice as long as to read one.
        none = np.zeros(1, np.uint64)
        variable = tf2.Variable(none, trainable=False, name=f"{self.fed.op.name}_{place}")
        tf.add_to_collection(tf.GraphKeys.GLOBAL_VARIABLES, variable)
        self.assign.append(variable.assign(self.fed[place : place + 1], read_value=False))
        return variable


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
        key, place = self._at(counter)
        return tf.raw_ops.StatelessRandomUniformV2(
            shape=shape, key=key, counter=place, alg=_PHILOX, dtype=tf.float32
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
        self,
        counter: tf.Tensor,
        shape: list[int] | tf.Tensor,
        low: tf.Tensor,
        high: tf.Tensor,
    ) -> tf.Tensor:
        """int64 in [low, high), of `shape`; `counter` as in `uniform`; bounds are scalars."""
        key, place = self._at(counter)
        return tf.raw_ops.StatelessRandomUniformIntV2(
            shape=shape, key=key, counter=place, alg=_PHILOX, minval=low, maxval=high
        )

    def _at(self, counter: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Returns the key, [1] uint64, and the generator's 128-bit counter, [2] uint64."""
        # One draw uses up low words, so ours is the high one.
        place = tf.cast(counter * np.array([0, 1], np.int64), tf.uint64)
        if not compiled() or isinstance(self._key, np.ndarray):
            return self._key, place
        # XLA would derive the ten rounds' keys once before a loop, and hand them to every iteration
        # as twenty numbers, which takes longer than to derive them there. So the key has to look as
        # if it changed: counters are never negative.
        return self._key + tf.cast(tf.minimum(counter, 0), tf.uint64), place


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

    def uniform(self, name: str, shape: list[int] | tf.Tensor) -> tf.Tensor:
        """float32 in (0, 1), of `shape`, which is int32 [r] where it is not known beforehand."""
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
