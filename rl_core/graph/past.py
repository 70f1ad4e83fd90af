"""Past states: a ring of in-memory copies of a scope, to look back at and to return to.

Imports: rl_core.graph.engine, rl_core.graph.scopes, rl_core.graph.sync. Never agents, never envs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from rl_core.graph.engine import Engine
from rl_core.graph.scopes import stop_gradient_getter, variables_in
from rl_core.graph.sync import copy_vars


class PastStates:
    """k copies of the scope `source`, as variables under `past/0` ... `past/<k-1>`.

    The same input with the state now and the state before the last update:

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

    Make it after the source's variables, inside the outer scope the copies shall live under.
    A snapshot is one call, of one assignment per variable; no value passes through Python.

    Args:
      engine: whose graph is being built, and whose session runs the copies.
      source: full path of the scope to copy.
      k: number of copies; the next snapshot after k overwrites the oldest.
      beside: more variables that are copied and brought back together with the source, by the
        name that their copies get.
      name: the ring's own scope.

    Raises:
      ValueError: k < 1.
      ScopeMismatch: `source` has no variables.
    """

    def __init__(
        self,
        engine: Engine,
        source: str,
        *,
        k: int,
        beside: Mapping[str, tf.Variable] | None = None,
        name: str = "past",
    ) -> None:
        if k < 1:
            raise ValueError(f"a ring of past states needs k >= 1 copies, got {k}")
        self.k = k
        self._engine = engine
        self._slots: list[tf.VariableScope] = []
        pairs: list[list[tuple[tf.Variable, tf.Variable]]] = []
        with tf.variable_scope(name) as ring:
            for i in range(k):
                with tf.variable_scope(str(i)) as slot:
                    for path, variable in variables_in(source).items():
                        _copy_of(variable, path)
                    more = (beside or {}).items()
                    pairs.append([(v, _copy_of(v, path, trainable=False)) for path, v in more])
                self._slots.append(slot)
            # int64 in the graph, so that it is saved with the copies it counts.
            self._taken = tf.get_variable(
                "taken", [], tf.int64, tf.zeros_initializer(), trainable=False
            )
        self.name = ring.name
        self._count = self._taken.read_value()
        counted = self._taken.assign_add(1, read_value=False)
        self._save = [
            tf.group(copy_vars(source, slot.name), *_assign(also), counted)
            for slot, also in zip(self._slots, pairs, strict=True)
        ]
        self._load = [
            tf.group(copy_vars(slot.name, source), *_assign([(to, of) for of, to in also]))
            for slot, also in zip(self._slots, pairs, strict=True)
        ]
        self._callables: dict[Any, Callable[[], Any]] = {}

    @property
    def taken(self) -> int:
        """Snapshots so far."""
        return int(self._call(self._count))

    @contextlib.contextmanager
    def scope(self, i: int) -> Iterator[tf.VariableScope]:
        """Layers built inside read copy i; no gradient reaches it."""
        getter = stop_gradient_getter
        with tf.variable_scope(self._slots[i], reuse=True, custom_getter=getter) as scope:
            yield scope

    def snapshot(self) -> int:
        """Copies the source into the oldest slot and returns that slot's number."""
        slot = self.taken % self.k
        self._call(self._save[slot])
        return slot

    def restore(self, i: int) -> None:
        """Copies slot i back into the source.

        Raises:
          IndexError: no snapshot was ever taken into slot i.
        """
        if not 0 <= i < min(self.taken, self.k):
            raise IndexError(f"no snapshot in slot {i}: {self.taken} taken into a ring of {self.k}")
        self._call(self._load[i])

    def prepare(self) -> None:
        """Makes every call now and not in the middle of a run."""
        for op in (self._count, *self._save, *self._load):
            self._callable(op)

    def _call(self, of: tf.Tensor | tf.Operation) -> Any:
        return self._callable(of)()

    def _callable(self, of: tf.Tensor | tf.Operation) -> Callable[[], Any]:
        if of not in self._callables:
            make = self._engine.callable
            is_op = isinstance(of, tf.Operation)
            self._callables[of] = make(None, targets=[of]) if is_op else make(of)
        return self._callables[of]


def _copy_of(variable: tf.Variable, path: str, *, trainable: bool = True) -> tf.Variable:
    zeros = tf.zeros(variable.shape, variable.dtype.base_dtype)
    return tf.get_variable(path, initializer=zeros, trainable=trainable)


def _assign(pairs: Iterable[tuple[tf.Variable, tf.Variable]]) -> list[tf.Operation]:
    return [to.assign(of.read_value(), read_value=False) for of, to in pairs]
