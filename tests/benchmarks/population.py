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
from dataclasses import dataclass
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


class _Window:
    """CPU time of this process from one time step to a later one, of all agents in it.

    Args:
      agents: how many; steps: of each of them.
    """

    def __init__(self, agents: int, steps: int) -> None:
        self._first, self._last = _WARM_UP * agents, (steps - 100) * agents
        self._ticks, self._began, self.seconds = 0, 0.0, 0.0

    def on_tick(self, agent: Any, tick: Any) -> None:
        self._ticks += 1
        if self._ticks == self._first:
            self._began = time.process_time()
        if self._ticks == self._last:
            self.seconds = time.process_time() - self._began

    @property
    def of_a_step(self) -> float:
        """Microseconds of a time step of one agent."""
        return self.seconds / (self._last - self._first) * 1e6


def work(members: int, steps: int) -> None:
    """Trains a population, or a single run if `members` is 0; prints its figures as JSON."""
    import targetnet

    config = targetnet.DqnConfig(**_SETTINGS, env_steps=steps)
    window = _Window(members or 1, steps)
    with tempfile.TemporaryDirectory() as room:
        path = Path(room) / "run"
        if members:
            how: dict[str, Any] = {"seeds": members, "on_tick": window.on_tick, "console": None}
            targetnet.train_population(config, path, **how)
        else:
            targetnet.train(config, path, on_tick=window.on_tick, console=None)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"us": window.of_a_step, "mib": most}))


@dataclass(frozen=True)
class PopulationBench:
    """Measure a population beside as many processes, on one core."""

    members: int = 16
    """Agents on each side."""
    rounds: int = 3
    """How often each side is measured."""
    steps: int = 8_000
    """Env steps of each agent."""
    core: int = 0
    """Number of the core that both sides run on."""
    root: Path = _ROOT
    """Checkout that the single runs are of."""

    def __call__(self) -> None:
        together, apart = [], []
        for number in range(self.rounds):
            (population,) = self._measured(1, self.members, _ROOT)
            singles = self._measured(self.members, 0, self.root)
            together.append(population["us"])
            apart.append(statistics.mean(single["us"] for single in singles))
            print(
                f"round {number + 1}: together {together[-1]:.0f} us of an env step, "
                f"{population['mib']:,.0f} MiB; apart {apart[-1]:.0f} us, "
                f"{sum(single['mib'] for single in singles):,.0f} MiB",
                flush=True,
            )
        ratios = sorted(a / t for a, t in zip(apart, together, strict=True))
        print(
            f"{self.members} members / {self.members} processes: "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )

    def _measured(self, processes: int, members: int, root: Path) -> list[dict[str, Any]]:
        call = [sys.executable, str(Path(__file__).resolve()), str(members), str(self.steps)]
        environment = os.environ | {"PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}
        begun = [
            subprocess.Popen(
                ["taskset", "-c", str(self.core), *call], env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
            for _ in range(processes)
        ]  # fmt: skip
        return [json.loads(of.communicate()[0].splitlines()[-1]) for of in begun]


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit():
        work(*map(int, sys.argv[1:]))
    else:
        import tyro

        tyro.cli(PopulationBench, description=__doc__)()
