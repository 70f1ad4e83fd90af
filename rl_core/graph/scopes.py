"""Variable scopes: finding their variables, and guarding one from gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf


def variables_in(scope: str) -> dict[str, tf.Variable]:
    """Trainable variables under `scope` (a full path), keyed by the name that follows it."""
    # With the slash, "online" does not also match "online_2". Trainable only, because
    # optimiser slots are named under the same prefix ("online/out/w/Adam").
    prefix = scope.rstrip("/") + "/"
    found = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, re.escape(prefix))
    return {v.op.name.removeprefix(prefix): v for v in found}


def blocks_of(scope: str, names: Sequence[str] | None = None) -> dict[str, list[tf.Variable]]:
    """The child scopes of `scope`, each with its variables, in the order they were built.

    A variable directly under `scope` is a block of its own name. `names` chooses and orders.
    """
    blocks: dict[str, list[tf.Variable]] = {}
    for name, variable in variables_in(scope).items():
        blocks.setdefault(name.split("/")[0], []).append(variable)
    return {name: blocks[name] for name in (names or blocks)}


def stop_gradient_getter(
    getter: Callable[..., tf.Variable], name: str, *args: Any, **kwargs: Any
) -> tf.Tensor:
    """A `custom_getter`: what a scope's layers read is cut off from gradients.

    The layers receive a tensor, not the variable; the variable is in the collection, where
    `variables_in` finds it. TensorFlow insists that the first parameter is called `getter`.
    """
    return tf.stop_gradient(getter(name, *args, **kwargs), name=name.split("/")[-1] + "_guarded")
