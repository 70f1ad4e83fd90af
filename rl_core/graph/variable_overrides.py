"""Tensors that stand in for variables while something is built.

What reads and assigns variables can so be built once more, on values that are kept elsewhere: those
of one of several agents, in a row of a matrix (`targetnet.rl_core.graph.members`).
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2


class VariableUse(NamedTuple):
    """Full names of variables that something reads, and of those that it assigns."""

    read: frozenset[str]
    assigned: frozenset[str]


class VariableOverrides:
    """Stands in for variables that were made inside `replaceable_variables`.

    Args:
      values: full name of a variable -> what it is read as, at first.

    Attributes:
      values: what they would be read as now.
      read, assigned: full names of the variables that were, also of others.
    """

    def __init__(self, values: Mapping[str, tf.Tensor]) -> None:
        self.values = dict(values)
        self.read, self.assigned = set[str](), set[str]()
        self._graph, self._only_if = tf.get_default_graph(), None

    @contextlib.contextmanager
    def instead(self) -> Iterator[None]:
        """Has them stand in for what is built inside this context."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    @contextlib.contextmanager
    def only_if(self, condition: tf.Tensor) -> Iterator[None]:
        """Assigning inside this context changes a value only if `condition`, a bool [], holds.

        A condition of the graph would need the values as its inputs and outputs.
        """
        assert self._only_if is None, "one inside another"
        self._only_if = condition
        try:
            yield
        finally:
            self._only_if = None

    def read_as(self, variable: tf.Variable) -> tf.Tensor | None:
        """Returns what the variable is read as; None if nothing stands in for it."""
        self.read.add(variable.op.name)
        return self.values.get(variable.op.name)

    def assign(self, variable: tf.Variable, value: Any) -> bool:
        """Has it read as `value` from here on; returns False if nothing stands in for it."""
        self.assigned.add(variable.op.name)
        before = self.values.get(variable.op.name)
        if before is None:
            return False
        assert tf.get_default_graph() is self._graph, "assigned in a loop inside"
        value = tf.convert_to_tensor(value, before.dtype)
        if self._only_if is not None:
            value = tf.where_v2(self._only_if, value, before)
        self.values[variable.op.name] = value
        return True


_CURRENT: contextvars.ContextVar[VariableOverrides | None] = contextvars.ContextVar(
    "stand_ins", default=None
)


def current_overrides() -> VariableOverrides | None:
    """Returns what stands in for variables in what is being built here; None: nothing."""
    return _CURRENT.get()


def read_as(variable: tf.Variable) -> Any:
    """Returns what stands in for a variable, to take gradients by; or the variable."""
    now = _CURRENT.get()
    value = None if now is None else now.read_as(variable)
    return variable if value is None else value


def used_by(build: Callable[[], Any]) -> VariableUse:
    """Returns which variables `build` reads and assigns; what it builds is thrown away."""
    nobody = VariableOverrides({})

    @tf2.function(autograph=False)
    def thrown_away() -> tf.Tensor:
        with nobody.instead():
            build()
        return tf.constant(0)

    thrown_away.get_concrete_function()
    return VariableUse(frozenset(nobody.read), frozenset(nobody.assigned))


@contextlib.contextmanager
def replaceable_variables() -> Iterator[None]:
    """Others can stand in for the variables that are made inside this context."""

    def creator(make: Callable[..., tf.Variable], **how: Any) -> tf.Variable:
        variable = make(**how)
        kind: Any = type(variable)
        variable.__class__ = _replaceable(kind)
        return variable

    with tf.variable_creator_scope(creator):
        yield


@functools.cache
def _replaceable(kind: Any) -> Any:
    class Replaceable(kind):
        def value(self) -> tf.Tensor:
            value = self._stand_in()
            return super().value() if value is None else value

        def read_value(self) -> tf.Tensor:
            value = self._stand_in()
            return super().read_value() if value is None else value

        def sparse_read(self, indices: tf.Tensor, name: str | None = None) -> tf.Tensor:
            value = self._stand_in()
            if value is None:
                return super().sparse_read(indices, name)
            return tf.gather(value, indices, name=name)

        def assign(self, value: Any, *of: Any, **how: Any) -> Any:
            now = _CURRENT.get()
            if now is not None and now.assign(self, value):
                return tf.no_op()
            return super().assign(value, *of, **how)

        def assign_add(self, delta: Any, *of: Any, **how: Any) -> Any:
            now, value = _CURRENT.get(), self._stand_in()
            if now is not None and now.assign(self, value if value is None else value + delta):
                return tf.no_op()
            return super().assign_add(delta, *of, **how)

        def _stand_in(self) -> tf.Tensor | None:
            now = _CURRENT.get()
            return None if now is None else now.read_as(self)

    return Replaceable
