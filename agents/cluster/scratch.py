"""Scratch directories on a node: one for each job, removed at its end or by the next job there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from targetnet.agents.cluster.connect import ClusterError

_LOCK = "lock"


class Scratch:
    """A directory of its own, below `targetnet-<user>` in the directory for temporary files.

    A lock says that it is in use. It is inherited by the child processes that get `lock`, and the
    system releases it once all of them have ended, however they did. So a directory whose lock is
    free belongs to nobody, and the next job on the node removes it.

    Attributes:
      path: the directory.
      lock: descriptor of its locked file.

    Raises:
      ClusterError: it cannot be made.
    """

    def __init__(self) -> None:
        above = Path(tempfile.gettempdir()) / f"targetnet-{os.getuid()}"
        try:
            above.mkdir(mode=0o700, exist_ok=True)
            status = above.lstat()
            # Anybody may write where temporary files are, and may have made it before.
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                raise ClusterError(
                    f"cannot use {above}: it must be a directory of this user, and no link"
                )
            with _alone(above):  # nobody may take one that is just being made for unused
                _remove_unused(above)
                self.path = Path(tempfile.mkdtemp(dir=above))
                self.lock = _locked(self.path / _LOCK)
        except OSError as error:
            if isinstance(error, ClusterError):
                raise
            raise ClusterError(f"cannot write {above}: {error.strerror}") from None

    def remove(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def _remove_unused(above: Path) -> None:
    for path in above.iterdir():
        with contextlib.suppress(OSError):
            lock = _locked(path / _LOCK)
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


@contextlib.contextmanager
def _alone(above: Path) -> Iterator[None]:
    file = os.open(above / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _locked(path: Path) -> int:
    """Returns the descriptor of a file that this process locks; makes it if there is none.

    Raises:
      OSError: another process has locked it, or it is in no directory.
    """
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file
