"""A hash over named values: runs with equal digests are identical. Checksums of time steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np


class Digest:
    """A SHA-256 over arrays and plain values.

    Each value is hashed with its name, so no value can be mistaken for another. The order of the
    additions matters.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def array(self, name: str, array: np.ndarray) -> None:
        """Adds the bits of an array, its dtype and its shape."""
        array = np.ascontiguousarray(array)
        self._header([name, array.dtype.str, list(array.shape)])
        self._hash.update(array.reshape(-1).view(np.uint8).data)

    def value(self, name: str, value: Any) -> None:
        """Adds any JSON value."""
        self._header([name, "json", value])

    def hexdigest(self) -> str:
        """Returns the digest, 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def _header(self, fields: list[Any]) -> None:
        text = json.dumps(fields, sort_keys=True).encode()
        self._hash.update(len(text).to_bytes(8, "little") + text)


_ODD = 2_654_435_761  # odd factors: if exactly one word differs, the sum differs


def checksums(columns: Sequence[np.ndarray | None]) -> np.ndarray:
    """Returns a checksum per time step, [T] uint32, of columns [T, ...] of any dtype.

    Equal bits give equal checksums. A column that is None is ignored. A checksum is a sum over
    words, so those of some columns, with zeros in place of the others, add up to that of all.
    """
    there = [np.ascontiguousarray(c) for c in columns if c is not None]
    T = len(there[0])
    parts = [c.reshape(T, -1).view(np.uint8) for c in there]
    size = sum(part.shape[1] for part in parts)
    parts.append(np.zeros((T, -size % 4), np.uint8))
    words = np.concatenate(parts, axis=1).view("<u4")  # [T, W]
    return (words * word_factors(words.shape[1])).sum(axis=1, dtype=np.uint32)


def word_factors(count: int) -> np.ndarray:
    """Returns the factors of a checksum's words of four bytes, [count] uint32."""
    return np.arange(1, 2 * count, 2, dtype=np.uint32) * np.uint32(_ODD)
