"""A run at Weights & Biases, and a reader of the file in which its package keeps the run.

W&B's own variables decide where it goes: WANDB_MODE, WANDB_PROJECT, WANDB_ENTITY, WANDB_DIR and
others. Its files are in the run directory if WANDB_DIR is not set. Without an API key and without
WANDB_MODE the run is offline, because W&B would ask for the key on the terminal.

The package can write its file only. That is a log in LevelDB's format: blocks of 32 KiB, in which
each piece of a record has a checksum, a length and a kind. W&B writes whole blocks, so the file of
a killed run lacks its end.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

import wandb
from google.protobuf.message import DecodeError
from wandb.proto import wandb_internal_pb2

from targetnet.agents.sinks.interface import SinkStart, as_params
from targetnet.rl_core.board.read_events import EventPoints
from targetnet.rl_core.files import open_regular

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


_PROJECT = "targetnet"
_STEP = "env_step"  # the x axis of all curves
_INIT_SECONDS = 20.0


class WandbStore:
    """The W&B run with this id; each session has a file of its own there.

    Args:
      start: of the run.
      sink_id: of the run at all packages.
    """

    def __init__(self, start: SinkStart, sink_id: str) -> None:
        # W&B takes our package `agents` for OpenAI's, and would advertise another tool.
        os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
        # Not the default, the current directory: a resume may come from another one.
        directory = os.environ.get("WANDB_DIR") or str(start.run)
        seconds = float(os.environ.get("WANDB_INIT_TIMEOUT") or _INIT_SECONDS)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or _PROJECT,
            id=sink_id,
            name=os.environ.get("WANDB_NAME") or start.run.name,
            resume="allow",
            reinit="create_new",  # a run of the program's own stays as it is
            dir=directory,
            mode=_mode(start),
            config=as_params(start.config),
            # The terminal belongs to the progress bar. A server that does not answer is tried
            # again; the default would keep the process for a minute after its end.
            settings=wandb.Settings(console="off", silent=True, init_timeout=seconds),
        )
        self._run.define_metric(_STEP, hidden=True)
        self._run.define_metric("*", step_metric=_STEP)
        settings = self._run.settings
        name = f"run-{sink_id}.wandb"
        files = Path(settings.wandb_dir).glob(f"*run-*-{sink_id}/{name}")
        self._earlier = sorted(path for path in files if path != Path(settings.sync_file))
        self._next = 0
        self.place = (
            f"{settings.sync_dir} (offline; wandb sync uploads it)"
            if self._run.offline
            else str(self._run.url)
        )

    def known(self) -> Iterator[tuple[str, int]]:
        for path in self._earlier:
            for row in read_history(path):
                number, env_step = row.get("_step"), row.get(_STEP)
                if not isinstance(number, int) or not isinstance(env_step, int):
                    continue  # a row that somebody else has logged
                # W&B wants a growing number for each row, over all sessions.
                self._next = max(self._next, number + 1)
                yield from ((t, env_step) for t in row if t != _STEP and not t.startswith("_"))

    def send(self, rows: Sequence[EventPoints]) -> None:
        for row in rows:
            self._run.log({**row.values, _STEP: row.env_step}, step=self._next)
            self._next += 1

    def close(self, finished: bool) -> None:
        self._run.finish()


def _mode(start: SinkStart) -> str | None:
    """Returns None where W&B can decide without a question."""
    decided = ("WANDB_MODE", "WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")
    if any(map(os.environ.get, decided)) or wandb.run is not None:
        return None
    if wandb.login(prompt=False, verify=False):
        return None
    start.warn("wandb: no API key and no WANDB_MODE, so the run is offline there")
    return "offline"
