"""Writer and reader of checkpoints; a crash at any moment leaves the last checkpoint intact.

Every file is written under a temporary name, synced and renamed. A checkpoint's directory is made
under a temporary name, synced and renamed, and then its parent is synced. Only after that are
older checkpoints removed. Reading checks the manifest, and every file against the manifest,
before any value is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from safetensors.numpy import load, save

from targetnet.rl_core.arguments import path_of, require_whole
from targetnet.rl_core.errors import RlCoreError, in_one_line, quoted
from targetnet.rl_core.files import open_regular, read_regular, sync_directory

FORMAT = 1
_VARIABLES, _HOST, _MANIFEST, _ROWS = "variables.safetensors", "host.json", "manifest.json", "rows"
_NAME = re.compile(r"\d{8,15}")
_CHUNK = re.compile(r"(\d{15})-(\d{15})\.safetensors")
# What a killed process leaves: half a checkpoint, one half removed, half a chunk.
_LEFTOVER = re.compile(r"\.(making|trash)-\d+")
_OF_ROWS = re.compile(rf"{_CHUNK.pattern}|\.{_CHUNK.pattern}\.tmp")
_MANIFEST_BYTES = 1 << 26  # enough for more than a hundred thousand chunks


class CheckpointError(RlCoreError, OSError):
    """A checkpoint that cannot be written, or a damaged one."""


class FileRecord(BaseModel):
    """Expected size and digest of a file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """Index of one checkpoint: its files, and the chunks of the replay's rows, oldest first."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: int
    tick: int = Field(ge=0)
    score: float | None
    files: dict[str, FileRecord]
    chunks: dict[str, FileRecord]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and verified.

    Attributes:
      number: 1, 2, ... within its run.
      tick: time steps of all envs when it was written.
      score: score of the evaluation it was written for, or None.
      variables: name -> array.
      host: the Python state.
      chunks: chunks of the replay's rows; read each with `CheckpointStore.rows`.
      damaged: one message per newer checkpoint that was skipped because of damage.
    """

    number: int
    tick: int
    score: float | None
    variables: dict[str, np.ndarray]
    host: dict[str, Any]
    chunks: dict[str, FileRecord]
    damaged: tuple[str, ...]


class CheckpointStore:
    """The checkpoints of one run.

    Args:
      directory: the checkpoints' directory; the first `write` makes it.
      keep: number of newest checkpoints to keep, besides the one with the best score.
    """

    def __init__(self, directory: Path | str, keep: int = 2) -> None:
        require_whole("keep", keep, 1)
        self.directory = directory = path_of("directory", directory)
        self._rows = directory / _ROWS
        self._keep = keep

    def write(
        self,
        tick: int,
        variables: Mapping[str, np.ndarray],
        host: Mapping[str, Any],
        chunks: Mapping[str, FileRecord],
        rows: Iterable[tuple[int, int, Mapping[str, np.ndarray]]] = (),
        score: float | None = None,
    ) -> dict[str, FileRecord]:
        """Writes one checkpoint and prunes older ones.

        Args:
          tick: time steps of all envs so far.
          variables: name -> array.
          host: the Python state, as JSON values.
          chunks: chunks that are already on disk and still hold rows of the ring.
          rows: (begin, end, columns) of the new time steps.
          score: score of an evaluation; the checkpoint with the highest score is kept.

        Returns:
          All chunks of this checkpoint, to pass to the next call.

        Raises:
          CheckpointError: the disk cannot be written; the last good checkpoint is untouched.
        """
        _require_no_links(self.directory, self._rows)
        try:
            if not self._rows.is_dir():
                self._rows.mkdir(parents=True, exist_ok=True)
                sync_directory(self.directory.parent)
            records = dict(chunks)
            for begin, end, columns in rows:
                name = f"{begin:015d}-{end:015d}.safetensors"
                records[name] = _write(self._rows / name, save(dict(columns)))
            sync_directory(self._rows)
            self._write_directory(tick, score, variables, host, records)
        except CheckpointError:
            raise
        except OSError as error:
            raise CheckpointError(
                f"cannot write {error.filename or self.directory}: {error.strerror}"
            ) from None
        with contextlib.suppress(OSError):  # a failure only leaves files that take up space
            self.prune()
        return records

    def latest(self) -> Checkpoint | None:
        """Returns the newest undamaged checkpoint; None if the run has no checkpoint.

        Damaged checkpoints are skipped and listed in `damaged`.

        Raises:
          CheckpointError: every checkpoint is damaged.
        """
        return self._first_undamaged(reversed(self._numbers()))

    def best(self) -> Checkpoint | None:
        """Returns the checkpoint with the highest score; None if none has a score.

        Raises:
          CheckpointError: every checkpoint with a score is damaged.
        """
        scores = self._scores()
        return self._first_undamaged(sorted(scores, key=lambda n: (-scores[n], -n)))

    def numbered(self, number: int) -> Checkpoint:
        """Returns the checkpoint with this number.

        Raises:
          CheckpointError: there is none, or it is damaged.
        """
        numbers = self._numbers()
        if number not in numbers:
            there = ", ".join(map(str, numbers)) or "none"
            raise CheckpointError(
                f"{self.directory} has no checkpoint {quoted(number)} (there are: {there})"
            )
        return self._read(number, ())

    def rows(self, name: str, record: FileRecord) -> tuple[int, int, dict[str, np.ndarray]]:
        """Returns (begin, end, columns) of one chunk.

        Raises:
          CheckpointError: the chunk is damaged.
        """
        match = _CHUNK.fullmatch(name)
        if match is None:
            raise CheckpointError(f"{name!r} is no name of a chunk")
        return int(match[1]), int(match[2]), _arrays(self._rows / name, record)

    def prune(self, spare: int | None = None) -> None:
        """Removes older checkpoints, unneeded chunks and leftovers of a crash.

        Args:
          spare: number of a checkpoint to keep besides the newest ones and the best one.
        """
        numbers, scores = self._numbers(), self._scores()
        kept = {*numbers[-self._keep :], *(n for n in numbers if n == spare)}
        if scores:
            kept.add(max(scores, key=lambda n: (scores[n], n)))
        for number in set(numbers) - kept:
            # Rename first: a crash during the removal must not leave half a checkpoint.
            self._path(number).rename(self.directory / f".trash-{number}")
        for path in _named(self.directory, _LEFTOVER):
            shutil.rmtree(path, ignore_errors=True)
        try:
            needed = {name for number in kept for name in read_manifest(self._path(number)).chunks}
        except CheckpointError:  # the damage may be temporary, so keep all rows
            return
        for path in _named(self._rows, _OF_ROWS):
            if path.name not in needed:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:08d}"

    def _numbers(self) -> list[int]:
        """Returns the numbers of all checkpoints, oldest first; raises CheckpointError."""
        _require_no_links(self.directory, self._rows)
        try:
            names = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"cannot read {self.directory}: {error.strerror}") from None
        return sorted(int(name) for name in names if _NAME.fullmatch(name))

    def _scores(self) -> dict[int, float]:
        """Returns number -> score of the checkpoints with a score."""
        scores = {}
        for number in self._numbers():
            with contextlib.suppress(CheckpointError):
                if (score := read_manifest(self._path(number)).score) is not None:
                    scores[number] = score
        return scores

    def _first_undamaged(self, numbers: Iterable[int]) -> Checkpoint | None:
        damaged: list[str] = []
        for number in numbers:
            try:
                return self._read(number, tuple(damaged))
            except CheckpointError as error:
                damaged.append(str(error))
        if damaged:
            raise CheckpointError(f"no checkpoint is whole: {'; '.join(damaged)}")
        return None

    def _write_directory(
        self,
        tick: int,
        score: float | None,
        variables: Mapping[str, np.ndarray],
        host: Mapping[str, Any],
        chunks: dict[str, FileRecord],
    ) -> None:
        number = max(self._numbers(), default=0) + 1
        making = _made_anew(self.directory / f".making-{number}")
        files = {
            _VARIABLES: _write(making / _VARIABLES, save(dict(variables))),
            _HOST: _write(making / _HOST, json.dumps(host).encode()),
        }
        manifest = Manifest(format=FORMAT, tick=tick, score=score, files=files, chunks=chunks)
        _write(making / _MANIFEST, _sealed(json.dumps(manifest.model_dump(), sort_keys=True)))
        sync_directory(making)
        os.rename(making, self._path(number))  # noqa: PTH104 - like all writing in this file
        sync_directory(self.directory)

    def _read(self, number: int, damaged: tuple[str, ...]) -> Checkpoint:
        directory = self._path(number)
        manifest = read_manifest(self._path(number))
        for chunk, record in manifest.chunks.items():
            _check(self._rows / chunk, record)
        variables = _arrays(directory / _VARIABLES, manifest.files[_VARIABLES])
        data = _checked(directory / _HOST, manifest.files[_HOST])
        with _raising_damage(directory / _HOST):
            host = json.loads(data)
            if not isinstance(host, dict):
                raise ValueError("it is no JSON object")
        return Checkpoint(
            number, manifest.tick, manifest.score, variables, host, manifest.chunks, damaged
        )


def _named(directory: Path, names: re.Pattern[str]) -> list[Path]:
    return [path for path in directory.glob("*") if names.fullmatch(path.name)]


def _made_anew(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


def _sealed(text: str) -> bytes:
    return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def _require_no_links(*directories: Path) -> None:
    # A store removes files, and what is elsewhere must not be reached.
    for path in directories:
        if path.is_symlink():
            raise CheckpointError(f"{path} is a link; checkpoints have a directory of their own")


def chunk_end(name: str) -> int:
    """Returns the time step after the last one of a chunk, by its name."""
    return int(name.removesuffix(".safetensors").split("-")[1])


def is_checkpoint_file(path: str) -> bool:
    """Says whether a path within the checkpoints' directory is one that a store writes."""
    directory, _, name = path.partition("/")
    if directory == _ROWS:
        return bool(_CHUNK.fullmatch(name))
    return bool(_NAME.fullmatch(directory)) and name in (_VARIABLES, _HOST, _MANIFEST)


def read_manifest(directory: Path) -> Manifest:
    """Reads the manifest of the checkpoint in `directory`; every name in it is one of a store's.

    Raises:
      CheckpointError: it is damaged.
    """
    path = directory / _MANIFEST
    with _raising_damage(path):
        data = read_regular(path, most=_MANIFEST_BYTES)
        text, seal, _ = data.decode().split("\n")
        if hashlib.sha256(text.encode()).hexdigest() != seal:
            raise ValueError("its digest does not match")
        manifest = Manifest.model_validate_json(text)
        if manifest.format != FORMAT:
            raise ValueError(f"it has format {manifest.format}, this version reads {FORMAT}")
        if manifest.files.keys() != {_VARIABLES, _HOST}:
            raise ValueError("its list of files is not that of a checkpoint")
        for chunk in manifest.chunks:
            if not _CHUNK.fullmatch(chunk):
                raise ValueError(f"{quoted(chunk)} is no name of a chunk")
    return manifest


def _write(path: Path, data: bytes) -> FileRecord:
    """Writes a file under a temporary name, syncs and renames it, so it is complete or absent."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(temporary, path)  # noqa: PTH104
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        needed = f"{error.strerror} ({len(data):,} bytes needed)"
        raise OSError(error.errno, needed, str(path)) from None
    return FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _check(path: Path, record: FileRecord) -> None:
    """Checks a file's size and digest without loading it into memory."""
    with _raising_damage(path), open_regular(path, most=record.bytes) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if file.tell() != record.bytes or digest != record.sha256:
            raise ValueError("it is not what was written")


def _checked(path: Path, record: FileRecord) -> bytes:
    with _raising_damage(path):
        data = read_regular(path, most=record.bytes)
        if len(data) != record.bytes or hashlib.sha256(data).hexdigest() != record.sha256:
            raise ValueError("it is not what was written")
    return data


def _arrays(path: Path, record: FileRecord) -> dict[str, np.ndarray]:
    data = _checked(path, record)
    with _raising_damage(path):
        try:
            return load(data)
        except KeyError as error:  # a type that the format has and NumPy has not
            raise ValueError(f"it has numbers of the type {error.args[0]}") from None


@contextlib.contextmanager
def _raising_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else in_one_line(error)
        raise CheckpointError(f"{path} is damaged: {reason}") from None
