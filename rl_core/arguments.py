"""Checks of what a program hands to a public function: a mistake is one line."""

from __future__ import annotations

import inspect
import numbers
import os
from pathlib import Path

from targetnet.rl_core.errors import ArgumentError, BoundsError, quoted


def path_of(name: str, path: object) -> Path:
    """Returns a path given as text or path.

    Raises:
      ArgumentError: it is neither.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ArgumentError(f"{name} must be a path, got {quoted(path)}")
    return Path(path)


def require_a(kind: type | tuple[type, ...], name: str, value: object, wanted: str) -> None:
    """Checks that a value is of a type; `wanted` says in words what it must be.

    Raises:
      ArgumentError: it is not.
    """
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} must be {wanted}, got {quoted(value)}")


def require_function(name: str, function: object, *parameters: str) -> None:
    """Checks that a function, or None, can be called with these arguments.

    Raises:
      ArgumentError: it cannot.
    """
    if function is None:
        return
    wanted = f"{name} must be a function of ({', '.join(parameters)})"
    if not callable(function):
        raise ArgumentError(f"{wanted}, got {quoted(function)}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions in C do not tell
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        raise ArgumentError(f"{wanted}, got one of ({', '.join(signature.parameters)})") from None


def require_whole(name: str, value: object, least: int, *, bits: int = 64) -> None:
    """Checks that a value is a whole number >= `least` that fits into int64, or into int32.

    Raises:
      ArgumentError: it is no whole number.
      BoundsError: it is too small or too large.
    """
    # int first: to ask of an abstract class takes longer, and this is asked at every update.
    number = None
    if isinstance(value, (int, numbers.Integral)) and not isinstance(value, bool):
        number = int(value)
        if least <= number < 2 ** (bits - 1):
            return
    fits = f"that fits into int{bits}"
    wanted = f"{name} must be a whole number >= {least} {fits}, got {quoted(value)}"
    raise ArgumentError(wanted) if number is None else BoundsError(wanted)
