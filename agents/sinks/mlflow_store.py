"""A run at MLflow: its points are metrics, its config is params.

MLflow's own variables, such as MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME, decide where it is.
By default MLflow makes `mlflow.db` in the current directory.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from targetnet.agents.sinks.interface import SinkStart, as_params
from targetnet.rl_core.board.read_events import EventPoints

_EXPERIMENT = "targetnet"
_TAG = "targetnet.id"  # of our id; MLflow chooses an id of its own
_MOST_METRICS, _MOST_PARAMS = 1_000, 100  # that MLflow takes in one request


class MlflowStore:
    """The MLflow run that has this id as a tag; made if there is none.

    Args:
      start: of the run.
      sink_id: of the run at all packages.
    """

    def __init__(self, start: SinkStart, sink_id: str) -> None:
        # Otherwise it tells of every table that it makes in a new database.
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._client = MlflowClient()
        experiment = self._experiment()
        found = self._client.search_runs([experiment], f"tags.`{_TAG}` = '{sink_id}'")
        if found:
            run = found[0]
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            run = self._client.create_run(experiment, tags={_TAG: sink_id}, run_name=start.run.name)
        self._run_id = run.info.run_id
        self._metrics = list(run.data.metrics)
        self._log_params(as_params(start.config), run.data.params)
        self.place = f"run {self._run_id} at {self._client.tracking_uri}"

    def known(self) -> Iterator[tuple[str, int]]:
        for tag in self._metrics:
            for metric in self._client.get_metric_history(self._run_id, tag):
                yield tag, metric.step

    def send(self, rows: Sequence[EventPoints]) -> None:
        metrics = [
            Metric(tag, value, round(row.time * 1_000), row.env_step)
            for row in rows
            for tag, value in row.values.items()
        ]
        for begin in range(0, len(metrics), _MOST_METRICS):
            part = metrics[begin : begin + _MOST_METRICS]
            self._client.log_batch(self._run_id, metrics=part)

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self._run_id, "FINISHED" if finished else "KILLED")

    def _experiment(self) -> str:
        if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return number
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)

    def _log_params(self, config: dict[str, Any], there: dict[str, str]) -> None:
        # MLflow refuses to change a param, so a longer run keeps its first `env_steps`.
        new = [Param(k, _text(value)) for k, value in config.items() if k not in there]
        for begin in range(0, len(new), _MOST_PARAMS):
            self._client.log_batch(self._run_id, params=new[begin : begin + _MOST_PARAMS])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
