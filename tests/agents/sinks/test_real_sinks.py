"""MLflow, Weights & Biases and Trackio themselves, in local storage: no point twice, none lost."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from targetnet.agents.sinks.choice import PACKAGES
from targetnet.rl_core.board.read_events import read_scalars
from tests.agents.sinks.real_sinks import INSTALLED, environ, expected, shown

pytestmark = pytest.mark.slow  # each imports its package in several processes, one after the other
ROOT = Path(__file__).parents[3]
MODULE = "tests.agents.sinks.real_sinks"
KILLED = -9


def call(home, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", MODULE, *map(str, arguments)],
        cwd=home,
        env=environ(home) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """A run that is killed twice and goes on twice, as its packages see it, and what it said."""
    if not INSTALLED:
        pytest.skip("none of the packages is installed")
    home = tmp_path_factory.mktemp("home")
    run, packages = home / "cartpole-1", ",".join(INSTALLED)
    run.mkdir()
    first = call(home, run, packages, 10, 200, "now")
    assert first.returncode == KILLED, first.stderr
    (events,) = run.glob("events.*")  # the checkpoint was taken here, at env step 200
    size = events.stat().st_size
    second = call(home, run, packages, 210, 900, "later")
    assert second.returncode == KILLED, second.stderr
    # A resume from the checkpoint of env step 200 drops what came after it from the event files.
    [path.unlink() for path in run.glob("events.*") if path != events]
    os.truncate(events, size)
    third = call(home, run, packages, 210, 1_200, "-")
    assert third.returncode == 0, third.stderr
    lines, there = json.loads(third.stdout)
    return there, lines, third.stderr


@pytest.fixture(params=PACKAGES)
def package(request):
    if request.param not in INSTALLED:
        pytest.skip(f"{request.param} is not installed: pip install 'targetnet[{request.param}]'")
    return request.param


def test_after_two_kills_each_point_is_there_once(reported, package):
    there = [tuple(point) for point in reported[0][package]]
    more = [("result/mean", 1_200, "7.0")]
    if package == "mlflow":
        more.append(("finished", 0, "1.0"))
    assert there == sorted([*expected(1_200), *more])


def test_a_package_says_where_it_writes_and_nothing_else(reported, package):
    _, lines, errors = reported
    said = [line for line in lines if line.startswith(package)]
    places = {"mlflow": "sqlite:///", "wandb": "(offline; wandb sync", "trackio": "targetnet.db"}
    assert places[package] in said[-1]
    assert errors == ""


def test_without_an_api_key_wandb_is_offline_and_says_so(reported):
    if "wandb" not in INSTALLED:
        pytest.skip("wandb is not installed")
    assert "wandb: no API key and no WANDB_MODE, so the run is offline there" in reported[1]


SETTINGS = [
    "hidden=[8]", "batch_size=8", "replay_capacity=1000", "learn_start=50", "xla=false",
    "eval_period=5000", "eval_episodes=1", "final_eval_episodes=1", "log_period=100",
    "checkpoint_seconds=0", "checkpoint_steps=1700", "env_steps=40000",
]  # fmt: skip


def in_event_files(run):
    return sorted(
        [tag, row.env_step, shown(value)]
        for path in run.glob("events.*")
        for row in read_scalars(path)
        for tag, value in row.values.items()
        if not tag.startswith("speed/")  # of the wall clock: the first session's stays
    )


def killed_after(home, env_steps, arguments):
    """Runs `targetnet ARGUMENTS`, and kills it once it reports everywhere and is so far."""
    command = [sys.executable, "-W", "ignore", "-m", "targetnet.agents.cli", *arguments]
    output, more = home / "output.txt", {"PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    with output.open("w") as file:
        process = subprocess.Popen(
            command, cwd=home, env=environ(home) | more, stdout=file, stderr=file,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    while process.poll() is None:
        said = output.read_text()
        steps = [line.split()[2].strip(":") for line in said.splitlines() if "step" in line[:9]]
        reached = steps and int(steps[-1].replace(",", "")) >= env_steps
        if reached and all(f"\n{name}: " in said for name in INSTALLED):
            process.kill()
        time.sleep(0.05)
    return process.wait(), output.read_text()


@pytest.mark.slow
def test_a_run_that_is_killed_twice_has_each_point_of_its_event_files_once_in_each_package(
    tmp_path,
):
    if not INSTALLED:
        pytest.skip("none of the packages is installed")
    run = tmp_path / "cartpole-1"
    train = ["train", "cartpole", "--run", "cartpole-1", "--log-to", *INSTALLED]
    for env_steps, arguments in (
        (4_000, [*train, "--set", *SETTINGS]),
        (16_000, ["resume", "cartpole-1"]),
    ):
        code, said = killed_after(tmp_path, env_steps, arguments)
        assert code == KILLED, said
    code, said = killed_after(tmp_path, 1_000_000, ["resume", "cartpole-1"])
    assert code == 0 and "resumed at env step" in said
    done = subprocess.run(
        [sys.executable, "-c", READ, str(run), *INSTALLED],
        cwd=tmp_path,
        env=environ(tmp_path) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    wanted = in_event_files(run)
    assert len(wanted) > 5_000
    for name, points in json.loads(done.stdout).items():
        there = [p for p in points if p[0].split("/")[0] not in ("speed", "result", "finished")]
        assert there == wanted, name


READ = """
import json, sys
from pathlib import Path
from tests.agents.sinks.real_sinks import read
print(json.dumps(read(Path(sys.argv[1]), sys.argv[2:])))
"""
