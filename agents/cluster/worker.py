"""One job on a node: its process, and the reading and writing of its files for the machine at home.

`Worker` becomes a Ray actor. It does nothing by itself: home asks for everything, so that what is
at home is known there. Nothing here needs Ray, whose own transport carries and checks what is said.
Each job has a scratch directory, which is removed at its end or by the next job there.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from targetnet.agents.cluster import tree
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.process import last_line, start_child
from targetnet.agents.saved.directory import RESULT
from targetnet.rl_core.checkpoint.store import CheckpointError, read_manifest
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.files import open_regular, write_whole
from targetnet.rl_core.own_function import CODE_DIRECTORY

_LOCK = "lock"
_PROBED = 1 << 20  # bytes
_TAIL = 1 << 12  # bytes at the end of a file that grows, by which it is known
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
Mark = tuple[int, int]  # size of a file at home, and the mark with which it came


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


class NodeFile(NamedTuple):
    """News of a file: all of it, or what was appended to one that grows."""

    path: str  # in the tree
    offset: int  # where the bytes belong; at 0 the file comes anew
    data: bytes
    mark: int  # with the size it says what home has: a stamp, or a checksum of the end if it grows


class NodeReport(NamedTuple):
    """News of a node."""

    code: int | None  # exit code, negative if a signal ended the process; None: it is at work
    fault: str  # why it may have failed for the node's disk; "": there is no sign of that
    log: bytes  # the next bytes of its output
    files: list[NodeFile]  # those that home lacks
    gone: list[str]  # files that home has and that are no more
    posted: set[str]  # command files that were put into inboxes now, by run and name
    waiting: set[str]  # command files that wait in the inboxes
    checkpoints: dict[str, list[int]]  # numbers of the checkpoints of each run that has any


class Worker:
    """A job on a node; `name` is that of the directory that it fills."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._scratch: Scratch | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Makes the scratch directory."""
        self._scratch = Scratch()
        self._place = self._scratch.path
        self._tree = self._place / "work" / self._name
        self._tree.parent.mkdir()

    def put(self, path: str, data: bytes) -> None:
        """Writes a file: of the tree, or one beside it."""
        place = self._tree.parent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def start(self, arguments: Sequence[str], code_directory: str) -> None:
        """Starts the process: this Python with these arguments, in the scratch directory.

        Args:
          code_directory: where home has the user's code; the node may have it too.
        """
        assert self._scratch is not None
        command, environment = [sys.executable, *arguments], {CODE_DIRECTORY: code_directory}
        try:
            self._process = start_child(
                command, self._place / "output", environment,
                cwd=self._tree.parent, pass_fds=[self._scratch.lock],
            )  # fmt: skip
        except OSError as error:
            raise ClusterError(f"cannot start {sys.executable}: {error.strerror}") from None

    def look(
        self,
        have: Mapping[str, Mark],
        log: int,
        post: Mapping[str, bytes | None],
        *,
        last: bool = False,
    ) -> NodeReport:
        """Returns what is new since home has looked before.

        Args:
          have: the files that home has, by path.
          log: bytes that it has of the process's output.
          post: command files for the inboxes, by run and name; None takes one back, unless the
            run was faster.
          last: everything else is at home, so that results may follow.
        """
        posted = self._post(post)
        # First: what the process wrote before it ended is seen below.
        code = self._process.poll() if self._process else None
        # Before the files: the answer to a command file that is gone is in the log by now.
        runs = tree.runs_in(self._tree)
        waiting = {f"{run}{path.name}" for run in runs for path in self._inbox(run).glob("*.json")}
        # Before its first member is there, a population looks like a run of its own.
        checkpoints = {
            run: numbers for run in runs if (numbers := tree.checkpoints_in(self._tree, run))
        }
        files, gone = self._new_files(have, last=last)
        output = b""
        with contextlib.suppress(FileNotFoundError), (self._place / "output").open("rb") as file:
            file.seek(log)
            output = file.read()
        fault = _fault_of_disk(self._place) if code else ""
        return NodeReport(code, fault, output, files, gone, posted, waiting, checkpoints)

    def hold(self, run: str, number: int) -> bytes | None:
        """Keeps a checkpoint until the next one is held, even if the run removes it.

        Returns its manifest; None if it is no more.
        """
        held, of_run = self._place / "held", self._tree / run / tree.CHECKPOINTS
        shutil.rmtree(held, ignore_errors=True)
        place = of_run / f"{number:08d}"
        try:
            manifest = read_manifest(place)
            (held / "rows").mkdir(parents=True)
            for name in (*manifest.files, tree.MANIFEST):
                (held / name).hardlink_to(place / name)
            for name in manifest.chunks:
                (held / "rows" / name).hardlink_to(of_run / "rows" / name)
            return (held / tree.MANIFEST).read_bytes()
        except (CheckpointError, FileNotFoundError):
            return None

    def read_held(self, name: str) -> bytes:
        """Returns a file of the checkpoint that is held."""
        return (self._place / "held" / name).read_bytes()

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

    def _post(self, post: Mapping[str, bytes | None]) -> set[str]:
        posted = set()
        open_runs = [run for run in tree.runs_in(self._tree) if self._inbox(run).is_dir()]
        for key, data in post.items():
            run, slash, name = key.rpartition("/")
            if (run := f"{run}{slash}") in open_runs:
                if data is None:
                    (self._inbox(run) / name).unlink(missing_ok=True)
                else:
                    write_whole(self._inbox(run) / name, data)
                    posted.add(key)
        return posted

    def _new_files(
        self, have: Mapping[str, Mark], *, last: bool
    ) -> tuple[list[NodeFile], list[str]]:
        there = tree.plain_files(self._tree)
        gone = [path for path in have if path not in there]
        # A state says how long the log was: it is read before the log, and handed on after it.
        order = sorted(there, key=lambda path: there[path].name != tree.STATE)
        found = [
            self._new_file(path, there[path], have.get(path))
            for path in order
            if last or there[path].name != RESULT
        ]
        files = [file for file in found if file is not None]
        return sorted(files, key=lambda file: there[file.path].name == tree.STATE), gone

    def _new_file(self, path: str, place: tree.FilePlace, have: Mark | None) -> NodeFile | None:
        """Returns what home lacks of a file; None if it has all of it.

        A run that goes on cuts files that grow back to its checkpoint, and they may have grown
        again before they are looked at. So home's end is compared: all after the cut is new.
        """
        offset, end_of_home = (have or (0, 0)) if place.grows else (0, 0)
        begin = max(0, offset - _TAIL)
        try:
            with open_regular(self._tree / path) as file:
                status = os.fstat(file.fileno())
                mark = hash((status.st_ino, status.st_mtime_ns))  # it is replaced by renaming
                if not place.grows and have == (status.st_size, mark):
                    return None
                file.seek(begin)
                data = file.read()
                if crc32(data[: offset - begin]) != end_of_home:
                    offset = begin = 0
                    file.seek(0)
                    data = file.read()
        except (OSError, ValueError):  # it is gone again, or is no file
            return None
        if place.name == tree.LOG:
            data = data[: data.rfind(b"\n") + 1]  # whole lines only
        if place.grows:
            mark = crc32(data[-_TAIL:])
        nothing_new = have == (begin + len(data), mark)
        return None if nothing_new else NodeFile(path, offset, data[offset - begin :], mark)

    def _inbox(self, run: str) -> Path:
        return ControlFiles(self._tree / run).inbox


def _fault_of_disk(place: Path) -> str:
    """Returns why a process that failed may have failed for its disk; "" if there is no sign of it.

    What it could not write may be removed by now, so that there is room again: therefore its last
    words count too. It writes nowhere but in its place.
    """
    probe = place / "probe"
    try:
        write_whole(probe, bytes(_PROBED))
        probe.unlink()
    except OSError as error:
        return f"cannot write {place}: {error.strerror}"
    last = last_line(place / "output")
    return last if any(os.strerror(code) in last for code in _OF_DISKS) else ""
