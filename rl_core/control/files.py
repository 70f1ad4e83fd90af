"""Paths of the control files, and the lock of a live run."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from pathlib import Path

from targetnet.rl_core.control.commands import Command, dump
from targetnet.rl_core.errors import RunDirError, in_one_line, reason_of
from targetnet.rl_core.files import clear_unfinished, open_regular, unfinished, write_whole, writing

_WRITTEN_BY_THEN = 60.0  # seconds in which a command is written
_instant, _sent_in_it = 0, 0


class ControlFiles:
    """The control directory of one run."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.directory = run / "control"
        self.inbox = self.directory / "inbox"
        self.log = self.directory / "log.jsonl"
        self.state = self.directory / "state.json"
        self.trace = self.directory / "trace.bin"
        self.arrivals = self.directory / "arrivals.bin"
        self.token = self.directory / "token"
        self.lock = self.directory / "lock"
        self.moved = self.directory / "moved"

    def make(self) -> None:
        """Makes the directories and the token; only the owner may write commands or read the token.

        Raises:
          RunDirError: a directory or the token cannot be written, or a directory is a link.
        """
        for path in (self.directory, self.inbox):
            if path.is_symlink():  # files are removed once they are read, and where it leads
                raise RunDirError(f"{path} is a link; a run has a directory of its own there")
        with writing(self.directory):
            self.directory.mkdir(exist_ok=True)
            self.inbox.mkdir(exist_ok=True)
            self.inbox.chmod(0o700)
            if not self.token.exists() or not self.token.stat().st_size:
                # In one piece: an empty one would refuse everybody for ever.
                new = unfinished(self.token)
                new.unlink(missing_ok=True)
                file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(file, "w") as token:
                    token.write(secrets.token_urlsafe(24) + "\n")
                new.replace(self.token)


class FileLock:
    """A lock on a file; the system releases it if the process that holds it is killed.

    Args:
      path: of the file, which is made if there is none.
      taken: the message if another process holds the lock.

    Raises:
      RunDirError: another process holds the lock, or the file cannot be locked.
    """

    def __init__(self, path: Path, taken: str) -> None:
        self._file: int | None = None
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._file = os.open(path, flags, 0o644)
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            # `is_alive` in another process holds the lock for an instant, so try more than once.
            for _ in range(20):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                time.sleep(0.01)
        except OSError as error:
            self.release()
            raise RunDirError(f"cannot lock {path}: {error.strerror}") from None
        self.release()
        raise RunDirError(taken)

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class RunLock(FileLock):
    """The lock that a run holds while it is alive.

    Whoever takes it removes what processes that were killed have left unfinished.

    Raises:
      RunDirError: another process holds it, or the file cannot be locked.
    """

    def __init__(self, files: ControlFiles) -> None:
        super().__init__(files.lock, f"another process is running {files.run}")
        for directory in (files.run, files.directory):
            clear_unfinished(directory)
        # Other processes write there at any time.
        clear_unfinished(files.inbox, _is_given_up)


def _is_given_up(path: Path) -> bool:
    """Says whether the writer of an unfinished file is dead, as far as this machine knows."""
    try:
        os.kill(int(path.name.split(".")[-2]), 0)
    except (ProcessLookupError, OverflowError):
        # A process of another machine or container would be alive; it takes no minute.
        return time.time() - path.lstat().st_mtime > _WRITTEN_BY_THEN
    return False


def is_alive(files: ControlFiles) -> bool:
    """Returns True if a process runs this run, on this machine or on one that shares its locks.

    Raises:
      RunDirError: the lock cannot be read.
    """
    try:
        with open_regular(files.lock) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except (OSError, ValueError) as error:
        lock = in_one_line(files.lock, 200)
        raise RunDirError(f"cannot tell whether {lock} is held: {reason_of(error)}") from None
    return False


def submit(files: ControlFiles, command: Command) -> Path:
    """Puts a command into the inbox and returns its path; the run reads it at a safe point.

    Raises:
      RunDirError: there is no inbox, or the inbox cannot be written.
    """
    path = files.inbox / f"{_unique_microseconds(command.time):017d}-{command.id}.json"
    try:
        write_whole(path, dump(command))
    except (OSError, ValueError) as error:
        run = in_one_line(files.run, 200)
        raise RunDirError(f"cannot send a command to {run}: {reason_of(error)}") from None
    return path


def _unique_microseconds(seconds: float) -> int:
    """Returns `seconds` in microseconds, plus 1 for each earlier command of the same instant."""
    global _instant, _sent_in_it
    instant = int(seconds * 1e6)
    _sent_in_it = _sent_in_it + 1 if instant == _instant else 0
    _instant = instant
    return instant + _sent_in_it
