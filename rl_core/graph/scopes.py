"""Variable scopes: lookup of their variables, a getter that blocks gradients, one agent's root."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.rl_core.arguments import require_a
from targetnet.rl_core.errors import ScopeMismatch, UnknownName, did_you_mean, in_one_line, quoted
from targetnet.rl_core.graph.variable_overrides import replaceable_variables


class MemberPart:
    """A part of an agent of which each member of a population has its own.

    Attributes:
      per_member: attribute -> makes the value with which a member begins, where that is not a part
        of its own (see `targetnet.rl_core.graph.members.MemberRebinder`).
    """

    per_member: ClassVar[Mapping[str, Callable[[], Any]]] = {}


class MemberSlots:
    """Several agents of one form that take turns on the variables under one root.

    Make it inside `replaceable_variables`.

    Args:
      count: P.

    Attributes:
      active: int64 scalar variable: the member whose values the variables have.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        with tf.variable_scope("members"):
            self.active = tf.get_variable(
                "seat", [], tf.int64, tf.zeros_initializer(), trainable=False
            )
        self._parts: dict[str, Any] = {}

    @property
    def active_member(self) -> tf.Tensor:
        """The active member, as it is read here: int64 scalar."""
        return self.active.read_value()

    def has_part(self, whole: tf.Variable, part: Any) -> None:
        """Takes note of a variable that has a part for each member."""
        self._parts[whole.op.name] = part

    def seen(self, variable: tf.Variable) -> Any:
        """Returns the active member's part of a variable; the variable, if it has no parts."""
        return self._parts.get(variable.op.name, variable)


class Root(NamedTuple):
    """The scope under which one agent builds everything that is its own.

    Attributes:
      name: full path; empty if the whole graph is its own.
      seed: int64 scalar from which layers draw their first weights; None: the graph's seed.
      members: who take turns on its variables; None: one agent has them for itself.
    """

    name: str = ""
    seed: tf.Tensor | None = None
    members: MemberSlots | None = None

    def relative(self, name: str) -> str:
        """Returns a full name as it would be without this root."""
        name = name.removeprefix(self.prefix)
        # TensorFlow names a slot by its variable's full name, below the scope that is open.
        return name.removeprefix(self.prefix)

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for `members.active`, the number of the member that is loaded."""
        return self.members is not None and variable is self.members.active

    def seen(self, variable: tf.Variable) -> Any:
        """Returns what one agent has of a variable: all of it, or its part (see `MemberSlots`)."""
        return variable if self.members is None else self.members.seen(variable)

    @property
    def prefix(self) -> str:
        """Beginning of the full names of everything under it."""
        return f"{self.name}/" if self.name else ""


_ROOT: contextvars.ContextVar[Root] = contextvars.ContextVar("root", default=Root())  # noqa: B039


def current_root() -> Root:
    """Returns the root that is being built under."""
    return _ROOT.get()


@contextlib.contextmanager
def root_scope(name: str, seed: int, members: int | None = None) -> Iterator[Root]:
    """Builds one of several agents in a graph, with the bits that it would have alone.

    First weights and the random numbers of layers depend on the names below the root and on its
    seed, which is data: a session may start with another one (`root.seed` can be fed).

    Args:
      name: of the variable scope; empty opens none.
      seed: of the first weights.
      members: how many agents of this form there are; None: this one.
    """
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(tf.variable_scope(name)).name if name else ""
        default = tf.constant(seed, tf.int64)
        taking_turns = None
        if members is not None:
            stack.enter_context(replaceable_variables())
            taking_turns = MemberSlots(members)
        root = Root(path, tf.placeholder_with_default(default, [], "seed"), taking_turns)
        token = _ROOT.set(root)
        try:
            yield root
        finally:
            _ROOT.reset(token)


def variables_in(scope: str, *, allow_missing: bool = False) -> dict[str, tf.Variable]:
    """Returns the trainable variables under `scope` (a full path), keyed by their relative name.

    They are those of the default graph: call it inside `with engine.building():`.

    Args:
      scope: full path, such as `online.name`.
      allow_missing: return an empty dictionary if there are none.

    Raises:
      ArgumentError: `scope` is no string.
      ScopeMismatch: there are none; the message names the nearest scope that has some.
    """
    require_a(str, "scope", scope, "the full path of a variable scope, such as online.name")
    # With the slash, "online" does not also match "online_2". Only trainable variables, because
    # the names of optimizer slots have the same prefix ("online/out/w/Adam").
    prefix = scope.rstrip("/") + "/"
    found = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, re.escape(prefix))
    if not found and not allow_missing:
        raise ScopeMismatch(
            f"no trainable variables in scope {quoted(scope)}{_where_some_are(scope)}"
        )
    return {v.op.name.removeprefix(prefix): v for v in found}


def _where_some_are(scope: str) -> str:
    """Returns the end of a message: why a scope is empty, or the nearest one that is not."""
    paths = [v.op.name.split("/")[:-1] for v in tf.trainable_variables()]
    known = dict.fromkeys("/".join(path[: i + 1]) for path in paths for i in range(len(path)))
    if not known:
        eager = "no graph is being built here" if tf.executing_eagerly() else "this graph has none"
        return f": {eager}; did you mean: `with engine.building():`?"
    # Who gives the last part of a path wants the whole path, however long it is.
    whole = (path for path in known if path.endswith("/" + scope.strip("/")))
    near = did_you_mean(next(whole, scope), known)
    tops = ", ".join(path for path in known if "/" not in path)
    return near or f"; this graph has some in {in_one_line(tops)}"


def blocks_of(scope: str, names: Sequence[str] | None = None) -> dict[str, list[tf.Variable]]:
    """Returns the child scopes of `scope` with their variables, in the order they were built.

    A variable directly under `scope` is a block with the variable's name. `names` selects the
    blocks and sets their order.

    Raises:
      ScopeMismatch: `scope` has no trainable variables.
      UnknownName: a name is not that of a block.
    """
    blocks: dict[str, list[tf.Variable]] = {}
    for name, variable in variables_in(scope).items():
        blocks.setdefault(name.split("/")[0], []).append(variable)
    for name in names or ():
        if name not in blocks:
            raise UnknownName(
                f"no block {quoted(name)} in scope {quoted(scope)}, there are {', '.join(blocks)}"
                + did_you_mean(name, blocks)
            )
    return {name: blocks[name] for name in (names or blocks)}


def stop_gradient_getter(
    getter: Callable[..., tf.Variable], name: str, *args: Any, **kwargs: Any
) -> tf.Tensor:
    """Returns a variable behind `stop_gradient`; pass this function as `custom_getter` of a scope.

    The scope's layers receive a tensor instead of the variable; `variables_in` still finds the
    variable. TensorFlow requires that the first parameter is named `getter`.
    """
    return tf.stop_gradient(getter(name, *args, **kwargs), name=name.split("/")[-1] + "_guarded")
