"""The command that measures what each way to hold a target still costs.

    python -m tests.benchmarks.targets
    python -m tests.benchmarks.targets --rounds 40

An update of batch 64 with an MLP 64-64, sixteen in a call and one in a call, of agents that take
turns in one process. Printed is the time of each way over that without, the median of the rounds'
ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

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


class _Agent:
    """Makes updates of one kind."""

    def __init__(self, fused: int, settings: dict[str, Any]) -> None:
        from targetnet.agents.config.model import DqnConfig
        from targetnet.agents.dqn.agent import DqnAgent

        config = DqnConfig(updates_per_learn=fused, **(_SHAPE | settings))
        self._agent, self._fused = DqnAgent(config, (4,), np.float32, 2), fused
        rng = np.random.default_rng(0)
        for t in range(2_000):
            observation = rng.normal(size=(1, 4)).astype(np.float32)
            reward = np.ones(1, np.float32)
            self._agent.step(observation, reward, np.zeros(1, bool), np.array([t % 100 == 0]))

    def seconds(self, updates: int) -> float:
        """Seconds of an update, over about so many."""
        calls = updates // self._fused
        began = time.perf_counter()
        for _ in range(calls):
            self._agent.learn(self._fused)
        return (time.perf_counter() - began) / (calls * self._fused)


def measure(fused: int, rounds: int, updates: int) -> dict[str, float]:
    """Returns way -> median ratio to an update without any."""
    agents = {name: _Agent(fused, settings) for name, settings in ({"": {}} | _WAYS).items()}
    found: dict[str, list[float]] = {name: [] for name in _WAYS}
    for agent in agents.values():
        agent.seconds(updates)
    for _ in range(rounds):
        times = {name: agent.seconds(updates) for name, agent in agents.items()}
        for name, ratios in found.items():
            ratios.append(times[name] / times[""])
    return {name: statistics.median(ratios) for name, ratios in found.items()}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--updates", type=int, default=1_600)
    options = parser.parse_args()
    one, sixteen = (measure(k, options.rounds, options.updates) for k in (1, 16))
    print("| way | 16 updates in a call | one |")
    print("|---|---|---|")
    for name in _WAYS:
        print(f"| `{name}` | {sixteen[name]:.2f} | {one[name]:.2f} |")
    print(f"{processor()}, {options.rounds} rounds of {options.updates:,} updates")


if __name__ == "__main__":
    main()
