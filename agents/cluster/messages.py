"""The messages between home and a node."""

from __future__ import annotations

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
