"""Seals: a hash, stored in a file, of the rest of the file, so that damage is noticed.

A seal detects a truncated file or a flipped digit. It does not protect against a person who
writes both content and seal. Files of version 0.1 have no seal and are accepted.

In a file that grows, each line has a seal of its own, over its text and its position: so a missing
line is noticed too, unless it is one of the last.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_KEY = "seal"
# The seal is the first line, because a truncated file loses its end.
_LINE = re.compile(rb'(.*), "seal": "([0-9a-f]{16})"\}', re.DOTALL)
SEAL_LINE = "# sha256 of what follows: "  # how a sealed text begins
_FIRST_LINE = re.compile(SEAL_LINE + r"([0-9a-f]{64})\n")
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
    return f"{SEAL_LINE}{_sha256(text)}\n{text}"


def is_sealed_text(text: str) -> bool:
    """Returns True if a text has a seal.

    Raises:
      ValueError: the seal does not match the text.
    """
    match = _FIRST_LINE.match(text)
    if match is not None and match[1] != _sha256(text[match.end() :]):
        raise ValueError(_DAMAGE)
    return match is not None


def sealed_line(text: bytes, position: int) -> bytes:
    """Returns a line with a seal, and its newline.

    Args:
      text: a JSON object with at least one field, on one line.
      position: byte of the file at which the line begins.
    """
    body = text[:-1]
    return body + b', "seal": "' + _seal_of_line(body, position) + b'"}\n'


def unsealed_line(line: bytes, position: int) -> bytes | None:
    """Returns the text of a line, without its newline and seal; None if it has no seal.

    Raises:
      ValueError: the seal does not match the line and its position.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    if _seal_of_line(match[1], position) != match[2]:
        raise ValueError(_DAMAGE)
    return match[1] + b"}"


def _seal_of_line(body: bytes, position: int) -> bytes:
    return hashlib.sha256(b"%d " % position + body).hexdigest()[:16].encode()


def _seal(fields: Mapping[str, Any]) -> str:
    return _sha256(json.dumps(fields, sort_keys=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
