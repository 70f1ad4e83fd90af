"""Copies that a member of a population has made of others, kept in its own run directory.

    copies/<sha256 of the file>.safetensors

A copy is there before anything says that it was made, so the run can be resumed and repeated alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import numpy as np

from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.checkpoint.weights_file import WeightsError, weights_bytes, weights_in
from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.population import CopyOf, copy_in
from targetnet.rl_core.errors import RunDirError, in_one_line, reason_of
from targetnet.rl_core.files import open_regular, sync_directory, write_whole, writing

_DIRECTORY = "copies"
_OURS = re.compile(r"\.?(?P<digest>[0-9a-f]{64})\.safetensors(?P<unfinished>\.\d+\.tmp)?")


def save_copy(runs: Iterable[RunDir], learned: Mapping[str, np.ndarray]) -> str:
    """Keeps what was learned in the directories of those that copy it; returns its digest.

    They share one file, where the file system can.

    Raises:
      RunDirError: it cannot be written, or the directory is a link.
    """
    data = weights_bytes(learned)
    digest = hashlib.sha256(data).hexdigest()
    first: Path | None = None
    for run in runs:
        path = _path(run, digest)
        if path.parent.is_symlink():
            raise RunDirError(f"{path.parent} is a link; copies have a directory of their own")
        with writing(path):
            path.parent.mkdir(exist_ok=True)
            if first is None or not _linked(first, path):
                write_whole(path, data)
            sync_directory(path.parent)
            sync_directory(run.path)
        first = first or path
    return digest


def load_copy(run: RunDir, copied: CopyOf) -> dict[str, np.ndarray]:
    """Reads what this run has copied.

    Raises:
      RunDirError: it is missing or damaged.
    """
    path = _path(run, copied.file)
    where = in_one_line(path, 200)
    try:
        with open_regular(path) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != copied.file:
            raise ValueError("it is damaged: not what was written")
        return weights_in(data, path)
    except FileNotFoundError:
        raise RunDirError(
            f"{where} is missing: what {run.path.name} copied from {copied.member} in exchange "
            f"{copied.exchange:,}"
        ) from None
    except WeightsError as error:
        raise RunDirError(str(error)) from None
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {where}: {reason_of(error)}") from None


def require_copies(run: RunDir, entries: Iterable[Entry]) -> None:
    """Checks that all that these entries of its log have copied can be read.

    Raises:
      RunDirError: as for `load_copy`.
    """
    for copied in filter(None, map(copy_in, entries)):
        load_copy(run, copied)


def clear_copies(run: RunDir, kept: Collection[str]) -> None:
    """Removes all but these from a run's copies: what a killed process has left."""
    directory = run.path / _DIRECTORY
    with contextlib.suppress(OSError):
        if not directory.is_symlink():  # what is elsewhere is not ours
            for path in directory.iterdir():
                ours = _OURS.fullmatch(path.name)
                if ours and (ours["digest"] not in kept or ours["unfinished"]):
                    path.unlink()


def _linked(first: Path, path: Path) -> bool:
    """Makes `path` another name of the file; returns False where that is impossible."""
    try:
        os.link(first, path)
    except OSError:  # it may be there already, or the file system has no links
        return False
    return True


def _path(run: RunDir, digest: str) -> Path:
    return run.path / _DIRECTORY / f"{digest}.safetensors"
