"""Seals: a hash, stored in a file, of the rest of the file, so that damage is noticed.

A seal detects a truncated file or a flipped digit. It does not protect against a person who
writes both content and seal. Files of version 0.1 have no seal and are accepted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_KEY = "seal"
# The seal is the first line, because a truncated file loses its end.
_FIRST_LINE = re.compile(r"# sha256 of what follows: ([0-9a-f]{64})\n")
_DAMAGE = "it is damaged: not what was written"


def sealed_json(fields: Mapping[str, Any]) -> bytes:
    """Returns a JSON object with the given fields and a seal over them."""
    return (json.dumps(dict(fields) | {_KEY: _seal(fields)}, indent=2) + "\n").encode()


def unsealed_json(data: bytes) -> dict[str, Any]:
    """Returns the fields of a JSON object, without the seal.

    Raises:
      ValueError: the data is no JSON object, or the seal does not match the fields.
    """
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    seal = fields.pop(_KEY, None)
    if seal is not None and seal != _seal(fields):
        raise ValueError(_DAMAGE)
    return fields


def sealed_text(text: str) -> str:
    """Returns the text after a first line with its seal; the line is a comment in TOML."""
    return f"# sha256 of what follows: {_sha256(text)}\n{text}"


def is_sealed_text(text: str) -> bool:
    """Returns True if a text has a seal.

    Raises:
      ValueError: the seal does not match the text.
    """
    match = _FIRST_LINE.match(text)
    if match is not None and match[1] != _sha256(text[match.end() :]):
        raise ValueError(_DAMAGE)
    return match is not None


def _seal(fields: Mapping[str, Any]) -> str:
    return _sha256(json.dumps(fields, sort_keys=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
