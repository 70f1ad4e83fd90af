"""A run at Weights & Biases.

W&B's own variables decide where it goes: WANDB_MODE, WANDB_PROJECT, WANDB_ENTITY, WANDB_DIR and
others. Its files are in the run directory if WANDB_DIR is not set. Without an API key and without
WANDB_MODE the run is offline, because W&B would ask for the key on the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import wandb

from targetnet.agents.run.sinks import SinkStart, as_params
from targetnet.agents.run.wandb_file import read_history
from targetnet.rl_core.board.read_events import EventPoints

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
