"""One job on a node: its process, and the reading and writing of its files for the machine at home.

`Worker` becomes a Ray actor. It does nothing by itself: home asks for everything, so that what is
at home is known there. Nothing here needs Ray. Each job has a scratch directory, which is removed
at its end or by the next job there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.messages import PIECE, LocalOffset, NodeReport
from targetnet.agents.cluster.node_files import NodeFiles
from targetnet.agents.cluster.process import last_line, start_child
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.files import write_whole
from targetnet.rl_core.own_function import CODE_DIRECTORY

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


_PROBED = 1 << 20  # bytes
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class Worker:
    """A job on a node.

    Args:
      name: of the directory that the job fills.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._scratch: Scratch | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Makes the scratch directory.

        Raises:
          ClusterError: it cannot be made.
        """
        self._scratch = Scratch()
        self._work.mkdir()

    def put(self, path: str, offset: int, data: bytes) -> None:
        """Writes a piece of a file: of the tree's, or of one beside it."""
        place = self._work / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(data)

    def start(self, arguments: Sequence[str], code_directory: str) -> None:
        """Starts the process: this Python with these arguments, in the scratch directory.

        Args:
          code_directory: where home has the user's code; the node may have it too.

        Raises:
          ClusterError: it cannot be started.
        """
        assert self._scratch is not None
        environment = {CODE_DIRECTORY: code_directory}
        try:
            self._process = start_child(
                [sys.executable, *arguments], self._log, environment,
                cwd=self._work, pass_fds=[self._scratch.lock],
            )  # fmt: skip
        except OSError as error:
            raise ClusterError(f"cannot start {sys.executable}: {error.strerror}") from None

    def look(self, have: Mapping[str, LocalOffset], log: int, *, last: bool = False) -> NodeReport:
        """Returns what is new since home has looked before.

        Args:
          have: what home has, by path.
          log: bytes that it has of the process's output.
          last: everything else is at home, so that results may follow.
        """
        # First: what the process wrote before it ended is seen below.
        code = self._process.poll() if self._process else None
        # Before the files: the answer to a command file that is gone is in the log by now.
        command_files, checkpoints = self._files.command_files(), self._files.checkpoints()
        output = _output(self._log, log)
        pieces, gone, more = self._files.new(have, last=last)
        more = more or len(output) == PIECE
        fault = _fault_of_disk(self._work.parent, self._log) if code else ""
        return NodeReport(code, fault, output, pieces, gone, command_files, checkpoints, more)

    def hold(self, run: str, number: int) -> bytes | None:
        """Keeps a checkpoint until `let_go`; see `NodeFiles.hold`."""
        return self._files.hold(run, number)

    def read_held(self, name: str, offset: int) -> bytes:
        """Returns a piece of a file of the checkpoint that is held."""
        return self._files.read_held(name, offset)

    def let_go(self) -> None:
        """Forgets the checkpoint that is held."""
        self._files.let_go()

    def digests(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Returns the SHA-256 of the first bytes of files."""
        return self._files.digests(sizes)

    def post(self, run: str, name: str, command_file: bytes | None) -> bool:
        """Puts a command file into the inbox of a run; returns False if it has none yet.

        Args:
          command_file: None takes the one of this name back, unless the run was faster.
        """
        inbox = ControlFiles(self._work / self._name / run).inbox
        if not inbox.is_dir():
            return False
        if command_file is None:
            (inbox / name).unlink(missing_ok=True)
        else:
            write_whole(inbox / name, command_file)
        return True

    def interrupt(self) -> None:
        """Lets the process save and end."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Ends the process, if it is still at work, and removes the scratch directory."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._scratch:
            self._scratch.remove()

    @property
    def _work(self) -> Path:
        assert self._scratch is not None
        return self._scratch.path / "work"

    @property
    def _log(self) -> Path:
        return self._work.parent / "output"

    @property
    def _files(self) -> NodeFiles:
        return NodeFiles(self._work / self._name, self._work.parent / "held")


def _fault_of_disk(place: Path, log: Path) -> str:
    """Returns why a process that failed may have failed for its disk; "" if there is no sign of it.

    What it could not write may be removed by now, so that there is room again: therefore its last
    words count too. It writes nowhere but in its place.
    """
    probe = place / "probe"
    try:
        with probe.open("wb") as file:
            file.write(bytes(_PROBED))
            file.flush()
            os.fsync(file.fileno())
        probe.unlink()
    except OSError as error:
        return f"cannot write {place}: {error.strerror}"
    last = last_line(log)
    return last if any(os.strerror(code) in last for code in _OF_DISKS) else ""


def _output(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(PIECE)
    except FileNotFoundError:
        return b""
