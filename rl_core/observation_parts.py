"""Observations of several parts, each in a place of its own in one row.

A row is one array, so it is stored, handed on and fed like any other observation. If all parts are
float32, so is the row; else it has bytes, first those of the float32 parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FLOAT32, BYTE = np.dtype(np.float32), np.dtype(np.uint8)


class Part(NamedTuple):
    """One part of an observation.

    Attributes:
      name: of it, as "camera" or "arms.0".
      shape, dtype: of it; float32, uint8 or bool.
      byte_bounds: (low, high) of uint8; None: 0 and 255, or no bytes.
      begin: the first element that it takes in a row.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    byte_bounds: tuple[np.ndarray, np.ndarray] | None = None
    begin: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of it."""
        return math.prod(self.shape) * self.dtype.itemsize

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Returns this part of rows [..., n], as a view [..., *shape]."""
        end = self.begin + self.nbytes // rows.dtype.itemsize
        own = rows[..., self.begin : end].view(self.dtype)
        view: np.ndarray = own.reshape((*rows.shape[:-1], *self.shape))
        assert np.shares_memory(view, rows) or not view.size
        return view


def placed(parts: Sequence[Part]) -> tuple[tuple[Part, ...], np.dtype, int]:
    """Returns the parts with their places in a row, the row's dtype, and its number of elements."""
    dtype = FLOAT32 if all(part.dtype == FLOAT32 for part in parts) else BYTE
    begin, found = 0, {}
    # Numbers first, so that they lie at multiples of four bytes.
    for part in sorted(parts, key=lambda part: part.dtype != FLOAT32):
        found[part.name] = part._replace(begin=begin)
        begin += part.nbytes // dtype.itemsize
    if dtype == BYTE:
        begin += -begin % FLOAT32.itemsize
    return tuple(found[part.name] for part in parts), dtype, begin


def part_scope(part: str) -> str:
    """Returns the name of a part as that of a variable scope."""
    return re.sub(r"[^\w.-]", "_", part, flags=re.ASCII)
