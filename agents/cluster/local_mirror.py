"""A job's directory at home, kept up with what happens on a node; its runs' locks and inboxes.

At every moment it is one that `--resume` accepts: a checkpoint appears in it by one rename, and
only after the rows that it needs, and after log, trace and curves are at least as long as they
were when it was written. What comes from the node is checked: names by `tree.place_of`, files of
checkpoints by the digests in their manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from targetnet.agents.cluster import tree
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.worker import Mark, NodeFile
from targetnet.agents.saved.directory import CONFIG, MACHINES
from targetnet.rl_core.checkpoint.store import CheckpointStore, FileRecord, read_manifest
from targetnet.rl_core.control.commands import MAX_BYTES
from targetnet.rl_core.control.files import ControlFiles, RunLock
from targetnet.rl_core.control.inbox import is_command_file
from targetnet.rl_core.control.timetable import NOTE_OF_NEW, note_of_move
from targetnet.rl_core.errors import in_one_line, quoted
from targetnet.rl_core.files import open_regular, read_regular, write_whole, writing

Read = Callable[[str], bytes]  # returns a file of the checkpoint that the node holds


class LocalMirror:
    """The directory at home: of a run, or of the population that holds all runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.have: dict[str, Mark] = {}  # the node's files outside checkpoints that are here
        self._whole: dict[str, FileRecord] = {}  # chunks of rows that were checked

    def files_to_send(self) -> Iterator[tuple[str, bytes]]:
        """Yields path and content of all that a new node has to get."""
        tree.require_no_links(self._path)
        for leftover in self._path.rglob(f".{tree.EVENTS}*.tmp"):  # of a process that was killed
            leftover.unlink(missing_ok=True)
        plain = tree.plain_files(self._path)
        # All of them come anew: the run may cut them back there before the first look at it.
        self.have = dict.fromkeys(plain, (0, 0))
        kept = (tree.checkpoint_files(self._path, run) for run in tree.runs_in(self._path))
        for path in (*plain, *(path for of in kept for path in of)):
            with open_regular(self._path / path) as file:
                yield path, file.read()

    def take(self, file: NodeFile) -> None:
        """Takes news of a file in; raises ClusterError if it is not one that was asked for."""
        place = self._place(file.path)
        size, _ = self.have.get(file.path, (0, 0))
        if file.offset and not (place.grows and file.offset == size):
            raise ClusterError(f"a node sent a wrong piece of {in_one_line(file.path)}")
        path = self._path / file.path
        with writing(path):
            if file.offset:
                _append(path, file.offset, file.data)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, file.data, durable=place.grows)
        if place.name == tree.LOG:  # before the state, and before command files go that it answers
            _sync(path)
        self.have[file.path] = file.offset + len(file.data), file.mark

    def drop(self, path: str) -> None:
        """Removes a file that the node does not have any more."""
        self.have.pop(path, None)
        if self._place(path).may_vanish:
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
        """
        making = self._making(run, number)
        rows = making.parent / "rows"
        with writing(making):
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            rows.mkdir(exist_ok=True)
            write_whole(making / tree.MANIFEST, manifest)
        records = read_manifest(making)
        for name, record in records.chunks.items():
            if self._whole.get(f"{run}{name}") != record or not (rows / name).exists():
                if not _is(rows / name, record):
                    _fetch(rows / name, f"rows/{name}", record, read)
                self._whole[f"{run}{name}"] = record
        for name, record in records.files.items():
            _fetch(making / name, name, record, read)

    def end_checkpoint(self, run: str, number: int, keep: int) -> None:
        """Lets the checkpoint appear, and removes older ones."""
        making = self._making(run, number)
        with writing(making):
            for path in (*self.have, f"{run}{tree.CHECKPOINTS}/rows"):
                if path.startswith(run):
                    _sync(self._path / path)
            _sync(making)
            making.rename(making.with_name(f"{number:08d}"))
            _sync(making.parent)
        with contextlib.suppress(OSError):  # what is left over costs room, nothing else
            CheckpointStore(making.parent, keep).prune()

    def _making(self, run: str, number: int) -> Path:
        return self._path / run / tree.CHECKPOINTS / f".making-{number}"

    def _place(self, path: str) -> tree.FilePlace:
        place = tree.place_of(path)
        if place is None:
            raise ClusterError(f"a node sent a file named {quoted(path)}")
        return place


def _fetch(path: Path, name: str, record: FileRecord, read: Read) -> None:
    """Fetches a file; it appears whole and as its record says, or not at all."""
    data = read(name)
    if (len(data), hashlib.sha256(data).hexdigest()) != (record.bytes, record.sha256):
        raise ClusterError(f"{in_one_line(path)} came damaged from its node")
    with writing(path):
        write_whole(path, data)


def _is(path: Path, record: FileRecord) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_size == record.bytes and _sha256(path, record.bytes) == record.sha256
    return False


def _sha256(path: Path, size: int) -> str:
    """Returns the SHA-256 of the first bytes of a file; "" if it is shorter or cannot be read."""
    with contextlib.suppress(OSError, ValueError), open_regular(path) as file:
        data = file.read(size)
        return hashlib.sha256(data).hexdigest() if len(data) == size else ""
    return ""


def _append(path: Path, offset: int, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(file, "wb") as opened:
        opened.seek(offset)
        opened.write(data)


def _sync(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.fsync(file)
        finally:
            os.close(file)


class LocalRuns:
    """The runs below a path, as `tree.runs_in` names them.

    Whoever steers them here need not know that they are elsewhere.
    """

    def __init__(self, path: Path, runs: Collection[str]) -> None:
        self._path, self._runs = path, runs
        self._locks: dict[str, RunLock] = {}
        self._begun = False  # the first runs were locked
        self._sent: set[str] = set()  # command files that the node was given, by run and name
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
            if run not in self._locks and (run == "" or self._has_begun(run)):
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
            if not self._has_begun(run):
                shutil.rmtree(ControlFiles(place).directory, ignore_errors=True)
                with contextlib.suppress(OSError):
                    (place / MACHINES).unlink(missing_ok=True)
                    place.rmdir()
            lock.release()
        self._locks.clear()

    def handover(self) -> Iterator[tuple[str, bytes]]:
        """Yields what a new node gets for the runs that go on: path and content of each file.

        It is the orders that hold and the command files that wait. Command files that are there
        when a run begins wait for older changes that it makes again.
        """
        self._sent.clear()
        for run in filter(self._has_begun, self._notes):
            yield f"{run}control/moved", self._notes[run]
            for key, data in self._waiting(run):
                self._sent.add(key)
                yield f"{run}control/inbox/{key.removeprefix(run)}", data

    def post(self) -> dict[str, bytes | None]:
        """Returns the command files that the node was not given yet, by run and name.

        None takes one back that its sender has withdrawn.
        """
        withdrawn = {key: None for key in self._sent if not self._at_home(key).exists()}
        return withdrawn | {key: data for run in self._locks for key, data in self._waiting(run)}

    def answered(self, posted: Collection[str], waiting: Collection[str]) -> None:
        """Removes the command files that the node has answered; the answers are here already.

        Those in `posted` were taken by the node now, those in `waiting` wait there.
        """
        self._sent.update(posted)
        for key in self._sent.difference(waiting):
            self._at_home(key).unlink(missing_ok=True)
            self._sent.discard(key)

    def _waiting(self, run: str) -> Iterator[tuple[str, bytes]]:
        for path in sorted(ControlFiles(self._path / run).inbox.glob("*.json")):
            if f"{run}{path.name}" not in self._sent and is_command_file(path.name):
                with contextlib.suppress(OSError, ValueError):  # withdrawn, or no command file
                    yield f"{run}{path.name}", read_regular(path, most=MAX_BYTES)

    def _at_home(self, key: str) -> Path:
        run, _, name = key.rpartition("/")
        return ControlFiles(self._path / run).inbox / name

    def _has_begun(self, run: str) -> bool:
        return (self._path / run / CONFIG).exists()
