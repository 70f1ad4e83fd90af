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
    hits, runs = re.search(r"(\d+) of 50 kills hit .*; (\d+) runs", done.stdout).groups()
    assert int(hits) > 25 and int(runs) > 3


def test_a_few_kills_leave_no_trace():
    done = subprocess.run(
        [sys.executable, "-m", "tests.agents.kills", "--kills", "2", "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
