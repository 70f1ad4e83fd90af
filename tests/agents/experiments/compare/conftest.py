"""A comparison whose runs are trained by a formula."""

import contextlib
from pathlib import Path
from typing import NamedTuple

import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.config.members import load_members
from targetnet.agents.experiments.compare import page
from targetnet.agents.experiments.compare.arms import FinishedArms
from targetnet.agents.experiments.places import ThisMachine
from targetnet.agents.experiments.store import FinishedRun
from targetnet.agents.experiments.training_job import TRAIN
from tests.agents.experiments.sweep.conftest import train

FILE = """
title = "When?"
text = "An introduction."
seeds = {first = 5000, count = 3}
tuning = {first = 0, count = 2}
together = 4
baseline = "hard"

[envs.CartPole]
config = "base.toml"
[envs.Other]
config = "base.toml"
seeds = {first = 5000, count = 2}
without = ["soft"]

[groups.hard]
label = "hard copies"
over = "sync_period"
values = [10, 100, 1000]
[groups.soft]
label = "soft copies"
over = "tau"
values = [1.0, 0.1]
at = [1, 10]
set = {sync_period = 1}
[groups.other]
label = "another"
over = "sync_period"
values = [20, 60]
choose = true
set = {double = false}
[groups.alone]
label = "one alone"
set = {sync_period = 5}

[[sections]]
title = "The curve"
text = "Words."
curves = ["hard", "soft"]
axis = "period"
signs = ["hard", "other"]
[[sections]]
title = "Does it help?"
differences = ["other", "alone"]
"""


class Trained(NamedTuple):
    """What a child that trains by the formula would be, once it has ended."""

    code: int
    how: str = "exit code 1"

    def poll(self):
        return self.code


def trained(fail):
    """Starts no child: trains at once, but the members with the seed `fail`, or "all"."""

    def start(place, name, command, log, portable, say):
        file, _, run, *_ = command[len(TRAIN) :]
        members, line = load_members(file), ""
        if fail == "all":
            line = "the env fell over"
        elif members is None:
            train(Path(run), load_config(file))
        else:
            failed = [name for name, of in members.configs.items() if str(of.seed) == fail]
            for name, config in members.configs.items():
                if name not in failed:
                    train(Path(run) / name, config)
            line = f"{failed[0]} has diverged" if failed else ""
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"targetnet: {line}" if line else "")
        return Trained(int(bool(line)))

    return start


def finished_run(*curve, env_steps):
    """A run with this curve."""
    return FinishedRun(
        agent="a", env_id="e", settings={}, seed=0, env_steps=env_steps, updates=5,
        mean=curve[-1][1], curve=[*curve], versions={}, processor="p", date="2026-01-01",
    )  # fmt: skip


class ArmsByHand(FinishedArms):
    """(env, arm) -> what has its `seeds`."""

    def __init__(self, arms):
        self._arms = arms


def no_picture(title, lines, over, path):
    return path.with_suffix(".png"), path.with_suffix(".svg")


@contextlib.contextmanager
def comparison_in(folder, *, pictures=False):
    """In a directory; see `comparison`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if not pictures:
            patch.setattr(page, "draw", no_picture)
        (folder / "base.toml").write_text('base = "cartpole"\nsync_period = 50\nenv_steps = 1000\n')

        def write(*changes, fail=""):
            patch.setattr(ThisMachine, "start", trained(fail))
            text = FILE
            for before, after in changes:
                assert before in text
                text = text.replace(before, after, 1)
            (folder / "periods.toml").write_text(text)
            return Path("periods.toml")

        write()
        yield write


@pytest.fixture
def comparison(tmp_path):
    """Gives the path of a comparison, and a function that writes it with changes."""
    with comparison_in(tmp_path) as write:
        yield write
