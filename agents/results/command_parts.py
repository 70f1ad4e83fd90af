"""Parts that the commands `results`, `compare` and `sweep` have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.rl_core.console import say
from targetnet.rl_core.control.files import FileLock
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.files import clear_unfinished, writing

if TYPE_CHECKING:
    from rich.console import Console


def require_at_least(option: str, value: int | None, least: int = 1) -> None:
    """Checks the number of an option; None is one that was not given.

    Raises:
      RlCoreError: it is too small.
    """
    if value is not None and value < least:
        raise RlCoreError(f"{option} must be at least {least}, got {value}")


def require_page(page: Path | None) -> None:
    """Checks the path of a page; None is one that was not given.

    Raises:
      RlCoreError: it is no Markdown file.
    """
    if page and page.suffix != ".md":
        raise RlCoreError(f"--page must be a .md file, got {str(page)!r}")


def say_interrupted(console: Console) -> None:
    """Says how to continue after Ctrl-C."""
    say(console, "interrupted; run the same command again to continue")


@contextlib.contextmanager
def held(directory: Path, lock: str) -> Iterator[None]:
    """Holds a directory that one process writes at a time; makes it if there is none.

    What a killed one left unfinished in it is removed.

    Args:
      lock: name of the lock's file in it.

    Raises:
      RunDirError: another process holds it, or it cannot be written.
    """
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    taken = FileLock(directory / lock, f"another process is at work on {directory}")
    try:
        clear_unfinished(directory)
        yield
    finally:
        taken.release()
