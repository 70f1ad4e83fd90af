"""Counter-based random numbers in the graph: a pure function of (seed, stream, counter).

Stateful random ops restart their sequence after a restore; these have no state at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.graph.xla import building_for_xla
from targetnet.rl_core.philox import NumpyStream, stream_key

_PHILOX = 1  # tf.random.Algorithm.PHILOX


class Keys:
    """The keys of an agent's streams, as data of the graph: a variable for each.

    So one graph serves every seed, and several agents in a graph have each their own. Make it
    while the graph is being built, and build streams from it.

    Args:
      seed: the run's seed, whose keys the variables begin with.

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
                key = stream_key(self.seed, name)
                self._variables[name] = self._variable(len(self._variables), key)
        return self._variables[name].read_value()

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for the variable of a key."""
        return any(variable is own for own in self._variables.values())

    def values(self, seed: int) -> np.ndarray:
        """[S] uint64 keys of all streams that were built, of another seed."""
        keys = [stream_key(seed, name) for name in self._variables]
        return np.concatenate([np.zeros(0, np.uint64), *keys])

    def _variable(self, place: int, key: np.ndarray) -> tf.Variable:
        # One of several keys would have to be gathered, which takes twice as long as to read one.
        variable = tf2.Variable(key, trainable=False, name=f"{self.fed.op.name}_{place}")
        tf.add_to_collection(tf.GraphKeys.GLOBAL_VARIABLES, variable)
        self.assign.append(variable.assign(self.fed[place : place + 1], read_value=False))
        return variable


class Stream(NumpyStream):
    """A stream of Philox numbers that draws in the graph too.

    Args:
      seed: the run's seed, which becomes a constant of the graph; or an agent's keys.
      name: what the numbers are for; streams of different names are independent.
    """

    def __init__(self, seed: int | Keys, name: str) -> None:
        super().__init__(seed.seed if isinstance(seed, Keys) else seed, name)
        self._key: np.ndarray | tf.Tensor
        self._key = seed.of(name) if isinstance(seed, Keys) else self._host_key

    def uniform(self, counter: tf.Tensor, shape: list[int]) -> tf.Tensor:
        """float32 in [0, 1), of `shape`; `counter` is an int64 scalar or [1]."""
        key, place = self._at(counter)
        return tf.raw_ops.StatelessRandomUniformV2(
            shape=shape, key=key, counter=place, alg=_PHILOX, dtype=tf.float32
        )

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
        if not building_for_xla() or isinstance(self._key, np.ndarray):
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
