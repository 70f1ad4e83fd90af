"""Several agents of one form in one graph, which take turns on its variables.

The graph is built once, as for one agent. Its variables have the values of one member, the active
one, and every call of the graph is of that member. The values of all members are in matrices
[P, n], so loading or saving one member takes a few copies. Variables that are too large to be
copied, those of a replay, have a part for each member.

A call that is made all the time need not load a member: it can be built on rows of the matrices,
for one member or for many at once. In the graph the variables of `ActiveMember` are called `seat`,
and the matrices of `MemberStore` `kept`, as stored graphs have them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.scopes import MemberPart, MemberSlots, Root
from targetnet.rl_core.graph.variable_overrides import VariableOverrides, VariableUse

T = TypeVar("T")


class ActiveMember:
    """The variables of one agent, on which members take turns. Make it last of all in the graph.

    Args:
      engine: whose graph and session are used.
      root: under which the agent was built, with members.
      uses: of the calls that read and write rows of the store, the variables that each uses.

    Attributes:
      engine: the same.
      current: the member whose values the variables have; None: nobody's.
      store: all members' values.
    """

    def __init__(self, engine: Engine, root: Root, uses: Sequence[VariableUse] = ()) -> None:
        assert root.members is not None
        self.engine = engine
        self.current: int | None = None
        own = [v for v in tf.global_variables() if v.op.name.startswith(root.prefix)]
        copied = [v for v in own if not root.owns(v) and root.seen(v) is v]
        with tf.name_scope("seat"):
            self.store = store = MemberStore(root.members, copied, uses)
            member = tf.placeholder(tf.int64, [], "member")
            switched = root.members.active.assign(member, read_value=False)
            self._begin = engine.callable(
                None, [root.seed, member], [switched, *[v.initializer for v in copied]]
            )
            self._load = engine.callable(None, [member], [switched, store.loaded_by(member)])
            self._save = engine.callable(None, [member], [store.saved_for(member)])

    def begin(self, member: int, seed: int) -> None:
        """Gives the variables the first values of `member`, by its own seed."""
        self.save()
        self._begin(np.int64(seed), np.int64(member))
        self.current = member

    def load(self, member: int) -> None:
        """Gives the variables the values of `member`, after those of the one before are saved."""
        if member != self.current:
            self.save()
            self._load(np.int64(member))
            self.current = member

    def copies(self, names: Collection[str]) -> Callable[[int, int], None]:
        """Returns what copies some variables of one member to another one.

        Call it while the graph is being built.

        Args:
          names: full names of the variables.
        """
        with tf.name_scope("seat"):
            giver, taker = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [])
            call = self.engine.callable(
                None, [giver, taker], [self.store.copied(names, giver, taker)]
            )

        def copy_from_to(giver: int, taker: int) -> None:
            self.save()
            call(np.int64(giver), np.int64(taker))

        return copy_from_to

    def save(self) -> None:
        """Saves the current member: then all members' values are in the store."""
        if self.current is not None:
            self._save(np.int64(self.current))
        self.current = None


class MemberHandle:
    """One member of an agent that was built for several: its calls load its values first.

    Attributes:
      engine: declares such calls.
      first: is called before the member is loaded; does the work that it put off.
    """

    def __init__(self, active: ActiveMember, member: int) -> None:
        self._active, self.member = active, member
        self.engine = _MemberEngine(active.engine, self.activate)
        self.first: Callable[[], None] = lambda: None

    def activate(self) -> None:
        """Gives the variables this member's values, if they have another one's."""
        self.first()
        self._active.load(self.member)

    def begin(self, seed: int) -> None:
        """Gives the variables this member's first values; see `ActiveMember.begin`."""
        self._active.begin(self.member, seed)


class MemberRebinder:
    """Makes a member's parts of an agent, however they hang together.

    Each `MemberPart` is copied once, with the calls, the engine and the parts in it, and with the
    member's own objects in place of the first agent's. What is in `per_member` is made anew. All
    else is shared, also lists and arrays: none of them may change, or hold a part.

    Args:
      own: an object of the first agent, and the member's own in its place.
      member: whose calls they make; None: the agent has the graph for itself, and calls and engine
        are shared too.
    """

    def __init__(self, own: Iterable[tuple[Any, Any]], member: MemberHandle | None = None) -> None:
        self._member, self._made = member, {id(first): other for first, other in own}

    def __call__(self, value: T) -> T:
        """Returns the member's value in place of the first agent's."""
        return cast(T, self._of(value))

    def put(self, value: object, own: object) -> None:
        """Has `own` stand in the place of `value` from here on."""
        self._made[id(value)] = own

    def _of(self, value: Any) -> Any:
        if id(value) in self._made:
            return self._made[id(value)]
        if isinstance(value, Call):
            return value if self._member is None else value.after(self._member.activate)
        if isinstance(value, Engine):
            return value if self._member is None else self._member.engine
        if type(value) is dict:
            items = {name: self._of(item) for name, item in value.items()}
            return items if any(items[name] is not value[name] for name in value) else value
        if not isinstance(value, MemberPart):
            held = value if isinstance(value, list | tuple | set | frozenset) else ()
            assert not any(isinstance(item, Call | Engine | MemberPart) for item in held), value
            return value
        other = self._made[id(value)] = copy.copy(value)
        for name, item in vars(value).items():
            first = value.per_member.get(name)
            setattr(other, name, self._of(item) if first is None else first())
        return other


class _MemberEngine(Engine):
    """An engine that has started, whose calls are those of one member."""

    def __init__(self, engine: Engine, activate: Callable[[], None]) -> None:
        vars(self).update(vars(engine))
        self._engine, self._activate = engine, activate

    def callable(self, *of: Any, **how: Any) -> Call:
        return self._engine.callable(*of, **how).after(self._activate)

    def run(self, *of: Any, **how: Any) -> Any:
        self._activate()
        return self._engine.run(*of, **how)


class MemberStore:
    """All members' values of some variables: matrices [P, n].

    A matrix has the variables of one dtype that the same calls read and the same assign, so that a
    call reads and writes nothing else.

    Args:
      members: whose values they are.
      variables: which.
      uses: see `ActiveMember`.

    Attributes:
      count: P.
      matrices: all of them.
    """

    def __init__(
        self, members: MemberSlots, variables: Iterable[tf.Variable], uses: Sequence[VariableUse]
    ) -> None:
        self.count, self._current = members.count, members.active.op.name
        together: dict[Any, list[tf.Variable]] = {}
        for variable in variables:
            name = variable.op.name
            read = tuple(name in use.read | use.assigned for use in uses)
            assigned = tuple(name in use.assigned for use in uses)
            kind = variable.dtype.base_dtype, read, assigned
            together.setdefault(kind, []).append(variable)
        with tf.variable_scope("kept"):
            self.matrices = [
                MemberTable(f"{dtype.name}_{i}", members.count, of, read, assigned)
                for i, ((dtype, read, assigned), of) in enumerate(together.items())
            ]

    def used_by(self, use: int) -> list[MemberTable]:
        """Returns the matrices of the call at this place in `uses`, first those that it changes."""
        used = [matrix for matrix in self.matrices if matrix.read[use]]
        return sorted(used, key=lambda matrix: not matrix.assigned[use])

    def overrides(
        self, matrices: Iterable[MemberTable], rows: Iterable[tf.Tensor], member: tf.Tensor
    ) -> VariableOverrides:
        """Returns values that stand in for the variables of some matrices.

        Args:
          rows: of each matrix, [..., n].
          member: whose they are, int64: a scalar, or [K, 1] for rows [K, n].
        """
        values = {self._current: member}
        for matrix, row in zip(matrices, rows, strict=True):
            values |= matrix.values(row)
        return VariableOverrides(values)

    def loaded_by(self, member: tf.Tensor) -> tf.Operation:
        """Gives the variables the values of `member`, an int64 scalar."""
        done = []
        for matrix in self.matrices:
            values = matrix.values(matrix.rows(member))
            for variable in matrix.variables:
                done.append(variable.assign(values[variable.op.name], read_value=False))
        return tf.group(*done)

    def copied(self, names: Collection[str], giver: tf.Tensor, taker: tf.Tensor) -> tf.Operation:
        """Copies the variables with these full names from one row to another.

        Args:
          giver, taker: the members, int64 scalars.
        """
        done = []
        for matrix in self.matrices:
            given, own = (matrix.values(matrix.rows(member)) for member in (giver, taker))
            copied = {name: value for name, value in given.items() if name in names}
            if copied:
                done.append(matrix.write(taker, matrix.row(own | copied)))
        return tf.group(*done)

    def saved_for(self, member: tf.Tensor) -> tf.Operation:
        """Saves the variables' values as those of `member`, an int64 scalar."""
        return tf.group(
            *[
                of.write(member, of.row({v.op.name: v.read_value() for v in of.variables}))
                for of in self.matrices
            ]
        )


class MemberTable:
    """All members' values of some variables of one dtype.

    Args:
      name, count: of the variable [P, n].
      variables: whose values are in a row, one after the other.
      read, assigned: for each of the calls that `MemberStore` knows, whether it uses and assigns
        them.

    Attributes:
      variables, read, assigned: the same.
      all: the variable.
    """

    def __init__(
        self,
        name: str,
        count: int,
        variables: Sequence[tf.Variable],
        read: Sequence[bool],
        assigned: Sequence[bool],
    ) -> None:
        self.variables, self.read, self.assigned = variables, read, assigned
        self._sizes = [int(np.prod(v.shape.as_list(), dtype=np.int64)) for v in variables]
        shape, dtype = [count, sum(self._sizes)], variables[0].dtype.base_dtype
        self.all = tf.get_variable(name, shape, dtype, tf.zeros_initializer(), trainable=False)

    def rows(self, member: tf.Tensor) -> tf.Tensor:
        """The rows of some members, int64 [...]: [..., n]."""
        return tf.gather(self.all, member)

    def write(self, member: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
        """Writes the rows of some members."""
        return tf.raw_ops.ResourceScatterUpdate(
            resource=self.all.handle, indices=member, updates=rows
        )

    def values(self, row: tf.Tensor) -> dict[str, tf.Tensor]:
        """Cuts rows [..., n] into the values of the variables, by their full names."""
        lead = row.shape[:-1].as_list()
        lead = [-1 if size is None else size for size in lead]
        return {
            variable.op.name: tf.reshape(part, [*lead, *variable.shape.as_list()])
            for variable, part in zip(
                self.variables, tf.split(row, self._sizes, axis=-1), strict=True
            )
        }

    def row(self, values: Mapping[str, tf.Tensor], lead: Sequence[int] = ()) -> tf.Tensor:
        """Puts values [*lead, ...] together again: [*lead, n]."""
        parts = zip(self.variables, self._sizes, strict=True)
        flat = [tf.reshape(values[of.op.name], [*lead, size]) for of, size in parts]
        return tf.concat(flat, axis=-1)
