"""The command that measures short runs on a cluster beside the same runs at home.

    python -m tests.benchmarks.cluster --seeds 8 --rounds 3

CartPole for 6,000 env steps, two runs at once: at home with `--jobs 2`, and on two Ray nodes of one
CPU each on this machine, in turns. The nodes are started before. Wall clock of the whole command.
Every digest has to be the same in all rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tyro

from targetnet.rl_core.machine import processor
from tests.agents.cluster.nodes import Nodes

_ROOT = Path(__file__).parents[2]
_CONFIG = 'base = "cartpole"\nenv_steps = 6_000\ncheckpoint_steps = 2_000\n'


def measure(seeds: int, options: list[str]) -> tuple[float, dict[str, str]]:
    """Returns the seconds of the command, and the digests of its runs."""
    with tempfile.TemporaryDirectory() as place:
        config, out = Path(place) / "short.toml", Path(place) / "out"
        config.write_text(_CONFIG)
        words = ["results", str(config), "--seeds", str(seeds), "--out", str(out), *options]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "targetnet.agents.cli", *words],
            cwd=_ROOT, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        paths = (out / "runs" / "short").glob("*/digest.json")
        return seconds, {p.parent.name: json.loads(p.read_text())["digest"] for p in paths}


def main(seeds: int = 8, rounds: int = 3) -> None:
    """Measure short runs on a cluster beside the same runs at home."""
    times: dict[str, list[float]] = {"home": [], "cluster": []}
    found = []
    with Nodes(2) as nodes:
        ways = {"home": ["--jobs", "2"], "cluster": ["--ray", nodes.address]}
        for number in range(rounds):
            for name, options in ways.items():
                seconds, digests = measure(seeds, options)
                times[name].append(seconds)
                found.append(digests)
                print(f"round {number + 1}, {name}: {seconds:.1f} s", flush=True)
    assert all(digests == found[0] for digests in found), "digests differ"
    for name, seconds_of_rounds in times.items():
        print(f"{name}: median {statistics.median(seconds_of_rounds):.1f} s of {rounds}")
    print(f"{processor()}; load {os.getloadavg()[1]:.1f} in five minutes")


if __name__ == "__main__":
    tyro.cli(main)
