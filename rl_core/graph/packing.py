"""Packs small tensors of one kind into one: a compiled loop pays for each tensor it carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2


def pack(values: Any) -> list[tf.Tensor]:
    """The tensors of a nest, with those of the same dtype and shape stacked if that is small.

    What a compiled loop carries is one kernel and one copy for each tensor.
    """
    return [
        flat[0] if len(flat) == 1 else tf.stack(flat)
        for flat in ([tensor for _, tensor in group] for group in _groups(values))
    ]


def unpacked(packed: Sequence[tf.Tensor], like: Any) -> Any:
    """Undoes `pack`: returns a nest shaped as `like`."""
    flat: list[Any] = [None] * len(tf2.nest.flatten(like))
    for group, tensor in zip(_groups(like), packed, strict=True):
        parts = [tensor] if len(group) == 1 else tf.unstack(tensor)
        for (place, _), part in zip(group, parts, strict=True):
            flat[place] = part
    return tf2.nest.pack_sequence_as(like, flat)


def _groups(values: Any) -> list[list[tuple[int, tf.Tensor]]]:
    """(place, tensor) of a nest's tensors, by what can be stacked."""
    groups: dict[Any, list[tuple[int, tf.Tensor]]] = {}
    for place, tensor in enumerate(map(tf.convert_to_tensor, tf2.nest.flatten(values))):
        small = tensor.shape.rank is not None and tensor.shape.rank <= 1
        key = (tensor.dtype, tuple(tensor.shape.as_list())) if small else place
        groups.setdefault(key, []).append((place, tensor))
    return list(groups.values())
