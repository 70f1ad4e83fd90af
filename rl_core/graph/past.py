"""Past states: a ring of in-memory copies of a scope, to evaluate or to restore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tensorflow.compat.v1 as tf

from targetnet.rl_core.arguments import require_whole
from targetnet.rl_core.errors import BoundsError, quoted
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.scopes import stop_gradient_getter, variables_in
from targetnet.rl_core.graph.sync import copy_vars


class PastStates:
    """A ring of k copies of the scope `source`, as variables under `past/0` ... `past/<k-1>`.

    This example evaluates one input with the present weights and with those before an update:

        with engine.building():
            with tf.variable_scope("model") as model:
                now = network(x)
            past = PastStates(engine, model.name, k=1)
            with past.scope(0):
                before = network(x)
            ...
        engine.start()
        past.snapshot()
        update()
        engine.run([before, now], {x: ...})  # at t-1 and at t

    Build it after the source's variables, inside the outer scope of the copies. A snapshot
    assigns each variable inside the graph; no value passes through Python.

    Args:
      engine: the engine whose graph is being built and whose session runs the copies.
      source: full path of the scope to copy.
      k: number of copies; after k snapshots, each new one overwrites the oldest.
      name: name of the ring's scope.

    Raises:
      ArgumentError, BoundsError: k is no whole number, or less than 1.
      ScopeMismatch: `source` has no variables.
    """

    def __init__(self, engine: Engine, source: str, *, k: int, name: str = "past") -> None:
        require_whole("k", k, 1)
        self.k = k
        self._engine = engine
        self._slots: list[tf.VariableScope] = []
        kept = variables_in(source)
        with tf.variable_scope(name) as ring:
            for i in range(k):
                with tf.variable_scope(str(i)) as slot:
                    for path, variable in kept.items():
                        zeros = tf.zeros(variable.shape, variable.dtype.base_dtype)
                        tf.get_variable(path, initializer=zeros)
                self._slots.append(slot)
            # A variable, so that a checkpoint saves the count together with the copies.
            self._taken = tf.get_variable(
                "taken", [], tf.int64, tf.zeros_initializer(), trainable=False
            )
        self.name = ring.name
        with tf.control_dependencies([self._taken.assign_add(1, read_value=False)]):
            self._counted = tf.no_op()
        self._save = [copy_vars(source, slot.name) for slot in self._slots]
        self._load = [copy_vars(slot.name, source) for slot in self._slots]
        self._callables: dict[tf.Operation, Callable[[], None]] = {}

    @contextlib.contextmanager
    def scope(self, i: int) -> Iterator[tf.VariableScope]:
        """Opens a scope whose layers read copy i; no gradient reaches the copy.

        Raises:
          BoundsError: there is no copy i.
        """
        if i not in range(self.k):
            raise BoundsError(
                f"a ring of {self.k} has the slots 0 to {self.k - 1}, got {quoted(i)}"
            )
        getter = stop_gradient_getter
        with tf.variable_scope(self._slots[i], reuse=True, custom_getter=getter) as scope:
            yield scope

    def snapshot(self) -> int:
        """Copies the source into the oldest slot; returns the number of that slot."""
        slot = int(self._engine.session.run(self._taken)) % self.k
        self._run(self._save[slot])
        self._run(self._counted)
        return slot

    def restore(self, i: int) -> None:
        """Copies slot i back into the source.

        Raises:
          BoundsError: slot i does not exist or holds no snapshot yet.
        """
        taken = int(self._engine.session.run(self._taken))
        if i not in range(min(taken, self.k)):
            raise BoundsError(
                f"no snapshot in slot {quoted(i)}: {taken} taken into a ring of {self.k}"
            )
        self._run(self._load[i])

    def _run(self, op: tf.Operation) -> None:
        if op not in self._callables:
            self._callables[op] = self._engine.callable(None, targets=[op])
        self._callables[op]()
