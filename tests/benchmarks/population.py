"""The command that measures a population beside as many processes, on one core.

    python -m tests.benchmarks.population
    python -m tests.benchmarks.population --members 16 --rounds 3 --root ../another-checkout

Agents that make one update for each env step of CartPole (MLP 64-64, batch 64, 10,000 rows). First
the population in one process, then the single runs all at once, each a process of its own, then
again. What counts is the CPU time of an env step while all are training: what one core does in a
second follows from it. --root says which checkout the single runs are of, by default this one.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_SETTINGS: dict[str, Any] = {
    "env_id": "CartPole-v1", "hidden": (64, 64), "batch_size": 64, "updates_per_learn": 1,
    "learn_period": 1, "num_envs": 1, "replay_capacity": 10_000, "learning_rate": 1e-3,
    "sync_period": 500, "learn_start": 500, "epsilon": 0.05, "eval_period": 1_000_000_000,
    "loss": "huber",
}  # fmt: skip
_WARM_UP = 2_000  # env steps before the clock starts


def work(members: int, steps: int) -> None:
    """Trains a population, or a single run if `members` is 0; prints its figures as JSON."""
    import targetnet

    agents = members or 1
    first, last = _WARM_UP * agents, (steps - 100) * agents
    ticks, clock = 0, {}

    def on_tick(agent: Any, tick: Any) -> None:
        nonlocal ticks
        ticks += 1
        if ticks in (first, last):
            clock[ticks] = time.process_time()

    config = targetnet.DqnConfig(**_SETTINGS, env_steps=steps)
    with tempfile.TemporaryDirectory() as room:
        how: dict[str, Any] = {"on_tick": on_tick, "console": None}
        if members:
            targetnet.train_population(config, Path(room) / "run", seeds=members, **how)
        else:
            targetnet.train(config, Path(room) / "run", **how)
    microseconds = (clock[last] - clock[first]) / (last - first) * 1e6  # of a step of one agent
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"us": microseconds, "mib": most}))


def measure(processes: int, members: int, steps: int, core: int, root: Path) -> tuple[float, float]:
    """Returns the mean of the microseconds of an env step, and the MiB of all processes."""
    call = ["taskset", "-c", str(core), sys.executable, str(Path(__file__).resolve())]
    environment = os.environ | {"PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}
    begun = [
        subprocess.Popen(
            [*call, str(members), str(steps)], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        for _ in range(processes)
    ]  # fmt: skip
    told = [json.loads(process.communicate()[0].splitlines()[-1]) for process in begun]
    return statistics.mean(one["us"] for one in told), sum(one["mib"] for one in told)


def main(
    members: int = 16, rounds: int = 3, steps: int = 8_000, core: int = 0, root: Path = _ROOT
) -> None:
    """Measure a population beside as many processes, on one core.

    Args:
      members: agents on each side.
      rounds: how often each side is measured.
      steps: env steps of each agent.
      core: number of the core that both sides run on.
      root: checkout that the single runs are of.
    """
    ratios = []
    for number in range(rounds):
        together, memory = measure(1, members, steps, core, _ROOT)
        apart, memory_apart = measure(members, 0, steps, core, root)
        ratios.append(apart / together)
        print(
            f"round {number + 1}: together {together:.0f} us of an env step, {memory:,.0f} MiB; "
            f"apart {apart:.0f} us, {memory_apart:,.0f} MiB",
            flush=True,
        )
    print(
        f"{members} members / {members} processes: {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit():
        work(*map(int, sys.argv[1:]))
    else:
        import tyro

        tyro.cli(main)
