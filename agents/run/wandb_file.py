"""Reader of the history in a W&B run's own file; the package can write such files only.

The file is a log in LevelDB's format: blocks of 32 KiB, in which each piece of a record has a
checksum, a length and a kind. W&B writes whole blocks, so the file of a killed run lacks its end.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from wandb.proto import wandb_internal_pb2

from targetnet.rl_core.regular_file import open_regular

_MAGIC = b":W&B"
_HEADER = 7  # bytes, of the file
_BLOCK = 1 << 15
_PIECE = struct.Struct("<IHB")  # checksum, length, kind
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MOST_BYTES = 1 << 24  # of a record


def read_history(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a run's history, up to the first record that is not whole.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no regular file, or not W&B's.
    """
    with open_regular(path) as file:
        if file.read(_HEADER)[: len(_MAGIC)] != _MAGIC:
            raise ValueError(f"{path} is no file of W&B")
        for data in _records(file):
            try:
                record = wandb_internal_pb2.Record.FromString(data)
                items = record.history.item if record.HasField("history") else ()
                row = {i.key or ".".join(i.nested_key): json.loads(i.value_json) for i in items}
            except (DecodeError, ValueError, RecursionError):
                return
            if row:
                yield row


def _records(file: BufferedReader) -> Iterator[bytes]:
    record = b""
    for kind, data in _pieces(file):
        record = data if kind in (_WHOLE, _FIRST) else record + data
        if len(record) > _MOST_BYTES:
            return
        if kind in (_WHOLE, _LAST):
            yield record


def _pieces(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    at = _HEADER
    while True:
        left = _BLOCK - at % _BLOCK
        if left < _PIECE.size:  # the rest of a block, too short for a piece
            at += left
            file.seek(at)
            continue
        head = file.read(_PIECE.size)
        if len(head) < _PIECE.size:
            return
        _, length, kind = _PIECE.unpack(head)
        data = file.read(length)
        if len(data) < length or kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST):
            return
        at += len(head) + length
        yield kind, data
