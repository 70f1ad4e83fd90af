"""A job's directory at home, kept up with what happens on a node; its runs' locks and inboxes.

At every moment the directory is one that `--resume` accepts: a checkpoint appears in it by one
rename, and only after the rows that it needs, and after log, trace and curves are at least as long
as they were when it was written. What comes from the node is checked: names by `tree.place_of`,
files of checkpoints by the digests in their manifest, all others by a digest with each checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from targetnet.agents.cluster import tree
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.messages import PIECE, FilePiece, LocalOffset
from targetnet.agents.cluster.node_files import sha256_of
from targetnet.agents.saved.directory import CONFIG, MACHINES
from targetnet.rl_core.checkpoint.store import CheckpointStore, FileRecord, read_manifest
from targetnet.rl_core.control.commands import MAX_BYTES
from targetnet.rl_core.control.files import ControlFiles, RunLock
from targetnet.rl_core.control.inbox import is_command_file
from targetnet.rl_core.control.timetable import NOTE_OF_NEW, note_of_move
from targetnet.rl_core.errors import in_one_line, quoted
from targetnet.rl_core.files import open_regular, read_regular, writing


class LocalRuns:
    """The runs of a job.

    Whoever steers them here need not know that they are elsewhere: each is locked, as a run that is
    alive, and command files to it are handed on.

    Args:
      path: of the run, or of the population that holds all runs.
      runs: of it, as `tree.runs_in` names them.
    """

    def __init__(self, path: Path, runs: Collection[str]) -> None:
        self._path, self._runs = path, runs
        self._locks: dict[str, RunLock] = {}
        self._begun = False  # the first runs were locked
        self._sent: set[str] = set()  # command files that the node was given
        self._notes: dict[str, bytes] = {}  # of the moment at which the job began: `control/moved`

    def lock(self) -> list[str]:
        """Locks the runs that are here and not locked yet; returns them.

        A run that has nothing here yet is locked at once, a member of a population once it has a
        config: its directory must hold nothing before.

        Raises:
          RunDirError: another process runs one of them, or it cannot be read or written.
        """
        new = []
        for run in self._runs:
            there = (self._path / run / CONFIG).exists()
            if run not in self._locks and (there or run == ""):
                (self._path / run).mkdir(parents=True, exist_ok=True)
                files = ControlFiles(self._path / run)
                files.make()
                self._locks[run] = RunLock(files)
                # All of the log of a run that appears later is of this job.
                self._notes[run] = NOTE_OF_NEW if self._begun else note_of_move(files.log)
                new.append(run)
        self._begun = True
        return new

    def locked(self) -> list[str]:
        """Returns the runs that are locked."""
        return [*self._locks]

    def release(self) -> None:
        """Releases all locks; a run that never began leaves nothing."""
        for run, lock in self._locks.items():
            place = self._path / run
            if not (place / CONFIG).exists():
                shutil.rmtree(ControlFiles(place).directory, ignore_errors=True)
                with contextlib.suppress(OSError):
                    (place / MACHINES).unlink(missing_ok=True)
                    place.rmdir()
            lock.release()
        self._locks.clear()

    def begin(self) -> None:
        """Begins with a new node, which was given no command file yet."""
        self._sent.clear()

    def moved(self) -> Iterator[tuple[str, bytes]]:
        """Yields the runs that a node goes on with, and for each the content of `control/moved`."""
        for run, note in self._notes.items():
            if (self._path / run / CONFIG).exists():
                yield run, note

    def command_files(self) -> Iterator[tuple[str, str, bytes]]:
        """Yields the command files that the node was not given yet: run, name and content."""
        for run in self._locks:
            inbox = ControlFiles(self._path / run).inbox
            for path in sorted(inbox.glob("*.json")):
                if f"{run}{path.name}" not in self._sent and is_command_file(path.name):
                    with contextlib.suppress(OSError, ValueError):  # withdrawn, or no command file
                        yield run, path.name, read_regular(path, most=MAX_BYTES)

    def posted(self, run: str, name: str) -> None:
        """Notes that the node has a command file."""
        self._sent.add(f"{run}{name}")

    def withdrawn(self) -> list[tuple[str, str]]:
        """Returns run and name of the node's command files that their senders took back."""
        command_files = [(run, name) for run, _, name in (of.rpartition("/") for of in self._sent)]
        return [
            (f"{run}/" if run else "", name)
            for run, name in command_files
            if not (ControlFiles(self._path / run).inbox / name).exists()
        ]

    def answered(self, waiting: Collection[str]) -> None:
        """Removes the command files that the node has answered; the answers are here already.

        Args:
          waiting: command files that wait on the node.
        """
        for command_file in self._sent.difference(waiting):
            run, _, name = command_file.rpartition("/")
            (ControlFiles(self._path / run).inbox / name).unlink(missing_ok=True)
            self._sent.discard(command_file)


Read = Callable[[str, int], bytes]  # (name, offset) -> the next bytes of a file that is held
_ARRIVING = ".arriving.tmp"


class LocalMirror:
    """The directory at home.

    Args:
      path: of the run, or of the population that holds all runs.

    Attributes:
      have: what is here of each file of the node.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.have: dict[str, LocalOffset] = {}
        self._whole: dict[str, FileRecord] = {}  # chunks of rows that were checked

    # To the node.

    def begin(self) -> Iterator[tuple[str, int, bytes]]:
        """Yields all that a new node has to get: path, offset and bytes of each piece.

        Raises:
          RunDirError: a directory here is a link.
        """
        tree.require_no_links(self._path)
        self.have.clear()
        for leftover in self._path.rglob(f".*{_ARRIVING}"):
            leftover.unlink(missing_ok=True)
        for path in self._files():
            place = tree.place_of(path)
            if place and place.name == tree.LOG:
                _cut_half_a_line(self._path / path)
            with open_regular(self._path / path) as file:
                offset, data = 0, file.read(PIECE)
                yield path, offset, data
                while data:
                    offset, data = offset + len(data), file.read(PIECE)
                    if data:
                        yield path, offset, data
            if place and not place.name.startswith(tree.CHECKPOINTS):
                self.have[path] = LocalOffset(0, offset)

    # From the node.

    def take(self, piece: FilePiece) -> None:
        """Takes a piece of a file in.

        Raises:
          ClusterError: it is not one that was asked for.
          OSError: it cannot be written.
        """
        place = tree.place_of(piece.path)
        if place is None or place.name.startswith(tree.CHECKPOINTS + "/"):
            raise ClusterError(f"a node sent a file named {quoted(piece.path)}")
        before = self.have.get(piece.path, LocalOffset(piece.stamp, 0))
        if piece.offset not in (0, before.size):
            raise ClusterError(f"a node sent a wrong piece of {in_one_line(piece.path)}")
        path = self._path / piece.path
        arriving = path.with_name(f".{path.name}{_ARRIVING}")
        end = piece.offset + len(piece.data)
        if piece.offset and tree.grows(place.name) and not arriving.exists():
            _write(path, piece.offset, piece.data)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(arriving, piece.offset, piece.data)
            if end == piece.total:
                arriving.replace(path)
        if place.name == tree.LOG:  # before the state, and before command files go that it answers
            _sync(path)
        self.have[piece.path] = LocalOffset(piece.stamp, end)

    def drop(self, path: str) -> None:
        """Removes a file that the node does not have any more."""
        place = tree.place_of(path)
        self.have.pop(path, None)
        if place and tree.may_vanish(place.name):
            (self._path / path).unlink(missing_ok=True)

    def lacks(self, run: str, there: Collection[int]) -> int | None:
        """Returns the newest checkpoint of the node that is not here; None if all are."""
        here = tree.checkpoints_in(self._path, run)
        return max((n for n in there if n not in here), default=None)

    def begin_checkpoint(self, run: str, number: int, manifest: bytes, read: Read) -> None:
        """Fetches the files of a checkpoint, which is not complete yet.

        Raises:
          CheckpointError: the manifest is damaged.
          ClusterError: a file is not what the manifest says.
          OSError: a file cannot be written.
        """
        making, rows = self._making(run, number), self._path / run / tree.CHECKPOINTS / "rows"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        rows.mkdir(exist_ok=True)
        _write(making / "manifest.json", 0, manifest)
        _sync(making / "manifest.json")
        records = read_manifest(making)
        for name, record in records.chunks.items():
            if self._whole.get(f"{run}{name}") != record or not (rows / name).exists():
                if not _is(rows / name, record):
                    _fetch(rows / name, f"rows/{name}", record, read)
                self._whole[f"{run}{name}"] = record
        for name, record in records.files.items():
            _fetch(making / name, name, record, read)

    def grown(self, run: str) -> dict[str, int]:
        """Returns what is here of the files that grow, in bytes: their digests are compared."""
        sizes = {}
        for path, have in self.have.items():
            place = tree.place_of(path)
            if place and place.run == run and tree.grows(place.name):
                sizes[path] = have.size
        return sizes

    def same(self, digests: Mapping[str, str], sizes: Mapping[str, int]) -> bool:
        """Compares files with those of the node; one that differs will come anew."""
        wrong = [
            path for path, size in sizes.items()
            if digests.get(path) != sha256_of(self._path / path, size)
        ]  # fmt: skip
        for path in wrong:
            if digests.get(path):  # else it is gone there, or shorter, as the next look tells
                self.have.pop(path)
        return not wrong

    def end_checkpoint(self, run: str, number: int, keep: int) -> None:
        """Lets the checkpoint appear, and removes older ones.

        Raises:
          OSError: it cannot be written.
        """
        for path in self.grown(run):
            _sync(self._path / path)
        making = self._making(run, number)
        for directory in (making.parent / "rows", making):
            _sync(directory)
        making.rename(making.with_name(f"{number:08d}"))
        _sync(making.parent)
        with contextlib.suppress(OSError):  # what is left over costs room, nothing else
            CheckpointStore(making.parent, keep).prune()

    def _making(self, run: str, number: int) -> Path:
        return self._path / run / tree.CHECKPOINTS / f".making-{number}"

    def _files(self) -> Iterator[str]:
        yield from tree.plain_files(self._path)
        for run in tree.runs_in(self._path):
            yield from tree.checkpoint_files(self._path, run)


def _fetch(path: Path, name: str, record: FileRecord, read: Read) -> None:
    """Fetches a file in pieces; it appears whole and as its record says, or not at all."""
    arriving, digest, size = path.with_name(f".{path.name}{_ARRIVING}"), hashlib.sha256(), 0
    while size < record.bytes and (data := read(name, size)):
        _write(arriving, size, data)
        digest.update(data)
        size += len(data)
    if (size, digest.hexdigest()) != (record.bytes, record.sha256):
        arriving.unlink(missing_ok=True)
        raise ClusterError(f"{in_one_line(path)} came damaged from its node")
    _sync(arriving)
    arriving.replace(path)


def _cut_half_a_line(path: Path) -> None:
    """Cuts off what follows a log's last whole line: the last piece of it that came home.

    The run would cut it off on its new node, and its log may have grown again before the first
    look at it, so that the next piece would follow another half.

    Raises:
      OSError: the log cannot be read or written.
    """
    with open_regular(path) as file:
        whole = file.read().rfind(b"\n") + 1
    os.truncate(path, whole)


def _is(path: Path, record: FileRecord) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_size == record.bytes and (
            sha256_of(path, record.bytes) == record.sha256
        )
    return False


def _write(path: Path, offset: int, data: bytes) -> None:
    """Writes into a file at an offset; at 0 it begins anew.

    Raises:
      RunDirError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    flags |= 0 if offset else os.O_CREAT | os.O_TRUNC
    with writing(path):
        file = os.open(path, flags, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                written = os.pwrite(file, rest, offset)
                rest, offset = rest[written:], offset + written
        finally:
            os.close(file)


def _sync(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.fsync(file)
        finally:
            os.close(file)
