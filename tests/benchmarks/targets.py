"""The command that measures what each way to hold a target still costs.

    python -m tests.benchmarks.targets
    python -m tests.benchmarks.targets --rounds 40

An update of batch 64 with an MLP 64-64, sixteen in a call and one in a call, of agents that take
turns in one process. Printed is the time of each way over that without, the median of the rounds'
ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tyro

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.rl_core.machine import processor

_SHAPE: dict[str, Any] = {
    "hidden": (64, 64), "batch_size": 64, "replay_capacity": 20_000, "past_states": 0,
    "loss": "huber", "sync_period": 500, "learning_rate": 1e-3,
}  # fmt: skip
_WAYS: dict[str, dict[str, Any]] = {
    "online_weight": {"online_weight": 0.5},
    "min_weight": {"min_weight": 1.0},
    "functional_weight": {"functional_weight": 0.5},
    "min_weight, functional_weight and proximal_weight": {
        "min_weight": 1.0, "functional_weight": 0.5, "proximal_weight": 0.5,
    },
    "proximal_weight": {"proximal_weight": 0.5},
    'on_sync = ["reset_moments"]': {"on_sync": ("reset_moments",)},
    "sync_growth": {"sync_growth": 0.01},
    "sync_fit": {"sync_fit": 0.1},
    "sync_distance": {"sync_distance": 0.1},
    "chain = 3": {"chain": 3},
    'chain = 5, chain_torso = "shared"': {"chain": 5, "chain_torso": "shared"},
}  # fmt: skip


def timed_agent(fused: int, updates: int, settings: dict[str, Any]) -> Callable[[], float]:
    """Returns a function that makes so many updates, and returns the seconds of each."""
    agent = DqnAgent(DqnConfig(updates_per_learn=fused, **_SHAPE, **settings), (4,), np.float32, 2)
    rng = np.random.default_rng(0)
    for t in range(2_000):
        observation = rng.normal(size=(1, 4)).astype(np.float32)
        agent.step(observation, np.ones(1, np.float32), np.zeros(1, bool), np.array([t % 100 == 0]))
    calls = updates // fused

    def seconds() -> float:
        began = time.perf_counter()
        for _ in range(calls):
            agent.learn(fused)
        return (time.perf_counter() - began) / (calls * fused)

    return seconds


def measure(fused: int, rounds: int, updates: int) -> dict[str, float]:
    """Returns way -> median ratio to an update without any."""
    ways = {"": {}} | _WAYS
    agents = {name: timed_agent(fused, updates, settings) for name, settings in ways.items()}
    for seconds in agents.values():
        seconds()
    times = [{name: seconds() for name, seconds in agents.items()} for _ in range(rounds)]
    return {name: statistics.median(of[name] / of[""] for of in times) for name in _WAYS}


def main(rounds: int = 30, updates: int = 1_600) -> None:
    """Measure what each way to hold a target still costs."""
    one, sixteen = (measure(fused, rounds, updates) for fused in (1, 16))
    print("| way | 16 updates in a call | one |")
    print("|---|---|---|")
    for name in _WAYS:
        print(f"| `{name}` | {sixteen[name]:.2f} | {one[name]:.2f} |")
    print(f"{processor()}, {rounds} rounds of {updates:,} updates")


if __name__ == "__main__":
    tyro.cli(main)
