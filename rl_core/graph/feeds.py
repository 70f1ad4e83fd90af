"""Checks of the values that calls are fed: TensorFlow neither casts nor checks them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import FeedError

_KIND = operator.attrgetter("shape", "dtype")
# Of one call that are remembered as good: a batch may come in many sizes.
_MOST_KINDS = 64


def feed_check(feeds: Sequence[tf.Tensor]) -> Callable[[tuple[Any, ...]], None]:
    """A function of the tuple of values that raises FeedError as a call with them would.

    It costs little where the same objects come again, or others of the same shapes and dtypes.
    """
    # What passed last time; at first, objects that nobody else has.
    seen: tuple[Any, ...] = tuple(object() for _ in feeds)
    last: tuple[Any, ...] | None = None  # shapes and dtypes
    good: set[tuple[Any, ...]] = set()  # the same

    def check(values: tuple[Any, ...]) -> None:
        nonlocal seen, last
        if len(values) == len(seen) and all(map(operator.is_, values, seen)):
            return
        try:
            kinds = tuple(map(_KIND, values))
        except AttributeError:
            kinds = None
        if kinds is None or (kinds != last and kinds not in good):
            explain_feeds(feeds, values)
            if kinds is not None and len(good) < _MOST_KINDS:
                good.add(kinds)
        seen, last = values, kinds

    return check


def explain_feeds(feeds: Sequence[tf.Tensor], values: Sequence[Any]) -> None:
    """Raises a FeedError that names the first value that does not fit; returns if all do."""
    if len(feeds) != len(values):
        names = ", ".join(t.op.name for t in feeds)
        raise FeedError(f"wanted {len(feeds)} values ({names}), got {len(values)}")
    for tensor, value in zip(feeds, values, strict=True):
        wanted = tensor.dtype.as_numpy_dtype
        got = np.asarray(value)
        if got.dtype != wanted:
            raise FeedError(
                f"{tensor.op.name} must be {np.dtype(wanted).name}, got {got.dtype.name}; "
                "feeds are not cast, so convert the value first"
            )
        if not hasattr(value, "dtype"):
            raise FeedError(
                f"{tensor.op.name} must be a NumPy value of {np.dtype(wanted).name}, "
                f"got {type(value).__name__}; feeds are not cast, so convert the value first"
            )
        if not tensor.shape.is_compatible_with(got.shape):
            raise FeedError(
                f"{tensor.op.name} must have shape {tensor.shape}, got {tuple(got.shape)}"
            )
