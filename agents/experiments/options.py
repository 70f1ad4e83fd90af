"""Checks of options that `results`, `compare` and `sweep` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.rl_core.console import say
from targetnet.rl_core.errors import RlCoreError

if TYPE_CHECKING:
    from rich.console import Console


def require_at_least(option: str, value: int | None, least: int = 1) -> None:
    """Checks the number of an option; None is one that was not given.

    Raises:
      RlCoreError: it is too small.
    """
    if value is not None and value < least:
        raise RlCoreError(f"{option} must be at least {least:,}, got {value:,}")


def require_ending(option: str, path: Path | None, ending: str) -> None:
    """Checks the path of a file; None is one that was not given.

    Raises:
      RlCoreError: it has another ending.
    """
    if path and path.suffix != ending:
        raise RlCoreError(f"{option} must be a {ending} file, got {str(path)!r}")


def say_interrupted(console: Console) -> None:
    """Says how to continue after Ctrl-C."""
    say(console, "interrupted; run the same command again to continue")
