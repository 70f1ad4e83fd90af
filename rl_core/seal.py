"""Seals: a hash in a file of what else is in it, so that damage is noticed.

A seal tells of a cut file or a flipped digit, not of somebody who writes content and seal. Files
of version 0.1 have none and are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_KEY = "seal"
# In the first line: where a file is cut, its end is missing.
_FIRST_LINE = re.compile(r"# sha256 of what follows: ([0-9a-f]{64})\n")
_DAMAGE = "it is damaged: not what was written"


def sealed_json(fields: Mapping[str, Any]) -> bytes:
    """Returns a JSON object with the given fields and a seal over them."""
    return (json.dumps(dict(fields) | {_KEY: _seal(fields)}, indent=2) + "\n").encode()


def unsealed_json(data: bytes) -> dict[str, Any]:
    """Returns the fields of a JSON object, without the seal.

    Raises:
      ValueError: it is no JSON object, or its seal is of other fields.
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
    """Returns a text with a first line, a comment in TOML, that seals the rest."""
    return f"# sha256 of what follows: {_sha256(text)}\n{text}"


def is_sealed_text(text: str) -> bool:
    """Whether a text has a seal.

    Raises:
      ValueError: it has one, of another text.
    """
    match = _FIRST_LINE.match(text)
    if match is not None and match[1] != _sha256(text[match.end() :]):
        raise ValueError(_DAMAGE)
    return match is not None


def _seal(fields: Mapping[str, Any]) -> str:
    return _sha256(json.dumps(fields, sort_keys=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
