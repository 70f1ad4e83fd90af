"""A new directory that appears complete or not at all."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from targetnet.rl_core.errors import RlCoreError


def require_new(out: Path, failure: Callable[[str], RlCoreError]) -> None:
    """Checks that nothing, or an empty directory, is at `out`.

    Raises:
      RlCoreError: something is there, or it is the current directory, which whoever stands in it
        would not see replaced; made by `failure`.
    """
    if out.exists() and out.resolve() == Path.cwd():
        raise failure(f"{out} is the current directory; name a new directory")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise failure(f"{out} already exists; name a new directory")


@contextlib.contextmanager
def new_directory(out: Path, failure: Callable[[str], RlCoreError]) -> Iterator[Path]:
    """Yields a directory with another name, and renames it to `out` once it is complete.

    Whatever ends it before, Ctrl-C too, leaves nothing.

    Args:
      out: does not exist, or is empty.
      failure: makes the error of a message.

    Raises:
      RlCoreError: there is something at `out`, or it cannot be written; made by `failure`.
    """
    require_new(out, failure)
    making = out.with_name(f".{out.name}.making")
    new = parents_to_make(out)
    try:
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        yield making
        making.rename(out)
    except OSError as error:
        if isinstance(error, RlCoreError):
            raise
        raise failure(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
        remove_empty(new)


def parents_to_make(path: Path) -> list[Path]:
    """Returns the directories above a path that do not exist, the innermost first."""
    return [above for above in path.parents if not above.exists()]


def remove_empty(directories: Iterable[Path]) -> None:
    """Removes those that are empty; give the innermost first."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()
