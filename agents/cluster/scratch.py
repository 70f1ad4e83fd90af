"""Directories on a node for what a job needs there; none is left for long."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from targetnet.agents.cluster.connect import ClusterError

_LOCK = "lock"


class Scratch:
    """A directory of its own, below `targetnet-<user>` in the directory for temporary files.

    A lock says that it is in use. It is inherited by the child processes that get `lock`, and the
    system releases it once all of them have ended, however they did. So a directory whose lock is
    free belongs to nobody, and the next job on the node removes it.

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
            # Waits: nobody may take a directory that is just being made for unused.
            alone = _locked(above / _LOCK, fcntl.LOCK_EX)
            try:
                for left in above.iterdir():
                    with contextlib.suppress(OSError):  # it is in use, or no directory
                        lock = _locked(left / _LOCK)
                        shutil.rmtree(left, ignore_errors=True)
                        os.close(lock)
                self.path = Path(tempfile.mkdtemp(dir=above))
                self.lock = _locked(self.path / _LOCK)
            finally:
                os.close(alone)
        except ClusterError:
            raise
        except OSError as error:
            raise ClusterError(f"cannot write {above}: {error.strerror}") from None

    def remove(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def _locked(path: Path, how: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int:
    """Returns the descriptor of a file that this process locks; makes it if there is none."""
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, how)
    except OSError:
        os.close(file)
        raise
    return file
