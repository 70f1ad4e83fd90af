"""MLflow, Weights & Biases and Trackio themselves, in local storage: no point twice, none lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.run.sink_choice import PACKAGES
from tests.agents.run.real_sinks import INSTALLED, environ, expected

ROOT = Path(__file__).parents[3]
MODULE = "tests.agents.run.real_sinks"
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
