"""`kill -9` around the exchanges of a population."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_twenty_kills_leave_no_trace():
    done = subprocess.run(
        [sys.executable, "-m", "tests.agents.population.exchange_kills", "--kills", "20"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "20 kills at work" in done.stdout
