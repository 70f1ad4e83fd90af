"""Files: opened safely if another person may have created them; written whole; synced; retried.

Reading a pipe would wait, a device never ends, and a link may point anywhere, so only regular
files of a bounded size are read.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from targetnet.rl_core.errors import RunDirError, reason_of

_UNFINISHED = re.compile(r"\..+\.\d+\.tmp")


def open_regular(path: Path, *, most: int | None = None, follow: bool = False) -> io.BufferedReader:
    """Opens a regular file for reading; never waits.

    Args:
      path: path of the file.
      most: largest allowed size in bytes; None allows any size.
      follow: True follows a symbolic link, as for a path that the user typed.

    Raises:
      OSError: the file does not exist or cannot be read.
      ValueError: the file is not regular, or larger than `most`; the message says which.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        file = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink() and not follow:
            # The system's message is "too many levels of symbolic links", even for a single link.
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    status = os.fstat(file)
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "it is not a regular file"
    elif most is not None and status.st_size > most:
        problem = f"it has {status.st_size:,} bytes, more than {most:,}"
    if problem:
        os.close(file)
        raise ValueError(problem)
    return os.fdopen(file, "rb")


def read_regular(path: Path, *, most: int, follow: bool = False) -> bytes:
    """Returns all bytes of a regular file; raises the errors of `open_regular`."""
    with open_regular(path, most=most, follow=follow) as file:
        # Python allocates the requested size first, so request the file's size instead of `most`.
        return file.read(os.fstat(file.fileno()).st_size + 1)


def sync_directory(path: Path) -> None:
    """Syncs a directory: the names that were made in it survive a power cut."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def writing(what: Path | str) -> Iterator[None]:
    """Turns an OSError of the block into "cannot write WHAT", with the reason.

    Raises:
      RunDirError: it cannot be written. One that the block raises passes unchanged.
    """
    try:
        yield
    except RunDirError:
        raise
    except OSError as error:
        raise RunDirError(f"cannot write {what}: {reason_of(error)}") from None


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Writes a file so that a reader sees the old file or the complete new one.

    Args:
      path: path of the file.
      data: the new content.
      durable: True also protects against a power cut, at the price of an fsync.
    """
    temporary = unfinished(path)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def append_whole(path: Path, data: bytes) -> None:
    """Appends lines to a file and syncs it: all of them or none.

    What is at its end without a newline was not written to its end, and is cut off.
    """
    with path.open("ab+") as file:
        file.seek(0)
        end = file.read().rfind(b"\n") + 1
        file.truncate(end)
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(path, end)
            raise


def unfinished(path: Path) -> Path:
    """Returns the place of a file that is not finished."""
    # The leading dot keeps the unfinished file out of listings of *.json.
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def is_unfinished(name: str) -> bool:
    """Says whether a file of this name is one that `write_whole` has not finished."""
    return bool(_UNFINISHED.fullmatch(name))


def clear_unfinished(directory: Path, may_go: Callable[[Path], bool] = lambda path: True) -> None:
    """Removes what `write_whole` has left unfinished in a directory; through no link."""
    if not directory.is_symlink():
        for path in directory.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if is_unfinished(path.name) and may_go(path):
                    path.unlink()


class RetryLater:
    """A repeated attempt that warns of the first failure only, until an attempt succeeds.

    Args:
      warn: called with the warning, one line.

    Attributes:
      failing: True if the last attempt failed.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self.failing = False

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Turns a RunDirError inside this context into a warning; the caller tries again later."""
        try:
            yield
        except RunDirError as error:
            self.failed(error)
        else:
            self.failing = False

    def failed(self, error: RunDirError) -> None:
        """Warns of a failure that happened outside `attempt`."""
        if not self.failing:
            self._warn(f"{error}; the run goes on and will try again")
        self.failing = True
