"""Trains one config with many seeds and prints the table of final greedy returns.

    python -m tests.learning.seeds cartpole --seeds 10 --jobs 4

Each seed is a process of its own, so a seed's result does not depend on how many run at once.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


def final_return(config: str, seed: int, directory: Path) -> float:
    """Mean of the final greedy evaluation that `targetnet train` writes down."""
    run = directory / f"{config}-{seed}"
    command = [sys.executable, "-m", "agents.cli", "train", config, "--seed", str(seed)]
    subprocess.run([*command, "--run", str(run)], check=True, stdout=subprocess.DEVNULL)
    return json.loads((run / "result.json").read_text())["mean"]


def final_returns(config: str, seeds: int, jobs: int) -> list[float]:
    """One per seed 0 .. seeds-1."""
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(jobs) as pool:
        return list(
            pool.map(lambda seed: final_return(config, seed, Path(directory)), range(seeds))
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    returns = final_returns(args.config, args.seeds, args.jobs)
    print(f"| {args.config} | " + " | ".join(f"seed {s}" for s in range(args.seeds)) + " | mean |")
    print("|---" * (args.seeds + 2) + "|")
    print("| | " + " | ".join(f"{r:.1f}" for r in returns) + f" | {np.mean(returns):.1f} |")


if __name__ == "__main__":
    main()
