"""The workers of several scenarios, and the work that is the same for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.benchmarks.scenarios.kinds import JAX, PEER, Worker

# Training: the same work for everybody. Epsilon is what a schedule ends with: a random action
# costs next to nothing, and most of a run is not random.
_WORK = {
    "batch_size": 64, "capacity": 10_000, "learn_start": 1_000, "sync_period": 500,
    "epsilon": 0.05, "hidden": (64, 64), "warm_up": 2_000,
}  # fmt: skip
CONFIG = {
    "env_id": "CartPole-v1", "hidden": (64, 64), "batch_size": 64, "replay_capacity": 10_000,
    "learn_start": 1_000, "sync_period": 500, "learning_rate": 1e-3, "epsilon": 0.05,
    "past_states": 0, "loss": "huber",
}  # fmt: skip


def ours(
    learn_period: int, updates: int, *, cores: int = 1, slack: int = 0, **config: Any
) -> Worker:
    """Training on one core, if nothing else is said."""
    phases = {"learn_period": learn_period, "updates_per_learn": updates}
    setup = {"kind": "train", "config": CONFIG | phases | config, "warm_up": 2_000}
    return Worker("ours", setup, cores=cores, updates=updates / learn_period, slack=slack)


def peer(program: str, venv: str, learn_period: int, *, updates: int = 1, **setup: Any) -> Worker:
    """Training with `updates` at once, every `learn_period` env steps."""
    phases = {"learn_period": learn_period, "updates_per_learn": updates}
    setup = _WORK | {"kind": "train"} | phases | setup
    slack = updates if updates > 1 else 0
    return Worker(program, setup, venv, PEER, updates=updates / learn_period, slack=slack)


def yardstick(
    script: str, *arguments: str, count: int, updates: float = 1.0, slack: int = 0
) -> Worker:
    """An unchanged script of yardsticks/, which learns from `count` env steps in a turn."""
    setup = {"script": script, "arguments": arguments, "checker": False}
    return Worker("yardstick", setup, "jax", JAX, updates=updates, slack=slack, count=count)


def per_step(learn_period: int) -> Worker:
    """The yardstick with one update every `learn_period` env steps."""
    return yardstick(
        "jax_per_step_dqn", "--learn-period", str(learn_period), count=30_000,
        updates=1 / learn_period, slack=1,
    )  # fmt: skip


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
