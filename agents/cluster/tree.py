"""The files of a run or a population that travel between machines, and those of a job's command.

A name that comes from another machine is used only if it is one of these: none leads out of the
directory. Locks and tokens stay where they are, and unfinished files, which begin with a dot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from targetnet.agents.saved.directory import MACHINES, OF_ITS_END
from targetnet.rl_core.checkpoint.store import is_checkpoint_file
from targetnet.rl_core.control.population import CHANGE, is_member_name
from targetnet.rl_core.errors import RunDirError

LOG, STATE, MOVED = "control/log.jsonl", "control/state.json", "control/moved"
CHECKPOINTS, MANIFEST, EVENTS = "checkpoints", "manifest.json", "events.out.tfevents."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{8,15}", re.ASCII)
_STAY = {"control/lock", "control/token", MOVED, MACHINES}


class FilePlace(NamedTuple):
    """A file's place in a tree."""

    run: str  # "" for the run itself, or "m03/" for a member of a population
    name: str  # path within the run, such as "control/log.jsonl"

    @property
    def grows(self) -> bool:
        """Says whether the file is only ever appended to; others are replaced as a whole."""
        return self.name in (LOG, "control/trace.bin", "control/arrivals.bin") or (
            self.name.startswith(EVENTS)
        )

    @property
    def may_vanish(self) -> bool:
        """Says whether a run that goes on may remove this file."""
        return self.name in (*OF_ITS_END, CHANGE) or self.name.startswith(EVENTS)


def place_of(path: str) -> FilePlace | None:
    """Returns where a file outside checkpoints belongs; None if it is none that travels."""
    first, slash, _ = path.partition("/")
    run = f"{first}/" if slash and is_member_name(first) else ""
    name = path.removeprefix(run)
    directory, _, last = name.rpartition("/")
    travels = directory in ("", "control") and _NAME.fullmatch(last) and name not in _STAY
    return FilePlace(run, name) if travels else None


def plain_files(tree: Path) -> dict[str, FilePlace]:
    """Returns the files outside checkpoints that there are, by their paths in the tree."""
    places = [f"{run}{directory}" for run in {"": None} | dict.fromkeys(runs_in(tree))
              for directory in ("", "control/")]  # fmt: skip
    found = [f"{place}{name}" for place in places for name in _files(tree / place)]
    return {path: place for path in found if (place := place_of(path))}


def checkpoint_files(tree: Path, run: str) -> Iterator[str]:
    """Yields the files of a run's checkpoints, those of rows first and manifests last."""
    for directory in ("rows", *(f"{number:08d}" for number in checkpoints_in(tree, run))):
        names = _files(tree / run / CHECKPOINTS / directory)
        for name in sorted(names, key=lambda name: (name == MANIFEST, name)):
            if is_checkpoint_file(f"{directory}/{name}"):
                yield f"{run}{CHECKPOINTS}/{directory}/{name}"


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
    return [f"{name}/" for name in _names(tree) if is_member_name(name)] or [""]


def _files(directory: Path) -> list[str]:
    paths = [directory / name for name in _names(directory)]
    return [path.name for path in paths if path.is_file() and not path.is_symlink()]


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []


@dataclass(frozen=True)
class JobInputs:
    """The files of a command, and what it asks of a machine."""

    tree: Path  # directory that it fills, and goes on with if it is there: a word of the command
    runs: Sequence[Path]  # the tree itself, or the members of a population in it
    # Contents of the TOML files that it reads, each by the word that names it.
    files: Mapping[str, bytes] = field(default_factory=dict)
    cpus: int = 1  # that it uses
    keep: int = 2  # newest checkpoints that a run keeps

    def arguments(self, command: Sequence[str]) -> list[str]:
        """Returns the command's words after the program, as they are on the other machine."""
        names = {word: file_name(word) for word in self.files} | {str(self.tree): self.tree.name}
        return [names.get(word, word) for word in command[1:]]

    def names(self) -> list[str]:
        """Returns the runs as they are named in the tree: "" for itself, "m00/" for a member."""
        names = [path.relative_to(self.tree).as_posix() for path in self.runs]
        return ["" if name == "." else f"{name}/" for name in names]


def file_name(word: str) -> str:
    """Returns the name on the other machine of a file that a word of the command names."""
    return f"{Path(word).name.removesuffix('.toml')}.toml"
