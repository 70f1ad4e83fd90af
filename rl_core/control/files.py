"""Where control files are, writing them so that they appear whole, and whether a run is alive."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from pathlib import Path

from rl_core.control.commands import Command, dump
from rl_core.errors import RunDirError, in_one_line, reason_of
from rl_core.regular_file import open_regular

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
        self.token = self.directory / "token"
        self.lock = self.directory / "lock"

    def make(self) -> None:
        """Makes the directories and the token; only their owner may write commands or read it.

        Raises:
          RunDirError: they cannot be written.
        """
        try:
            self.directory.mkdir(exist_ok=True)
            self.inbox.mkdir(exist_ok=True)
            self.inbox.chmod(0o700)
            if not self.token.exists():
                file = os.open(self.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(file, "w") as token:
                    token.write(secrets.token_urlsafe(24) + "\n")
        except OSError as error:
            raise RunDirError(f"cannot write {self.directory}: {error.strerror}") from None


class RunLock:
    """Held by a run as long as it lives; the system lets go of it also when it is killed.

    Raises:
      RunDirError: another process holds it, or it is no file that can be held.
    """

    def __init__(self, files: ControlFiles) -> None:
        self._file: int | None = None
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._file = os.open(files.lock, flags, 0o644)
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            # Whoever asks whether the run is alive holds it for an instant: try more than once.
            for _ in range(20):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                time.sleep(0.01)
        except OSError as error:
            self.release()
            raise RunDirError(f"cannot lock {files.lock}: {error.strerror}") from None
        self.release()
        raise RunDirError(f"another process is running {files.run}")

    def release(self) -> None:
        """A second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def clear_leftovers(files: ControlFiles) -> None:
    """Removes unfinished files that a killed run left; call it while holding the lock.

    Not those in the inbox: somebody may be writing one.
    """
    for directory in (files.run, files.directory):
        for path in directory.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                path.unlink()


def is_alive(files: ControlFiles) -> bool:
    """Whether a process is running this run, on this machine or one that shares its locks.

    Raises:
      RunDirError: that cannot be told, as the lock cannot be read.
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
    """Puts a command into the inbox; the run takes it at its next safe point.

    Raises:
      RunDirError: there is no inbox, or it cannot be written.
    """
    path = files.inbox / f"{_moment(command.time):017d}-{command.id}.json"
    try:
        write_whole(path, dump(command))
    except (OSError, ValueError) as error:
        run = in_one_line(files.run, 200)
        raise RunDirError(f"cannot send a command to {run}: {reason_of(error)}") from None
    return path


def _moment(seconds: float) -> int:
    """In microseconds; commands of one instant get later ones in the order they are sent."""
    global _instant, _sent_in_it
    instant = int(seconds * 1e6)
    _sent_in_it = _sent_in_it + 1 if instant == _instant else 0
    _instant = instant
    return instant + _sent_in_it


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Writes a file that is either absent (or old) or complete, whatever happens meanwhile.

    Args:
      durable: also across a power cut, at the price of an fsync.
    """
    # The dot keeps the unfinished file out of every listing for *.json.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
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
