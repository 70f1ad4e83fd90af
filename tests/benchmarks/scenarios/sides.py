"""The workers of several scenarios, and the work that is the same for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.benchmarks.scenarios.kinds import PEER, Worker

# Training: the same work for everybody. Epsilon is what a schedule ends with: a random action
# costs next to nothing, and most of a run is not random.
_WORK = {
    "batch_size": 64, "capacity": 10_000, "learn_start": 1_000, "sync_period": 500,
    "epsilon": 0.05, "hidden": (64, 64), "warm_up": 2_000,
}  # fmt: skip
CONFIG = {
    "env_id": "CartPole-v1", "hidden": (64, 64), "batch_size": 64, "replay_capacity": 10_000,
    "learn_start": 1_000, "sync_period": 500, "learning_rate": 1e-3, "epsilon": 0.05,
    "past_states": 0,
}  # fmt: skip


def ours(
    learn_period: int, updates: int, *, cores: int = 1, slack: int = 0, **config: Any
) -> Worker:
    """Training on one core, if nothing else is said."""
    phases = {"learn_period": learn_period, "updates_per_learn": updates}
    setup = {"kind": "train", "config": CONFIG | phases | config, "warm_up": 2_000}
    return Worker("ours", setup, cores=cores, updates=updates / learn_period, slack=slack)


def peer(program: str, venv: str, learn_period: int, **setup: Any) -> Worker:
    setup = _WORK | {"kind": "train", "learn_period": learn_period} | setup
    return Worker(program, setup, venv, PEER, updates=1 / learn_period)


def with_checker(worker: Worker, checker: bool) -> Worker:
    return replace(worker, setup={**worker.setup, "checker": checker})


BARE = Worker("floors", {"kind": "env", "envs": 1})


def learner(updates: int, **config: Any) -> Worker:
    """Updates alone, on CartPole's shapes."""
    setup = {
        "kind": "learn", "config": CONFIG | {"updates_per_learn": updates} | config,
        "shape": (4,), "dtype": "float32", "actions": 2, "warm_up": 64,
    }  # fmt: skip
    return Worker("ours", setup, updates=1)
