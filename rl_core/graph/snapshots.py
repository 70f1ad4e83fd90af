"""Snapshots of many variables: the last k are kept in memory, to rewind to or to evaluate.

A ring is one variable with k rows instead of k variables, as `PastStates` has them, so building the
graph stays fast even with all optimizer slots; a layer that reads one pays for cutting it out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.arguments import require_whole
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.large import LargeVariable, large_variable, rows_in
from targetnet.rl_core.graph.scopes import MemberPart


class Snapshots(MemberPart):
    """A ring of k rows per variable. Make it while the graph is being built.

    Args:
      engine: the engine whose graph and session are used.
      variables: name -> variable; each gets a ring with its name under the scope `name`.
      k: number of rows; after k snapshots, each new one overwrites the oldest.
      name: name of the rings' scope.

    Raises:
      ArgumentError, BoundsError: k is no whole number, or less than 1.

    Attributes:
      back: int64 scalar placeholder: which snapshot `getter` reads; 1 is the last.
    """

    def __init__(
        self, engine: Engine, variables: Mapping[str, tf.Variable], *, k: int, name: str = "past"
    ) -> None:
        require_whole("k", k, 1)
        self._engine = engine
        with tf.variable_scope(name):
            # A variable, so that a checkpoint saves the count together with the rows.
            taken = tf.get_variable("taken", [], tf.int64, tf.zeros_initializer(), trainable=False)
            rings = [(_ring(path, v, k), v) for path, v in variables.items()]
        self._rings = {variable.op.name: ring for ring, variable in rings}
        with tf.name_scope(f"{name}_ops"):
            now = taken.read_value()
            saves = [
                tf.raw_ops.ResourceScatterUpdate(
                    resource=ring.handle,
                    indices=rows_in(ring, now % k),
                    updates=variable.read_value(),
                )
                for ring, variable in rings
            ]
            with tf.control_dependencies([now, *saves]):
                self._save = tf.group(taken.assign_add(1, read_value=False))
            self.back = tf.placeholder(tf.int64, [], "back")
            self._row = (now - self.back) % k
            self._load = tf.group(
                *[v.assign(tf.gather(ring, self._row), read_value=False) for ring, v in rings]
            )

    def take(self) -> None:
        """Copies every variable into the oldest row, in one call into the graph."""
        self._take()

    def restore(self, back: int) -> None:
        """Restores the `back`-th last snapshot, which must still be in the ring; 1 is the last."""
        self._restore(np.int64(back))

    def getter(
        self, getter: Callable[..., tf.Variable], name: str, *args: Any, **kwargs: Any
    ) -> tf.Tensor:
        """Custom getter of a variable scope whose layers read the `back`-th last snapshot.

        No gradient reaches it. The variables must be there, and be among those that are kept.
        """
        variable = getter(name, *args, **kwargs)
        return tf.stop_gradient(tf.gather(self._rings[variable.op.name], self._row))

    @functools.cached_property
    def _take(self) -> Callable[[], None]:
        return self._engine.callable(None, targets=[self._save])

    @functools.cached_property
    def _restore(self) -> Callable[[np.int64], None]:
        return self._engine.callable(None, [self.back], [self._load])


def _ring(path: str, variable: tf.Variable, k: int) -> LargeVariable:
    shape = [k, *variable.shape.as_list()]
    return large_variable(path, variable.dtype.base_dtype, shape, tf.zeros_initializer())
