"""The files of a job on a node, as they are read for home."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from targetnet.agents.cluster import tree
from targetnet.agents.cluster.messages import PIECE, FilePiece, LocalOffset
from targetnet.agents.saved.directory import RESULT
from targetnet.rl_core.checkpoint.store import CheckpointError, read_manifest
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.files import open_regular


class NodeFiles:
    """The directory that a job fills.

    Args:
      path: of the run, or of the population that holds all runs.
      held: directory for a checkpoint that is being read; on the same file system.
    """

    def __init__(self, path: Path, held: Path) -> None:
        self._tree, self._held = path, held

    def new(
        self, have: Mapping[str, LocalOffset], *, last: bool
    ) -> tuple[list[FilePiece], list[str], bool]:
        """Returns the next pieces of files that home lacks.

        Args:
          have: what home has, by path.
          last: also of results.

        Returns:
          The pieces, the files that home has and that are no more, and whether home lacks more.
        """
        there = list(tree.plain_files(self._tree))
        gone = [path for path in have if path not in there]
        # A state says how long the log was: it is read before the log, and handed on after it.
        states = [path for path in there if path.endswith(tree.STATE)]
        others = [path for path in there if path not in states]
        if not last:
            others = [path for path in others if not path.endswith(RESULT)]
        of_states, _ = self._pieces(states, have)
        pieces, more = self._pieces(others, have)
        return (pieces if more else [*pieces, *of_states]), gone, more

    def checkpoints(self) -> dict[str, list[int]]:
        """Returns the numbers of the checkpoints of each run that has any."""
        found = {run: tree.checkpoints_in(self._tree, run) for run in tree.runs_in(self._tree)}
        # Before its first member is there, a population looks like a run of its own.
        return {run: numbers for run, numbers in found.items() if numbers}

    def command_files(self) -> set[str]:
        """Returns the command files that wait in the inboxes, by run and name."""
        found = set()
        for run in tree.runs_in(self._tree):
            with contextlib.suppress(OSError):
                inbox = ControlFiles(self._tree / run).inbox
                found |= {f"{run}{path.name}" for path in inbox.glob("*.json")}
        return found

    def hold(self, run: str, number: int) -> bytes | None:
        """Keeps a checkpoint until `let_go`, even if the run removes it; returns its manifest.

        None says that it is no more.
        """
        self.let_go()
        of_run = self._tree / run / tree.CHECKPOINTS
        place, held = of_run / f"{number:08d}", self._held
        try:
            manifest = read_manifest(place)
            (held / "rows").mkdir(parents=True)
            for name in (*manifest.files, "manifest.json"):
                (held / name).hardlink_to(place / name)
            for name in manifest.chunks:
                (held / "rows" / name).hardlink_to(of_run / "rows" / name)
            return (held / "manifest.json").read_bytes()
        except (CheckpointError, FileNotFoundError):
            self.let_go()
            return None

    def read_held(self, name: str, offset: int) -> bytes:
        """Returns a piece of a file of the checkpoint that is held."""
        with open_regular(self._held / name) as file:
            file.seek(offset)
            return file.read(PIECE)

    def let_go(self) -> None:
        """Forgets the checkpoint that is held."""
        shutil.rmtree(self._held, ignore_errors=True)

    def digests(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Returns the SHA-256 of the first bytes of files of the tree."""
        return {path: sha256_of(self._tree / path, size) for path, size in sizes.items()}

    def _pieces(
        self, paths: Sequence[str], have: Mapping[str, LocalOffset]
    ) -> tuple[list[FilePiece], bool]:
        """Returns the next pieces of files that home lacks, and whether it lacks more."""
        pieces: list[FilePiece] = []
        room = PIECE
        for path in paths:
            place = tree.place_of(path)
            assert place is not None
            piece = self._piece(path, place.name, have.get(path), room)
            if piece is not None:
                pieces.append(piece)
                room -= len(piece.data)
                if room <= 0:
                    return pieces, True
        return pieces, False

    def _piece(self, path: str, name: str, have: LocalOffset | None, room: int) -> FilePiece | None:
        """Returns the next piece of a file that home lacks; None if it has all of it."""
        try:
            with open_regular(self._tree / path) as file:
                status = os.fstat(file.fileno())
                stamp, total = status.st_ino, status.st_size
                if not tree.grows(name):  # replaced as a whole, by renaming
                    stamp = hash((stamp, status.st_mtime_ns, total))
                elif have:
                    stamp = have.stamp
                offset = have.size if have and have.stamp == stamp and have.size <= total else 0
                file.seek(offset)
                data = file.read(max(0, min(room, total - offset)))
        except (OSError, ValueError):  # it is gone again, or is no file
            return None
        if name == tree.LOG and offset + len(data) == total:
            data = data[: data.rfind(b"\n") + 1]  # whole lines only
            total = offset + len(data)
        if not data and have and offset == have.size:
            return None
        return FilePiece(path, stamp, offset, data, total)


def sha256_of(path: Path, size: int) -> str:
    """Returns the SHA-256 of the first bytes of a file; "" if it is shorter or cannot be read."""
    digest, left = hashlib.sha256(), size
    try:
        with open_regular(path) as file:
            while left and (data := file.read(min(left, io.DEFAULT_BUFFER_SIZE * 64))):
                digest.update(data)
                left -= len(data)
    except (OSError, ValueError):
        return ""
    return "" if left else digest.hexdigest()
