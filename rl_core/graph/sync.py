"""Copies of variables between scopes: online to target, online to past copies.

A copy op is built once. Running it assigns each variable inside the graph; no value passes
through Python. The caller decides when to run it.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import BoundsError, ScopeMismatch
from targetnet.rl_core.graph.finite import where
from targetnet.rl_core.graph.scopes import variables_in


def copy_vars(
    source: str,
    target: str,
    *,
    tau: float | tf.Tensor | None = None,
    allow_missing: bool = False,
    only_if: tf.Tensor | None = None,
    whole: Callable[[str], bool] | None = None,
    name: str = "copy_vars",
) -> tf.Operation:
    """Returns one op that copies the trainable variables of scope `source` to scope `target`.

        hard (tau is None):  target <- source
        soft:                target <- target + tau * (source - target)

    Hard copies: Mnih et al. (2015), https://doi.org/10.1038/nature14236. Soft copies:
    Lillicrap et al. (2016), https://arxiv.org/abs/1509.02971.

    Args:
      source: full scope path, such as `online.name`.
      target: full scope path. Variables are paired by their name relative to the scope.
      tau: share of the source in (0, 1]: a number, or a scalar float tensor, which may be fed.
        A soft copy with tau 1 gives exactly the source's bits.
      allow_missing: copy the variables that both scopes have and leave the others alone.
      only_if: bool scalar tensor, for a soft copy: if false, the target keeps its values.
      whole: says of a variable's name, relative to the scope, whether a soft copy takes it over
        whole, as if tau were 1.

    Raises:
      ScopeMismatch: the scopes have no variables, different names, or different shapes.
      BoundsError: `tau` is a number outside (0, 1].
    """
    if isinstance(tau, numbers.Real) and not 0 < float(tau) <= 1:
        raise BoundsError(f"tau must be in (0, 1], got {tau}")
    pairs = paired_variables(source, target, allow_missing=allow_missing)
    with tf.name_scope(name):
        if tau is None:
            copies = [to.assign(of.read_value(), read_value=False) for of, to in pairs]
            return tf.group(*copies, name="hard")
        moved = []
        for of, to in pairs:
            at_once = whole is not None and whole(of.op.name.removeprefix(f"{source}/"))
            moved.append(_move(of, to, 1.0 if at_once else tau, only_if))
        return tf.group(*moved, name="soft")


def paired_variables(
    source: str, target: str, *, allow_missing: bool = False
) -> list[tuple[tf.Variable, tf.Variable]]:
    """Returns (source, target) pairs of variables with the same relative name, in source order.

    Raises:
      ScopeMismatch: the scopes have no variables, different names, or different shapes.
    """
    source_vars, target_vars = variables_in(source), variables_in(target)
    common = [name for name in source_vars if name in target_vars]
    if not common or (not allow_missing and source_vars.keys() != target_vars.keys()):
        raise ScopeMismatch(
            f"cannot copy scope {source!r} to {target!r}: "
            f"only in source {sorted(source_vars.keys() - target_vars.keys())}, "
            f"only in target {sorted(target_vars.keys() - source_vars.keys())}. "
            + (
                "Build both scopes with the same network function."
                if common
                else "They share no variable: are the scope paths complete?"
            )
        )
    pairs = [(source_vars[name], target_vars[name]) for name in common]
    different = [
        f"{name} is {of.dtype.name}{of.shape} in source and {to.dtype.name}{to.shape} in target"
        for name, (of, to) in zip(common, pairs, strict=True)
        if of.shape != to.shape or of.dtype != to.dtype
    ]
    if different:
        raise ScopeMismatch(f"cannot copy scope {source!r} to {target!r}: {'; '.join(different)}")
    return pairs


def _move(
    source: tf.Variable, target: tf.Variable, tau: float | tf.Tensor, only_if: tf.Tensor | None
) -> tf.Operation:
    tau = tf.cast(tau, target.dtype.base_dtype)
    now, goal = target.read_value(), source.read_value()
    moved = now + tau * (goal - now)
    # now + 1 * (goal - now) may differ from goal in the last bit; with tau 1 it must be equal.
    moved = where(only_if, tf.where(tf.equal(tau, 1), goal, moved), now)
    return target.assign(moved, read_value=False)
