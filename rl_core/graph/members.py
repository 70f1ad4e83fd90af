"""Several agents of one form in one graph, which take turns on its variables.

The graph is built once, as for one agent. Its variables are the seat: the member whose values they
hold sits there, and every call of the graph is of that member. What the others have is kept in
matrices [P, n], one for each dtype, so that to sit down and to get up are a handful of copies.
Variables that are too large to be copied, those of a replay, have a part for each member.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.graph.engine import Call, Engine
from rl_core.graph.scopes import Root

T = TypeVar("T")


class Seat:
    """The variables of one agent, on which members take turns. Make it last of all in the graph.

    Args:
      engine: whose graph and session are used.
      root: under which the agent was built, with members.

    Attributes:
      engine: the same.
      sitting: the member whose values the variables have; None: nobody's.
    """

    def __init__(self, engine: Engine, root: Root) -> None:
        assert root.members is not None
        self.engine = engine
        self.sitting: int | None = None
        own = [v for v in tf.global_variables() if v.op.name.startswith(root.prefix)]
        copied = [v for v in own if not root.owns(v) and root.seen(v) is v]
        with tf.name_scope("seat"):
            kept = _Kept(root.members.count, copied)
            member = tf.placeholder(tf.int64, [], "member")
            sat = root.members.seat.assign(member, read_value=False)
            self._begin = engine.callable(
                None, [root.seed, member], [sat, *[v.initializer for v in copied]]
            )
            self._sit = engine.callable(None, [member], [sat, kept.taken_by(member)])
            self._keep = engine.callable(None, [member], [kept.kept_for(member)])

    def begin(self, member: int, seed: int) -> None:
        """Has `member` sit down for the first time, with the first values of its own seed."""
        self._get_up()
        self._begin(np.int64(seed), np.int64(member))
        self.sitting = member

    def take(self, member: int) -> None:
        """Has `member` sit down; who sat there gets up."""
        if member != self.sitting:
            self._get_up()
            self._sit(np.int64(member))
            self.sitting = member

    def _get_up(self) -> None:
        if self.sitting is not None:
            self._keep(np.int64(self.sitting))
        self.sitting = None


class Place:
    """A member's place: what it calls, it calls after it sat down.

    Attributes:
      engine: declares such calls.
    """

    def __init__(self, seat: Seat, member: int) -> None:
        self._seat, self.member = seat, member
        self.engine = _SeatedEngine(seat.engine, self.sit)

    def sit(self) -> None:
        """Has the member sit down, if another one sits there."""
        self._seat.take(self.member)

    def begin(self, seed: int) -> None:
        """Has the member sit down for the first time; see `Seat.begin`."""
        self._seat.begin(self.member, seed)

    def copy(self, part: T, **changed: Any) -> T:
        """Returns a part of an agent for this member.

        Calls among its attributes, and its engine, become those of this member.

        Args:
          part: of the agent that the graph was built for.
          changed: attributes that are the member's own.
        """
        other = copy.copy(part)
        for name, value in vars(part).items():
            setattr(other, name, self._own(value))
        for name, value in changed.items():
            setattr(other, name, value)
        return other

    def _own(self, value: Any) -> Any:
        if isinstance(value, Call):
            return value.after(self.sit)
        if isinstance(value, Engine):
            return self.engine
        if isinstance(value, dict) and any(isinstance(of, Call) for of in value.values()):
            return {name: self._own(of) for name, of in value.items()}
        return value


class _SeatedEngine(Engine):
    """An engine that has started, whose calls are those of one member."""

    def __init__(self, engine: Engine, sit: Callable[[], None]) -> None:
        vars(self).update(vars(engine))
        self._engine, self._sit = engine, sit

    def callable(self, *of: Any, **how: Any) -> Call:
        return self._engine.callable(*of, **how).after(self._sit)

    def run(self, *of: Any, **how: Any) -> Any:
        self._sit()
        return self._engine.run(*of, **how)


class _Kept:
    """All members' values of some variables: a matrix [P, n] for each dtype."""

    def __init__(self, count: int, variables: Iterable[tf.Variable]) -> None:
        self._kinds: dict[tf.DType, list[tf.Variable]] = {}
        for variable in variables:
            self._kinds.setdefault(variable.dtype.base_dtype, []).append(variable)
        with tf.variable_scope("kept"):
            self._rows = {
                dtype: tf.get_variable(
                    dtype.name,
                    [count, sum(map(_size, kind))],
                    dtype,
                    tf.zeros_initializer(),
                    trainable=False,
                )
                for dtype, kind in self._kinds.items()
            }

    def taken_by(self, member: tf.Tensor) -> tf.Operation:
        """Gives the variables the values of `member`, an int64 scalar."""
        done = []
        for dtype, kind in self._kinds.items():
            row = tf.gather(self._rows[dtype], member)
            parts = tf.split(row, [_size(variable) for variable in kind])
            for variable, part in zip(kind, parts, strict=True):
                value = tf.reshape(part, variable.shape)
                done.append(variable.assign(value, read_value=False))
        return tf.group(*done)

    def kept_for(self, member: tf.Tensor) -> tf.Operation:
        """Keeps the variables' values as those of `member`, an int64 scalar."""
        done = []
        for dtype, kind in self._kinds.items():
            row = tf.concat([tf.reshape(v.read_value(), [-1]) for v in kind], axis=0)
            matrix = self._rows[dtype].handle
            update = tf.raw_ops.ResourceScatterUpdate(resource=matrix, indices=member, updates=row)
            done.append(update)
        return tf.group(*done)


def _size(variable: tf.Variable) -> int:
    return int(np.prod(variable.shape.as_list(), dtype=np.int64))
