"""A sweep of real runs that is killed again and again is the sweep that nothing killed."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("optuna")
pytest.importorskip("matplotlib")

# Small enough that starting takes longest, so that kills come at every stage.
COMMAND = (
    sys.executable, "-m", "targetnet.agents.cli", "sweep", "cartpole",
    "--over", "sync_period=5..500:log", "learning_rate=1e-4..1e-2:log",
    "--set", "env_steps=1500", "eval_period=300", "eval_episodes=1", "final_eval_episodes=2",
    "hidden=[8]", "batch_size=8", "learn_start=100", "xla=false", "checkpoint_seconds=0.1",
    "--trials", "6", "--jobs", "2", "--best", "1", "--fresh-seeds", "2", "--dir",
)  # fmt: skip
KILLS = 12


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_sweep_that_is_killed_at_random_moments_is_the_one_that_nothing_killed(tmp_path):
    begin = time.monotonic()
    subprocess.run([*COMMAND, str(tmp_path / "whole")], check=True, capture_output=True)
    usual = time.monotonic() - begin
    rng, kills = random.Random(0), 0
    while True:
        process = subprocess.Popen(
            [*COMMAND, str(tmp_path / "killed")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        # After the last kill it goes on to its end.
        if kills == KILLS:
            said, _ = process.communicate()
            assert process.returncode == 0, said
            break
        try:
            process.wait(rng.uniform(1.0, usual / 3))
        except subprocess.TimeoutExpired:
            kills += 1
            _kill(process, rng)
        said, _ = process.communicate()
        assert "Traceback" not in said, said
        _wait_for_the_end_of_children(tmp_path / "killed")
        if process.returncode == 0:
            break
    assert kills >= 2, "it came to its end before it was killed a few times"
    assert _outcome(tmp_path / "killed") == _outcome(tmp_path / "whole")


def _kill(process, rng):
    """Ends the sweep, most of the time without a warning."""
    process.send_signal(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]))


def _wait_for_the_end_of_children(directory: Path) -> None:
    """Waits until no process names a file of the sweep: they end with their parent."""
    left = ["?"]
    for _ in range(600):
        left = [number for number, line in _processes() if str(directory).encode() in line]
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"processes that go on for ever: {left}")


def _processes():
    """Yields the number and the command line of each process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield entry.name, (entry / "cmdline").read_bytes()


def _outcome(directory: Path):
    """Returns all that the sweep came to: trials with their digests, fresh seeds, the winner."""
    digests = {
        str(path.relative_to(directory)): json.loads(path.read_text())["digest"]
        for path in sorted(directory.glob("**/digest.json"))
    }
    page = (directory / "sweep.md").read_text()
    winner = (directory / "winner.toml").read_text()
    # Times are another matter.
    table = [line for line in page.splitlines() if line.startswith("|")]
    return digests, [re.sub(r"\d+ (min|s)\b|\d+ s", "-", line) for line in table], winner
