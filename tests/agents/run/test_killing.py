"""`kill -9` at random moments of a run's life."""

import re
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_fifty_kills_leave_no_trace():
    done = subprocess.run(
        [sys.executable, "-m", "tests.agents.kills", "--kills", "50"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    (runs,) = re.search(r"50 of \d+ processes were killed .*; (\d+) runs", done.stdout).groups()
    assert int(runs) >= 2


@pytest.mark.slow  # in the default run tests/agents/test_replaying.py kills one
def test_a_few_kills_leave_no_trace():
    done = subprocess.run(
        [sys.executable, "-m", "tests.agents.kills", "--kills", "2", "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kills"), [("torture", 34), ("one-poll", 20)])
def test_steered_runs_that_are_killed_come_to_the_same_end(kind, kills):
    done = subprocess.run(
        [sys.executable, "-m", "tests.agents.kills", f"--{kind}", "--kills", str(kills)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert f"{kills} of {kills} killed runs" in done.stdout
