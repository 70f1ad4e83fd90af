"""Writing checkpoints so that a crash at any moment leaves the last one whole, and reading them.

Every file is written under another name, synced and renamed; a checkpoint's directory is made
under another name, synced, renamed, and its parent synced. Only then are older ones removed.
Reading checks the manifest, and every file against it, before anything is believed.
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

from rl_core.errors import RlCoreError, in_one_line
from rl_core.regular_file import open_regular, read_regular

FORMAT = 1
_VARIABLES, _HOST, _MANIFEST, _ROWS = "variables.safetensors", "host.json", "manifest.json", "rows"
_NAME = re.compile(r"\d{8,15}")
_CHUNK = re.compile(r"(\d{15})-(\d{15})\.safetensors")
_MANIFEST_BYTES = 1 << 26  # more than a hundred thousand chunks


class CheckpointError(RlCoreError, OSError):
    """A checkpoint that cannot be written or must not be believed."""


class FileRecord(BaseModel):
    """What a file has to be."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """All files of one checkpoint; chunks are those of the replay's rows, oldest first."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: int
    tick: int = Field(ge=0)
    score: float | None
    files: dict[str, FileRecord]
    chunks: dict[str, FileRecord]


@dataclass(frozen=True)
class Checkpoint:
    """One that was read and found whole.

    Attributes:
      number: 1, 2, ... of its run.
      tick: time steps of all envs until then.
      score: of the evaluation it was written for, if any.
      variables: name -> array.
      host: what Python knew.
      chunks: of the replay's rows, to be read one by one with `CheckpointStore.rows`.
      damaged: why newer ones were passed over.
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
      directory: made with the first checkpoint.
      keep: how many of the last to keep, beside the one of the best score.
    """

    def __init__(self, directory: Path, keep: int = 2) -> None:
        self.directory = directory
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
          tick: time steps until now.
          chunks: those that are on disk already and still hold rows of the ring.
          rows: (begin, end, columns) of the time steps that are new.
          score: of an evaluation; the checkpoint of the highest is kept.

        Returns:
          All chunks of the checkpoint, for the next one.

        Raises:
          CheckpointError: the disk is full, or gone; the last good checkpoint is untouched.
        """
        try:
            if not self._rows.is_dir():
                self._rows.mkdir(parents=True, exist_ok=True)
                _sync_directory(self.directory.parent)
            records = dict(chunks)
            for begin, end, columns in rows:
                name = f"{begin:015d}-{end:015d}.safetensors"
                records[name] = _write(self._rows / name, save(dict(columns)))
            _sync_directory(self._rows)
            self._write_directory(tick, score, variables, host, records)
        except OSError as error:
            raise CheckpointError(
                f"cannot write {error.filename or self.directory}: {error.strerror}"
            ) from None
        with contextlib.suppress(OSError):  # what is too much costs room, nothing else
            self.prune()
        return records

    def latest(self) -> Checkpoint | None:
        """The newest one that is whole; None if there never was one.

        Damaged ones are passed over and named in `damaged`.

        Raises:
          CheckpointError: there are some, and none is whole.
        """
        return self._first_whole(reversed(self._numbers()))

    def best(self) -> Checkpoint | None:
        """The one of the highest score; None if no evaluation was scored. Raises as `latest`."""
        scores = self._scores()
        return self._first_whole(sorted(scores, key=lambda n: (-scores[n], -n)))

    def rows(self, name: str, record: FileRecord) -> tuple[int, int, dict[str, np.ndarray]]:
        """(begin, end, columns) of one chunk; raises CheckpointError if it is not what it was."""
        match = _CHUNK.fullmatch(name)
        if match is None:
            raise CheckpointError(f"{name!r} is no name of a chunk")
        return int(match[1]), int(match[2]), _arrays(self._rows / name, record)

    def prune(self, spare: int | None = None) -> None:
        """Removes what is neither of the last few nor the best, and what a crash left behind.

        Args:
          spare: number of one to be kept whatever else there is.
        """
        numbers, scores = self._numbers(), self._scores()
        kept = {*numbers[-self._keep :], *(n for n in numbers if n == spare)}
        if scores:
            kept.add(max(scores, key=lambda n: (scores[n], n)))
        for number in set(numbers) - kept:
            # Under another name first, so that a crash does not leave half of one behind.
            self._path(number).rename(self.directory / f".trash-{number}")
        for leftover in self.directory.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            needed = {name for number in kept for name in self._manifest(number).chunks}
        except CheckpointError:  # perhaps only now: rather too many rows than too few
            return
        for path in self._rows.glob("*"):
            if path.name not in needed:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:08d}"

    def _numbers(self) -> list[int]:
        """Of all checkpoints, oldest first."""
        try:
            names = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if _NAME.fullmatch(name))

    def _scores(self) -> dict[int, float]:
        """Of those that have one."""
        scores = {}
        for number in self._numbers():
            with contextlib.suppress(CheckpointError):
                score = self._manifest(number).score
                if score is not None:
                    scores[number] = score
        return scores

    def _first_whole(self, numbers: Iterable[int]) -> Checkpoint | None:
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
        making = self.directory / f".making-{number}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        files = {
            _VARIABLES: _write(making / _VARIABLES, save(dict(variables))),
            _HOST: _write(making / _HOST, json.dumps(host).encode()),
        }
        manifest = Manifest(format=FORMAT, tick=tick, score=score, files=files, chunks=chunks)
        text = json.dumps(manifest.model_dump(), sort_keys=True)
        seal = hashlib.sha256(text.encode()).hexdigest()
        _write(making / _MANIFEST, f"{text}\n{seal}\n".encode())
        _sync_directory(making)
        os.rename(making, self._path(number))  # noqa: PTH104 - as all that touches the disk here
        _sync_directory(self.directory)

    def _read(self, number: int, damaged: tuple[str, ...]) -> Checkpoint:
        directory = self._path(number)
        manifest = self._manifest(number)
        for chunk, record in manifest.chunks.items():
            if not _CHUNK.fullmatch(chunk):
                raise CheckpointError(f"{directory} is damaged: {chunk!r} is no name of a chunk")
            _check(self._rows / chunk, record)
        variables = _arrays(directory / _VARIABLES, manifest.files[_VARIABLES])
        host = json.loads(_checked(directory / _HOST, manifest.files[_HOST]))
        return Checkpoint(
            number, manifest.tick, manifest.score, variables, host, manifest.chunks, damaged
        )

    def _manifest(self, number: int) -> Manifest:
        path = self._path(number) / _MANIFEST
        with _damage(path):
            data = read_regular(path, most=_MANIFEST_BYTES)
            text, seal, _ = data.decode().split("\n")
            if hashlib.sha256(text.encode()).hexdigest() != seal:
                raise ValueError("its digest is another one")
            manifest = Manifest.model_validate_json(text)
            if manifest.format != FORMAT:
                raise ValueError(f"it has format {manifest.format}, this version reads {FORMAT}")
            if manifest.files.keys() != {_VARIABLES, _HOST}:
                raise ValueError("it names other files than a checkpoint has")
        return manifest


def _write(path: Path, data: bytes) -> FileRecord:
    """Under another name, synced, renamed: the file is whole or not there."""
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


def _sync_directory(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _check(path: Path, record: FileRecord) -> None:
    """That a file is what was written, without having all of it in memory."""
    with _damage(path), open_regular(path, most=record.bytes) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if file.tell() != record.bytes or digest != record.sha256:
            raise ValueError("it is not what was written")


def _checked(path: Path, record: FileRecord) -> bytes:
    with _damage(path):
        data = read_regular(path, most=record.bytes)
        if len(data) != record.bytes or hashlib.sha256(data).hexdigest() != record.sha256:
            raise ValueError("it is not what was written")
    return data


def _arrays(path: Path, record: FileRecord) -> dict[str, np.ndarray]:
    data = _checked(path, record)
    with _damage(path):
        return load(data)


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else in_one_line(error)
        raise CheckpointError(f"{path} is damaged: {reason}") from None
