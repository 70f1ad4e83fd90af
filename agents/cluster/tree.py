"""The files of a run, or of a population of runs, that travel between machines, by their names.

A name that comes from another machine is used only if it is one of these: none leads out of the
directory. Locks and tokens stay where they are, and unfinished files, which begin with a dot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from targetnet.agents.saved.directory import MACHINES, OF_ITS_END
from targetnet.rl_core.checkpoint.store import is_checkpoint_file
from targetnet.rl_core.control.population import CHANGE, is_member_name
from targetnet.rl_core.errors import RunDirError

LOG, STATE = "control/log.jsonl", "control/state.json"
CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{8,15}", re.ASCII)
_STAY = {"control/lock", "control/token", "control/moved", MACHINES}
_EVENTS = "events.out.tfevents."


class FilePlace(NamedTuple):
    """A file's place in a tree.

    Attributes:
      run: "" for the run itself, or "m03/" for a member of a population.
      name: path within the run, such as "control/log.jsonl".
    """

    run: str
    name: str


def place_of(path: str) -> FilePlace | None:
    """Returns where a file belongs; None if it is none that travels."""
    first, slash, _ = path.partition("/")
    run = f"{first}/" if slash and is_member_name(first) else ""
    name = path.removeprefix(run)
    directory, _, last = name.rpartition("/")
    plain = directory in ("", "control") and _NAME.fullmatch(last) and name not in _STAY
    kept = name.startswith(f"{CHECKPOINTS}/") and is_checkpoint_file(
        name.removeprefix(f"{CHECKPOINTS}/")
    )
    return FilePlace(run, name) if plain or kept else None


def grows(name: str) -> bool:
    """Says whether a file of a run is only ever appended to; others are replaced as a whole."""
    return name in (LOG, "control/trace.bin", "control/arrivals.bin") or name.startswith(_EVENTS)


def may_vanish(name: str) -> bool:
    """Says whether a run that goes on may remove this file."""
    return name in (*OF_ITS_END, CHANGE) or name.startswith(_EVENTS)


def plain_files(tree: Path) -> Iterator[str]:
    """Yields the files outside checkpoints that there are."""
    yield from _files(tree, "", ("", "control/"))
    for run in runs_in(tree):
        if run:
            yield from _files(tree, run, ("", "control/"))


def checkpoint_files(tree: Path, run: str) -> Iterator[str]:
    """Yields the files of a run's checkpoints, those of rows first and manifests last."""
    place = f"{run}{CHECKPOINTS}/"
    yield from _files(tree, place, ("rows/",))
    for number in checkpoints_in(tree, run):
        found = sorted(_files(tree, place, (f"{number:08d}/",)), key=_is_manifest)
        yield from found


def checkpoints_in(tree: Path, run: str) -> list[int]:
    """Returns the numbers of a run's checkpoints, oldest first."""
    names = _names(tree / run / CHECKPOINTS)
    return sorted(int(n) for n in names if _NUMBER.fullmatch(n))


def is_number(number: object) -> bool:
    """Says whether something that another machine sent is the number of a checkpoint."""
    return type(number) is int and bool(_NUMBER.fullmatch(f"{number:08d}"))


def require_no_links(tree: Path) -> None:
    """Checks that no directory in a tree is a link: files are sent and written through none.

    Raises:
      RunDirError: one is.
    """
    for run in {"", *runs_in(tree)}:
        checkpoints = tree / run / CHECKPOINTS
        numbers = [f"{number:08d}" for number in checkpoints_in(tree, run)]
        inside = [checkpoints, *(checkpoints / name for name in ("rows", *numbers))]
        for directory in [*([tree / run] if run else []), tree / run / "control", *inside]:
            if directory.is_symlink():
                raise RunDirError(f"{directory} is a link: a run's directories travel without any")


def runs_in(tree: Path) -> list[str]:
    """Returns the members of a population as "m00/", ...; or "", the run itself."""
    members = [f"{name}/" for name in sorted(_names(tree)) if is_member_name(name)]
    return members or [""]


def _files(tree: Path, place: str, directories: tuple[str, ...]) -> Iterator[str]:
    for directory in directories:
        for name in sorted(_names(tree / place / directory)):
            path = f"{place}{directory}{name}"
            if place_of(path) and (tree / path).is_file() and not (tree / path).is_symlink():
                yield path


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_manifest(path: str) -> bool:
    return path.endswith("/manifest.json")
