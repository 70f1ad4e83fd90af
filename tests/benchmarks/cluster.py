"""The command that measures short runs on a cluster beside the same runs at home.

    python -m tests.benchmarks.cluster
    python -m tests.benchmarks.cluster --seeds 8 --rounds 3

CartPole for 6,000 env steps, two runs at once: at home with `--jobs 2`, and on two Ray nodes of one
CPU each on this machine, in turns. The nodes are started before. Wall clock of the whole command;
with the cluster also the CPU time of the command itself, which keeps the directories up. Every
digest has to be the same in all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from targetnet.rl_core.machine import processor
from tests.agents.cluster.nodes import Nodes

_ROOT = Path(__file__).parents[2]
_CONFIG = 'base = "cartpole"\nenv_steps = 6_000\ncheckpoint_steps = 2_000\n'


def one(seeds: int, place: Path, more: list[str]) -> tuple[float, float, dict[str, str]]:
    """Returns seconds, CPU seconds of the command and of its children, and the digests."""
    config = place / "short.toml"
    config.write_text(_CONFIG)
    words = ["results", str(config), "--seeds", str(seeds), "--out", str(place / "out"), *more]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "targetnet.agents.cli", *words], cwd=_ROOT, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}")
    seconds = time.perf_counter() - began
    return seconds, usage.ru_utime + usage.ru_stime, _digests(place / "out")


def _digests(out: Path) -> dict[str, str]:
    paths = (out / "runs" / "short").glob("*/digest.json")
    return {path.parent.name: json.loads(path.read_text())["digest"] for path in paths}


def main() -> None:
    """Measures, and prints a line for each round and the medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    times: dict[str, list[float]] = {"home": [], "cluster": []}
    found = []
    with Nodes(2) as nodes:
        ways = {"home": ["--jobs", "2"], "cluster": ["--ray", nodes.address]}
        for number in range(options.rounds):
            for name, more in ways.items():
                with tempfile.TemporaryDirectory() as place:
                    seconds, cpu, digests = one(options.seeds, Path(place), more)
                times[name].append(seconds)
                found.append(digests)
                line = f"round {number + 1}, {name}: {seconds:.1f} s"
                # At home that of its children, which train, is in it too.
                line += f", own CPU {cpu:.1f} s" if name == "cluster" else ""
                print(line, flush=True)
    assert all(digests == found[0] for digests in found), "digests differ"
    for name, seconds in times.items():
        print(f"{name}: median {statistics.median(seconds):.1f} s of {options.rounds}")
    print(f"{processor()}; load {os.getloadavg()[1]:.1f} in five minutes")


if __name__ == "__main__":
    main()
