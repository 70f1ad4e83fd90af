"""A hash over named values: runs with equal digests are identical."""

from __future__ import annotations

import hashlib
import json
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
