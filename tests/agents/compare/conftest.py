"""A comparison whose runs are trained by a formula."""

import sys
from pathlib import Path

import pytest

from targetnet.agents.compare import populations
from targetnet.agents.results import again

ROOT = Path(__file__).parents[3]
TRAINER = """
import sys
from pathlib import Path

sys.path.insert(0, {root!r})
from targetnet.agents.config.files import load_config
from targetnet.agents.config.members import load_members
from tests.agents.sweep.conftest import train

if {fail!r} == "all":
    sys.exit("targetnet: the env fell over")
file, _, run, *_ = sys.argv[1:]
members = load_members(file)
if members is None:
    train(Path(run), load_config(file))
else:
    failed = [name for name, of in members.configs.items() if str(of.seed) == {fail!r}]
    for name, config in members.configs.items():
        if name not in failed:
            train(Path(run) / name, config)
    if failed:
        sys.exit(f"targetnet: {{failed[0]}} has diverged")
"""
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


@pytest.fixture
def comparison(tmp_path, monkeypatch):
    """Gives the path of a comparison, and a function that writes it with changes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.toml").write_text('base = "cartpole"\nsync_period = 50\nenv_steps = 1000\n')

    def write(*changes, fail=""):
        trainer = tmp_path / "trainer.py"
        trainer.write_text(TRAINER.format(root=str(ROOT), fail=fail))
        for module in (populations, again):
            monkeypatch.setattr(module, "TRAIN", [sys.executable, str(trainer)])
        text = FILE
        for before, after in changes:
            assert before in text
            text = text.replace(before, after, 1)
        (tmp_path / "periods.toml").write_text(text)
        return Path("periods.toml")

    write()
    return write
