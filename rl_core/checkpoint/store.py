"""Writing checkpoints so that a crash at any moment leaves the last one whole, and reading them.

Every file is written under another name, synced and renamed; a checkpoint's directory is made
under another name, synced, renamed, and its parent synced. Only then are older ones removed.
Reading checks the manifest, and every file against it, before anything is believed.

Imports: rl_core.errors.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rl_core.errors import RlCoreError, in_one_line

FORMAT = 1
_VARIABLES, _HOST, _MANIFEST, _ROWS = "variables.safetensors", "host.json", "manifest.json", "rows"
_NAME = re.compile(r"\d{15}")
_CHUNK = re.compile(r"(\d{15})-(\d{15})\.safetensors")
_MANIFEST_BYTES = 1 << 26  # more than a hundred thousand chunks


class CheckpointError(RlCoreError, OSError):
    """A checkpoint that cannot be written or must not be believed."""

    __str__ = Exception.__str__


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
    files: dict[str, FileRecord]
    chunks: dict[str, FileRecord]


@dataclass(frozen=True)
class Checkpoint:
    """One that was read and found whole.

    Attributes:
      variables: name -> array.
      host: what Python knew.
      chunks: of the replay's rows, to be read one by one with `CheckpointStore.rows`.
      damaged: why newer ones were passed over.
    """

    tick: int
    variables: dict[str, np.ndarray]
    host: dict[str, Any]
    chunks: dict[str, FileRecord]
    damaged: tuple[str, ...]


class CheckpointStore:
    """The checkpoints of one run.

    Args:
      directory: made with the first checkpoint.
      keep: how many of the last to keep.
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
        rows: Sequence[tuple[int, int, Mapping[str, np.ndarray]]] = (),
    ) -> dict[str, FileRecord]:
        """Writes one checkpoint and prunes older ones.

        Args:
          tick: names it.
          chunks: those that are on disk already and still hold rows of the ring.
          rows: (begin, end, columns) of the time steps that are new.

        Returns:
          All chunks of the checkpoint, for the next one.

        Raises:
          CheckpointError: the disk is full, or gone; the last good checkpoint is untouched.
        """
        try:
            self._rows.mkdir(parents=True, exist_ok=True)
            records = dict(chunks)
            for begin, end, columns in rows:
                name = f"{begin:015d}-{end:015d}.safetensors"
                records[name] = _write(self._rows / name, save(dict(columns)))
            _sync_directory(self._rows)
            self._write_directory(tick, variables, host, records)
            self.prune()
        except OSError as error:
            where = error.filename or self.directory
            raise CheckpointError(f"cannot write {where}: {error.strerror}") from None
        return records

    def latest(self) -> Checkpoint | None:
        """The newest one that is whole; None if there is none.

        Damaged ones are passed over and named in `damaged`.
        """
        damaged = []
        for name in reversed(self._names()):
            try:
                variables, host, manifest = self._read(name)
            except CheckpointError as error:
                damaged.append(str(error))
                continue
            return Checkpoint(manifest.tick, variables, host, manifest.chunks, tuple(damaged))
        if damaged:
            raise CheckpointError(f"no checkpoint is whole: {'; '.join(damaged)}")
        return None

    def rows(self, name: str, record: FileRecord) -> tuple[int, int, dict[str, np.ndarray]]:
        """(begin, end, columns) of one chunk; raises CheckpointError if it is not what it was."""
        match = _CHUNK.fullmatch(name)
        if match is None:
            raise CheckpointError(f"{name!r} is no name of a chunk")
        return int(match[1]), int(match[2]), _arrays(self._rows / name, record)

    def prune(self) -> None:
        """Removes all but the last few checkpoints, the rows only they had, and leftovers."""
        names = self._names()
        for name in names[: -self._keep]:
            # Under another name first, so that a crash does not leave half of one behind.
            trash = self.directory / f".trash-{name}"
            (self.directory / name).rename(trash)
        for leftover in self.directory.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)
        needed: set[str] = set()
        for name in names[-self._keep :]:
            with contextlib.suppress(CheckpointError):
                needed |= self._manifest(name).chunks.keys()
        for path in self._rows.iterdir():
            if path.name not in needed:
                path.unlink()

    def _names(self) -> list[str]:
        try:
            found = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in found if _NAME.fullmatch(name))

    def _write_directory(
        self,
        tick: int,
        variables: Mapping[str, np.ndarray],
        host: Mapping[str, Any],
        chunks: dict[str, FileRecord],
    ) -> None:
        final = self.directory / f"{tick:015d}"
        making = self.directory / f".making-{tick:015d}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        files = {
            _VARIABLES: _write(making / _VARIABLES, save(dict(variables))),
            _HOST: _write(making / _HOST, json.dumps(host).encode()),
        }
        manifest = Manifest(format=FORMAT, tick=tick, files=files, chunks=chunks)
        text = json.dumps(manifest.model_dump(), sort_keys=True)
        seal = hashlib.sha256(text.encode()).hexdigest()
        _write(making / _MANIFEST, f"{text}\n{seal}\n".encode())
        _sync_directory(making)
        if final.exists():  # of the same tick, written before a crash or a resume
            final.rename(self.directory / f".trash-{tick:015d}")
        making.rename(final)
        _sync_directory(self.directory)

    def _read(self, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any], Manifest]:
        directory = self.directory / name
        manifest = self._manifest(name)
        for chunk, record in manifest.chunks.items():
            if not _CHUNK.fullmatch(chunk):
                raise CheckpointError(f"{directory} is damaged: {chunk!r} is no name of a chunk")
            _checked(self._rows / chunk, record)
        variables = _arrays(directory / _VARIABLES, manifest.files[_VARIABLES])
        host = json.loads(_checked(directory / _HOST, manifest.files[_HOST]))
        return variables, host, manifest

    def _manifest(self, name: str) -> Manifest:
        path = self.directory / name / _MANIFEST
        try:
            data = _regular_bytes(path, _MANIFEST_BYTES)
            text, seal, _ = data.decode().split("\n")
            if hashlib.sha256(text.encode()).hexdigest() != seal:
                raise ValueError("its digest is another one")
            manifest = Manifest.model_validate_json(text)
            if manifest.format != FORMAT:
                raise ValueError(f"it has format {manifest.format}, this version reads {FORMAT}")
            if manifest.files.keys() != {_VARIABLES, _HOST} or f"{manifest.tick:015d}" != name:
                raise ValueError("it is not of this checkpoint")
        except (OSError, ValueError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else in_one_line(error)
            raise CheckpointError(f"{path} is damaged: {reason}") from None
        return manifest


def _write(path: Path, data: bytes) -> FileRecord:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _sync_directory(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _regular_bytes(path: Path, most: int) -> bytes:
    """Of a regular file of at most that size; no link is followed and no pipe waited for."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(file, "rb") as reader:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise ValueError(f"it is no regular file of at most {most} bytes")
        return reader.read(most + 1)


def _checked(path: Path, record: FileRecord) -> bytes:
    try:
        data = _regular_bytes(path, record.bytes)
    except OSError as error:
        raise CheckpointError(f"{path} is damaged: {error.strerror}") from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    if len(data) != record.bytes or hashlib.sha256(data).hexdigest() != record.sha256:
        raise CheckpointError(f"{path} is damaged: it is not what was written")
    return data


def _arrays(path: Path, record: FileRecord) -> dict[str, np.ndarray]:
    try:
        return load(_checked(path, record))
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged: {in_one_line(error)}") from None
