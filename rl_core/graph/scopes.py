"""Variable scopes: lookup of their variables, and a getter that blocks gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf


def variables_in(scope: str) -> dict[str, tf.Variable]:
    """Returns the trainable variables under `scope` (a full path), keyed by their relative name."""
    # With the slash, "online" does not also match "online_2". Only trainable variables, because
    # the names of optimizer slots have the same prefix ("online/out/w/Adam").
    prefix = scope.rstrip("/") + "/"
    found = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, re.escape(prefix))
    return {v.op.name.removeprefix(prefix): v for v in found}


def blocks_of(scope: str, names: Sequence[str] | None = None) -> dict[str, list[tf.Variable]]:
    """Returns the child scopes of `scope` with their variables, in the order they were built.

    A variable directly under `scope` is a block with the variable's name. `names` selects the
    blocks and sets their order.
    """
    blocks: dict[str, list[tf.Variable]] = {}
    for name, variable in variables_in(scope).items():
        blocks.setdefault(name.split("/")[0], []).append(variable)
    return {name: blocks[name] for name in (names or blocks)}


def stop_gradient_getter(
    getter: Callable[..., tf.Variable], name: str, *args: Any, **kwargs: Any
) -> tf.Tensor:
    """Returns a variable behind `stop_gradient`; pass this function as `custom_getter` of a scope.

    The scope's layers receive a tensor instead of the variable; `variables_in` still finds the
    variable. TensorFlow requires that the first parameter is named `getter`.
    """
    return tf.stop_gradient(getter(name, *args, **kwargs), name=name.split("/")[-1] + "_guarded")
