"""A run in Trackio's local database.

TRACKIO_DIR decides where that is. `trackio show --project targetnet` shows it, and `trackio sync`
publishes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from trackio.sqlite_storage import SQLiteStorage

from targetnet.agents.sinks.interface import SinkStart, as_params
from targetnet.rl_core.board.read_events import EventPoints

_PROJECT = "targetnet"
_OF_TRACKIO = {"timestamp", "step"}  # beside the metrics of a row


class TrackioStore:
    """The Trackio run with this id.

    It writes to the database itself: Trackio's `log` hands points to a thread and swallows its
    errors.

    Args:
      start: of the run.
      sink_id: of the run at all packages.
    """

    def __init__(self, start: SinkStart, sink_id: str) -> None:
        self._run = {"project": _PROJECT, "run": start.run.name, "run_id": sink_id}
        created = {"_Username": None, "_Created": datetime.now(UTC).isoformat(), "_Group": None}
        self._config = as_params(start.config) | created
        path = SQLiteStorage.init_db(_PROJECT)
        self.place = f"{path} (trackio show --project {_PROJECT})"
        for name in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
            if os.environ.get(name):
                start.warn(f"trackio: {name} is not used: trackio sync publishes the run")

    def known(self) -> Iterator[tuple[str, int]]:
        for row in SQLiteStorage.get_logs(**self._run):
            for tag in row.keys() - _OF_TRACKIO:
                yield tag, row["step"]

    def send(self, rows: Sequence[EventPoints]) -> None:
        SQLiteStorage.bulk_log(
            **self._run,
            metrics_list=[row.values for row in rows],
            steps=[row.env_step for row in rows],
            timestamps=[datetime.fromtimestamp(row.time, UTC).isoformat() for row in rows],
            config=self._config,
        )

    def close(self, finished: bool) -> None:
        pass  # the database has no such state, and every write is whole
