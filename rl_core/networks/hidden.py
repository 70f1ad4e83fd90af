"""Hidden layers of rectified units in a network that was built: what feeds a unit, what it feeds.

Nothing is added to the graph. A layer is found if it is sure which weights are a unit's own: built
by targetnet.rl_core.graph.layers, perhaps normalised, then rectified, and read by nothing but other
such layers, perhaps flattened, cast or multiplied elementwise on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.layers import Layer

_KEEP_SHAPE = ("Mul", "RealDiv", "Cast")


class HiddenLayer(NamedTuple):
    """A layer of rectified units.

    Attributes:
      scope: full name of the scope of its variables, whose last dimension is that of the units.
      norm: the same of the layer norm between it and its units; None without one.
      into: full names of the scopes of the layers that read the units. The last dimension but one
        of their weights has the units, perhaps once for each place: the units vary fastest.
      activation: [..., n], what the units give.
    """

    scope: str
    norm: str | None
    into: tuple[str, ...]
    activation: tf.Tensor

    @property
    def units(self) -> int:
        """Number of its units."""
        return int(self.activation.shape[-1])


def hidden_layers(built: Sequence[Layer]) -> list[HiddenLayer]:
    """Finds the hidden layers of a network. Call it before anything else reads its tensors.

    Args:
      built: by the network, in the order of `layers_built`.
    """
    calls = Counter(layer.scope for layer in built)
    once = [layer for layer in built if calls[layer.scope] < 2]
    found = []
    for layer in once:
        if layer.kind == "layer_norm":
            continue
        norm = next((of for of in once if of.kind == "layer_norm" and _reads(of, layer)), None)
        last = layer if norm is None else norm
        readers = layer.outputs.consumers()
        if norm is not None and not all(_within(norm, op) for op in readers):
            continue
        rectified = last.outputs.consumers()
        if len(rectified) != 1 or rectified[0].type != "Relu":
            continue
        activation = rectified[0].outputs[0]
        into = _readers(activation, int(activation.shape[-1]), once)
        if into:
            name = None if norm is None else norm.scope
            found.append(HiddenLayer(layer.scope, name, tuple(dict.fromkeys(into)), activation))
    return found


def _readers(tensor: tf.Tensor, units: int, built: Sequence[Layer]) -> list[str] | None:
    """Returns the scopes of the layers that read `tensor`; None if something else does too."""
    found: list[str] = []
    for op in tensor.consumers():
        reader = next((of for of in built if _is(of.inputs, tensor) and _within(of, op)), None)
        if reader is not None and reader.kind != "layer_norm":
            found.append(reader.scope)
            continue
        if not _keeps_units(op, tensor, units):
            return None
        further = _readers(op.outputs[0], units, built)
        if further is None:
            return None
        found += further
    return found


def _keeps_units(op: tf.Operation, tensor: tf.Tensor, units: int) -> bool:
    """Says whether the output's last dimension has the units, once or once for each place."""
    if len(op.outputs) != 1 or op.outputs[0].shape.rank is None:
        return False
    last = op.outputs[0].shape[-1]
    if op.type in _KEEP_SHAPE:
        return bool(last == tensor.shape[-1])
    if not _is(op.inputs[0], tensor) or not last:
        return False
    if op.type == "StridedSlice":  # `x[:, tf.newaxis]`: others may change the order of the units
        return bool(op.outputs[0].shape.rank == tensor.shape.rank + 1 and last == units)
    return op.type == "Reshape" and int(last) % units == 0


def _reads(norm: Layer, layer: Layer) -> bool:
    return _is(norm.inputs, layer.outputs)


def _is(one: tf.Tensor, other: tf.Tensor) -> bool:
    return bool(one.name == other.name)


def _within(layer: Layer, op: tf.Operation) -> bool:
    """Says whether an operation is one of a layer's."""
    prefix = layer.outputs.op.name.rpartition("/")[0]
    return bool(op.name.startswith(f"{prefix}/"))
