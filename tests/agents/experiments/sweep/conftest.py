"""A sweep's plan, and runs that were trained by a formula."""

import math
from pathlib import Path

import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.config.members import load_members
from targetnet.agents.experiments.sweep.plan import SweepPlan
from targetnet.agents.saved.directory import EndDigest, RunDir, RunResult
from targetnet.rl_core.board.events import EventWriter

EVALUATIONS = 4


@pytest.fixture
def plan():
    def plan(*over, **more):
        base = load_config("cartpole", ["env_steps=1000", "eval_period=200"])
        given = {
            "over": list(over or ("sync_period=10..1000:log", "batch_size=32,64,128")),
            "sampler": "tpe", "seed": 0, "seeds": 1, "score": "curve", "prune": False,
            "together": 1, "ahead": 2,
        } | more  # fmt: skip
        return SweepPlan(config=base.model_dump(mode="json", exclude_none=True), **given)

    return plan


def final(config):
    """The return that an agent of this config comes to: the best period is 100."""
    period = config.sync_period if isinstance(config.sync_period, int) else 100
    return round(500 - 100 * abs(math.log10(period / 100)) + config.seed % 7, 3)


def train(run: Path, config, evaluations: int = EVALUATIONS, *, whole: bool = True) -> None:
    """Leaves the files that a run of this config leaves."""
    directory = RunDir(run)
    if not (run / "config.toml").exists():
        RunDir.create(run, "trial", config)
        add_evaluations(run, config, range(1, evaluations + 1))
    if whole and not directory.has_result():
        add_evaluations(run, config, [EVALUATIONS + 1])  # the final one is on the curve, too
    if whole and not directory.has_result():
        directory.save_digest(
            EndDigest(digest=f"{config.seed}-{config.sync_period}", tick=1, env_step=1, update=1)
        )
        mean = final(config)
        numbers = {"mean": mean, "std": 1.0, "min": mean - 1, "max": mean + 1, "seconds": 2.0}
        directory.save_result(RunResult(env_steps=1_000, updates=5, **numbers))


def train_group(job, **how) -> None:
    """Does what the process of a job does."""
    config, run = Path(job.command[-4]), Path(job.command[-2])
    assert job.command[-3] == "--run" and job.command[-1] == "--resume"
    members = load_members(config)
    if members is None:
        train(run, load_config(config), **how)
        return
    for name, of in members.configs.items():
        train(run / name, of, **how)


def add_evaluations(run: Path, config, numbers) -> None:
    """Adds evaluations to the run's curve; there are EVALUATIONS before the final one."""
    with EventWriter(run) as events:
        for number in numbers:
            share = number / (EVALUATIONS + 1)
            events.scalars({"evaluation/return": final(config) * share}, 200 * number)
