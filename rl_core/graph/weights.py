"""Variables as arrays: reading them and setting them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ScopeMismatch
from targetnet.rl_core.graph.large import LargeVariable, MemberSlice
from targetnet.rl_core.graph.scopes import MemberPart, variables_in
from targetnet.rl_core.graph.sync import paired_variables

if TYPE_CHECKING:
    from targetnet.rl_core.graph.engine import Engine


class VariableValues(MemberPart):
    """Access to named variables as arrays. Make it while the graph is being built.

    Args:
      engine: the engine whose graph and session are used.
      variables: name -> variable.
      what: description of the variables for error messages, such as "of scope 'online'".
    """

    def __init__(self, engine: Engine, variables: Mapping[str, LargeVariable], what: str) -> None:
        self._engine, self._what = engine, what
        self._variables = dict(variables)
        self._now: list[tf.Tensor] = []
        self._values: list[tf.Tensor] = []
        self._assigned: list[tf.Operation] = []
        with tf.name_scope("load"):
            for variable in self._variables.values():
                now, value, assigned = _access(variable, self._values)
                self._now.append(now)
                self._values.append(value)
                self._assigned.append(assigned)
        self._places = {name: i for i, name in enumerate(self._variables)}

    def read(self) -> dict[str, np.ndarray]:
        """Returns the values by name."""
        # Copies, because a fetched array may share its memory with the variable.
        found = self._fetch()
        return {name: np.array(value) for name, value in zip(self._variables, found, strict=True)}

    @functools.cached_property
    def _fetch(self) -> Callable[[], Sequence[np.ndarray]]:
        return self._engine.callable(self._now)

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Sets every variable.

        Raises:
          ScopeMismatch: names, shapes or dtypes differ; the message lists them.
        """
        require_same_kinds(self._variables, weights, self._what)
        # Copies, because an assigned feed may share its memory with the variable.
        values = [np.array(weights[name]) for name in self._variables]
        self._engine.callable(None, self._values, self._assigned)(*values)

    def read_some(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Returns the values of some variables by name."""
        names = list(names)
        found = self._engine.callable([self._now[self._places[name]] for name in names])()
        return {name: np.array(value) for name, value in zip(names, found, strict=True)}

    def set_some(self, values: Mapping[str, np.ndarray]) -> None:
        """Sets some variables.

        Raises:
          ScopeMismatch: shapes or dtypes differ; the message lists them.
        """
        require_same_kinds({name: self._variables[name] for name in values}, values, self._what)
        places = [self._places[name] for name in values]
        feeds, targets = ([of[i] for i in places] for of in (self._values, self._assigned))
        copies = [np.array(value) for value in values.values()]
        self._engine.callable(None, feeds, targets)(*copies)


class ScopeWeights(VariableValues):
    """Access to the trainable variables of one scope by their relative name.

    Args:
      engine: the engine whose graph and session are used.
      scope: full path of the scope.
    """

    def __init__(self, engine: Engine, scope: str) -> None:
        super().__init__(engine, variables_in(scope), f"of scope {scope!r}")


def variables_to_restore(names_of: str, into: str) -> dict[str, tf.Variable]:
    """Returns {name of a variable in scope `names_of`: its counterpart in scope `into`}.

    For `tf.train.Saver`: with `variables_to_restore("online", "ema")` it saves the averages under
    the names of the online weights, so that a network without averages can load the file.

    Raises:
      ScopeMismatch: the scopes do not have the same variables.
    """
    pairs = paired_variables(names_of, into)
    return {named.op.name: variable for named, variable in pairs}


def _access(
    variable: LargeVariable, taken: Sequence[tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor, tf.Operation]:
    """Returns the variable's value, what to feed to set it, and the operation that sets it.

    Those that the variable was made with, so that the graph gets no more of them; two variables may
    share the tensor of their first value, and only one of them can be fed by it.
    """
    if not isinstance(variable, MemberSlice):
        first = variable.initializer.inputs[1]
        if not any(first is other for other in taken):
            return variable.graph.as_graph_element(variable), first, variable.initializer
    value = tf.placeholder(variable.dtype.base_dtype, variable.shape)
    return variable.read_value(), value, variable.assign(value, read_value=False)


def require_same_kinds(
    variables: Mapping[str, tf.Variable], weights: Mapping[str, np.ndarray], what: str
) -> None:
    """Checks that arrays and variables have the same names, shapes and dtypes.

    Raises:
      ScopeMismatch: they differ; the message lists the differences.
    """
    wanted = {name: _kind(v.shape, v.dtype) for name, v in variables.items()}
    given = {name: _kind(value.shape, value.dtype) for name, value in weights.items()}
    differences = [
        f"{name} should be {wanted.get(name, 'absent')}, got {given.get(name, 'nothing')}"
        for name in sorted(wanted.keys() | given.keys())
        if wanted.get(name) != given.get(name)
    ]
    if differences:
        raise ScopeMismatch(f"these weights are not {what}: {'; '.join(differences)}")


def _kind(shape: object, dtype: object) -> str:
    return f"{tf.as_dtype(dtype).base_dtype.name}{tuple(tf.TensorShape(shape).as_list())}"
