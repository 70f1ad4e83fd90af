"""Opening files that somebody else may have put there.

A pipe would be waited for, a device never ends, and a link may lead anywhere: only a regular
file of a bounded size is read.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path


def open_regular(path: Path, *, most: int | None = None, follow: bool = False) -> io.BufferedReader:
    """Opens a regular file to read it; never waits.

    Args:
      path: of the file.
      most: bytes that it may have; None takes any size.
      follow: whether a symbolic link is followed, as for a path that the user typed.

    Raises:
      OSError: there is no such file, or it cannot be read.
      ValueError: it is not a regular file, or it is larger than `most`; one line says which.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        file = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink() and not follow:
            # The system speaks of too many levels of links, also where there is one.
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
    """All bytes of a regular file; raises as `open_regular`."""
    with open_regular(path, most=most, follow=follow) as file:
        # Not as many bytes as somebody says there are: a buffer of that size would be made first.
        return file.read(os.fstat(file.fileno()).st_size + 1)
