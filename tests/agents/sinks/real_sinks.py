"""Sessions of a run that reports to real packages, without TensorFlow, each in its own process.

    python -m tests.agents.sinks.real_sinks RUN mlflow,wandb,trackio FIRST LAST KILL

A session reports the points of the env steps FIRST to LAST. With KILL = "now" or "later" it kills
itself: before anything can have been sent, or when it was. Otherwise it comes to its end, and
prints the lines that it showed and all points there, as the packages' own readers see them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.sinks.choice import PACKAGES, open_sinks
from targetnet.agents.sinks.interface import SinkStart
from targetnet.agents.sinks.outbox import Outbox

# None of them may use the network, ask for anything or write outside of the test's directory.
ENVIRON = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
}
INSTALLED = [n for n in PACKAGES if all(find_spec(m) for m in PACKAGES[n].modules)]


def environ(home):
    """The environment of a session, with no account and no settings of a person's own."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return kept | ENVIRON | {"HOME": str(home), "TRACKIO_DIR": str(home / "trackio")}


def points(env_step):
    """What a run reports at one env step: twice the same curve where two episodes end together."""
    if env_step % 30 == 0:
        yield {"episode/return": float(env_step), "episode/length": 1.0}
        yield {"episode/return": float(env_step), "episode/length": 1.0}
    loss = float("nan") if env_step == 50 else 1.0 / env_step
    yield {"learn/loss": loss, "live/sync_period": env_step // 100}


def expected(last):
    return sorted(
        (tag, env_step, shown(value))
        for env_step in range(10, last + 1, 10)
        for row in points(env_step)
        for tag, value in row.items()
    )


def shown(value):
    """The value as event files keep it; equal to itself if it is NaN."""
    return str(np.float32(float(value)))


def report(run, packages, first, last, kill):
    """Returns the lines that were shown."""
    lines = []
    config = DqnConfig(log_to=packages, hidden=(8,))
    after = -1 if first == 10 else first - 10
    event_files, *outboxes = open_sinks(SinkStart(run, config, (), after, lines.append))
    for env_step in range(first, last + 1, 10):
        for row in points(env_step):
            for sink in (event_files, *outboxes):
                sink.scalars(row, env_step)
    event_files.flush_all()
    if kill == "now":
        os.kill(os.getpid(), signal.SIGKILL)
    for sink in outboxes:
        wait_until_delivered(sink._sink)
    if kill == "later":
        os.kill(os.getpid(), signal.SIGKILL)
    for sink in (event_files, *outboxes):
        sink.result({"mean": 7.0}, last)
    for sink in (event_files, *outboxes):
        sink.close()
    return lines


def wait_until_delivered(outbox: Outbox):
    while outbox._store is None or outbox._rows or outbox._batch:
        time.sleep(0.01)


def in_mlflow(run, sink_id):
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("targetnet").experiment_id
    (found,) = client.search_runs([experiment])
    assert found.data.tags["targetnet.id"] == sink_id
    assert found.data.params["hidden"] == "[8]" and found.data.params["env_id"] == "CartPole-v1"
    yield "finished", 0, found.info.status == "FINISHED"
    for tag in found.data.metrics:
        for metric in client.get_metric_history(found.info.run_id, tag):
            yield tag, metric.step, metric.value


def in_wandb(run, sink_id):
    inspect = [sys.executable, "-m", "wandb", "leet", "inspect", "--json"]
    numbers = []
    for path in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        done = subprocess.run([*inspect, path], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            record = json.loads(line)
            if record["type"] != "history":
                continue
            row = record["history"]["item"]
            numbers.append(row["_step"])
            for tag in row.keys() - {"env_step"}:
                if not tag.startswith("_"):
                    yield tag, row["env_step"], row[tag]
    assert numbers == sorted(set(numbers)), "W&B drops rows whose number does not grow"


def in_trackio(run, sink_id):
    from trackio.sqlite_storage import SQLiteStorage

    for row in SQLiteStorage.get_logs("targetnet", run.name, run_id=sink_id):
        for tag in row.keys() - {"step", "timestamp"}:
            yield tag, row["step"], row[tag]


READERS = {"mlflow": in_mlflow, "wandb": in_wandb, "trackio": in_trackio}


def read(run, packages):
    sink_id = json.loads((run / "sinks.json").read_text())["id"]
    there = {name: READERS[name](run, sink_id) for name in packages}
    return {n: sorted((t, s, shown(v)) for t, s, v in p) for n, p in there.items()}


if __name__ == "__main__":
    run, packages, first, last, kill = sys.argv[1:]
    run, packages = Path(run), tuple(packages.split(","))
    lines = report(run, packages, int(first), int(last), kill)
    print(json.dumps([lines, read(run, packages)]))
