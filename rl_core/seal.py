"""Seals: a hash, stored in a file, of the rest of the file, so that damage is noticed.

A seal detects a truncated file or a flipped digit. It does not protect against a person who
writes both content and seal. Files of version 0.1 have no seal and are accepted. Those of version
1.0 and later say which version wrote them, so that a seal that was taken out is missed.

In a file that grows, each line has a seal of its own, over its text and its position: so a missing
line is noticed too, unless it is one of the last.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

WRITTEN_BY = "targetnet"  # key of the version that wrote a file; one that has it has a seal too
_KEY = "seal"
# The seal is the first line, because a truncated file loses its end.
_LINE = re.compile(rb'(.*), "seal": "([0-9a-f]{16})"\}', re.DOTALL)
_STAMP = re.compile(rb'\{"targetnet": "[^"\\]*", ')  # how a sealed line begins
SEAL_LINE = "# sha256 of what follows: "  # how a sealed text begins
_FIRST_LINE = re.compile(SEAL_LINE + r"([0-9a-f]{64})\n")
_DAMAGE = "it is damaged: not what was written"
_MISSING = "it is damaged: its seal is missing"


class SealError(ValueError):
    """A seal that does not match, or is missing."""


def sealed_json(fields: Mapping[str, Any]) -> bytes:
    """Returns a JSON object with this version, the given fields, and a seal over both."""
    stamped = {WRITTEN_BY: this_version(), **fields}
    return (json.dumps(stamped | {_KEY: _seal(stamped)}, indent=2) + "\n").encode()


def unsealed_json(data: bytes) -> dict[str, Any]:
    """Returns the fields of a JSON object, without version and seal.

    Raises:
      SealError: the seal does not match the fields, or is missing in a file that had one.
      ValueError: the data is no JSON object.
    """
    fields = _object(data)
    if WRITTEN_BY in fields and _KEY not in fields:
        raise SealError(_MISSING)
    _check(fields)
    fields.pop(WRITTEN_BY, None)
    return fields


def sealed_row(fields: Mapping[str, Any]) -> bytes:
    """Returns a row, a JSON object on one line, with a seal. It may be stored for years."""
    return (json.dumps(dict(fields) | {_KEY: _seal(fields)}) + "\n").encode()


def unsealed_row(data: bytes) -> dict[str, Any]:
    """Returns the fields of a row, without the seal, which it has whatever version wrote it.

    Raises:
      SealError: the seal does not match the fields, or there is none.
      ValueError: the data is no JSON object.
    """
    fields = _object(data)
    if _KEY not in fields:
        raise SealError("it has no seal, so it is of version 0.2 or was changed")
    _check(fields)
    return fields


def _object(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise ValueError("it is damaged: no JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    return fields


def _check(fields: dict[str, Any]) -> None:
    """Takes the seal out of the fields, and raises SealError if it does not match the others."""
    if _KEY in fields and fields.pop(_KEY) != _seal(fields):
        raise SealError(_DAMAGE)


def sealed_text(text: str) -> str:
    """Returns the text after a first line with its seal; the line is a comment in TOML."""
    return f"{SEAL_LINE}{_sha256(text)}\n{text}"


def is_sealed_text(text: str) -> bool:
    """Returns True if a text has a seal.

    Raises:
      SealError: the seal does not match the text.
    """
    match = _FIRST_LINE.match(text)
    if match is not None and match[1] != _sha256(text[match.end() :]):
        raise SealError(_DAMAGE)
    return match is not None


def sealed_line(text: bytes, position: int) -> bytes:
    """Returns a line with this version and a seal, and its newline.

    Args:
      text: a JSON object with at least one field, on one line.
      position: byte of the file at which the line begins.
    """
    body = b'{"%s": "%s", ' % (WRITTEN_BY.encode(), this_version().encode()) + text[1:-1]
    return body + b', "seal": "' + _seal_of_line(body, position) + b'"}\n'


def unsealed_line(line: bytes, position: int) -> bytes | None:
    """Returns the text of a line, without its newline, version and seal; None if it has no seal.

    Raises:
      SealError: the seal does not match the line and its position, or is missing in a line that
        had one.
    """
    match, stamp = _LINE.fullmatch(line), _STAMP.match(line)
    if match is None:
        if stamp is not None:
            raise SealError(_MISSING)
        return None
    body = match[1]
    if _seal_of_line(body, position) != match[2]:
        raise SealError(_DAMAGE)
    return (body if stamp is None else b"{" + body[stamp.end() :]) + b"}"


@cache
def this_version() -> str:
    """Returns the version that is installed."""
    return version("targetnet")


def _seal_of_line(body: bytes, position: int) -> bytes:
    return hashlib.sha256(b"%d " % position + body).hexdigest()[:16].encode()


def _seal(fields: Mapping[str, Any]) -> str:
    # As they are read back: keys that are numbers are texts then, and in another order.
    return _sha256(json.dumps(json.loads(json.dumps(dict(fields))), sort_keys=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
