"""The files of a job's command, and what it asks of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


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
