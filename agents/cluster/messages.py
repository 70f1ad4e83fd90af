"""The messages between home and a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PIECE = 4 << 20  # bytes of one answer


class NodeFacts(NamedTuple):
    """A node: Ray's id of it, its host name, its versions, its processor."""

    id: str
    host: str
    versions: dict[str, str]
    processor: str


class LocalOffset(NamedTuple):
    """The part of a file that home has: its first `size` bytes, of the file with this stamp."""

    stamp: int
    size: int


class FilePiece(NamedTuple):
    """A piece of a file.

    Attributes:
      path: of the file in the tree.
      stamp: another one means that the file was replaced.
      offset: where the piece belongs; at 0 the file comes anew.
      data: the bytes.
      total: size of the file, of which the piece may be a part.
    """

    path: str
    stamp: int
    offset: int
    data: bytes
    total: int


class NodeReport(NamedTuple):
    """News of a node.

    Attributes:
      code: exit code of the process, negative if a signal ended it; None while it is at work.
      fault: why it may have failed for the node's disk; "" if there is no sign of that.
      log: the next bytes of its output.
      pieces: of files that home lacks.
      gone: files that home has and that are no more.
      command_files: those that wait in the inboxes, by their paths.
      checkpoints: numbers of the checkpoints of each run that has any.
      more: whether there is more of the same at once.
    """

    code: int | None
    fault: str
    log: bytes
    pieces: list[FilePiece]
    gone: list[str]
    command_files: set[str]
    checkpoints: dict[str, list[int]]
    more: bool


def file_name(word: str) -> str:
    """Returns the name on the other machine of a file that a word of the command names."""
    return f"{Path(word).name.removesuffix('.toml')}.toml"


@dataclass(frozen=True)
class JobInputs:
    """The files of a command, and what it asks of a machine.

    Attributes:
      tree: directory that it fills, and goes on with if it is there: a word of the command.
      runs: run directories: the tree itself, or the members of a population in it.
      files: contents of the TOML files that it reads, each by the word that names it.
      cpus: CPUs that it uses.
      keep: newest checkpoints that a run keeps.
    """

    tree: Path
    runs: Sequence[Path]
    files: Mapping[str, bytes] = field(default_factory=dict)
    cpus: int = 1
    keep: int = 2

    def arguments(self, command: Sequence[str]) -> list[str]:
        """Returns the command's words after the program, as they are on the other machine."""
        names = {word: file_name(word) for word in self.files} | {str(self.tree): self.tree.name}
        return [names.get(word, word) for word in command[1:]]

    def names(self) -> list[str]:
        """Returns the runs as they are named in the tree: "" for itself, "m00/" for a member."""
        names = [path.relative_to(self.tree).as_posix() for path in self.runs]
        return ["" if name == "." else f"{name}/" for name in names]
