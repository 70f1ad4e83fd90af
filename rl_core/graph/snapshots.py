"""Snapshots of many variables at once, to go back to: the last k, in memory.

Other than `PastStates` it cannot be looked at by a network; it takes one variable per variable
and not k, so a graph with optimizer slots and all is soon built.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.graph.engine import Engine


class Snapshots:
    """A ring of k rows per variable. Make it while the graph is being built.

    Args:
      engine: whose graph and session.
      variables: name -> variable; each gets a ring of that name under the scope `name`.
      k: rows; the next snapshot after k overwrites the oldest.
    """

    def __init__(
        self, engine: Engine, variables: Mapping[str, tf.Variable], *, k: int, name: str = "past"
    ) -> None:
        self._engine = engine
        with tf.variable_scope(name):
            # int64 in the graph, so that it is saved with the rows it counts.
            taken = tf.get_variable("taken", [], tf.int64, tf.zeros_initializer(), trainable=False)
            rings = [(_ring(path, v, k), v) for path, v in variables.items()]
        with tf.name_scope(f"{name}_ops"):
            now = taken.read_value()
            saves = [
                tf.raw_ops.ResourceScatterUpdate(
                    resource=ring.handle, indices=now % k, updates=variable.read_value()
                )
                for ring, variable in rings
            ]
            with tf.control_dependencies([now, *saves]):
                self._save = tf.group(taken.assign_add(1, read_value=False))
            self._back = tf.placeholder(tf.int64, [], "back")
            row = (now - self._back) % k
            self._load = tf.group(
                *[v.assign(tf.gather(ring, row), read_value=False) for ring, v in rings]
            )

    def take(self) -> None:
        """Copies every variable into the oldest row. One call; nothing passes through Python."""
        self._take()

    def restore(self, back: int) -> None:
        """Copies the `back`-th last snapshot back; 1 is the last. It must still be there."""
        self._restore(np.int64(back))

    @functools.cached_property
    def _take(self) -> Callable[[], None]:
        return self._engine.callable(None, targets=[self._save])

    @functools.cached_property
    def _restore(self) -> Callable[[np.int64], None]:
        return self._engine.callable(None, [self._back], [self._load])


def _ring(path: str, variable: tf.Variable, k: int) -> tf.Variable:
    return tf.get_variable(
        path,
        [k, *variable.shape.as_list()],
        variable.dtype.base_dtype,
        tf.zeros_initializer(),
        trainable=False,
    )
