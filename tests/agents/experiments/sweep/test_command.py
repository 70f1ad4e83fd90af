"""`targetnet sweep` as a user types it, with children that only say they trained."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import tyro
from rich.console import Console

from targetnet.agents.experiments import training_job
from targetnet.agents.experiments.store import read_rows
from targetnet.agents.experiments.sweep.command import Sweep, _held
from targetnet.agents.experiments.sweep.plan import read_plan
from targetnet.rl_core.control.files import FileLock
from targetnet.rl_core.errors import RlCoreError

pytest.importorskip("optuna")
pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[4]

# What `targetnet train` leaves, as far as a sweep sees it; "slow" waits until it is interrupted.
TRAINER = """
import os, signal, sys, time
from pathlib import Path
from unittest.mock import Mock

sys.path.insert(0, {root!r})
from targetnet.agents.config.files import load_config
from tests.agents.experiments.sweep.conftest import train

config, _, run, _ = sys.argv[1:]
run = Path(run)
if {slow!r}:
    Path({slow!r}).mkdir(exist_ok=True)
    (Path({slow!r}) / str(os.getpid())).touch()
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append(1))
    while not got:
        time.sleep(0.01)
    sys.exit(130)
if {fail!r}:
    sys.exit("targetnet: the env fell over")
train(run, load_config(config), evaluations=2)
"""


def trainer_in(folder, patch):
    """Gives a function that decides what the children do that train there."""

    def trainer(*, slow="", fail=""):
        path = folder / "trainer.py"
        path.write_text(TRAINER.format(root=str(ROOT), slow=slow, fail=fail))
        command = [sys.executable, str(path)]
        patch.setattr(training_job, "TRAIN", command)
        return command

    patch.chdir(folder)
    trainer()
    return trainer


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    return trainer_in(tmp_path, monkeypatch)


OVER = "--over", "sync_period=10..1000:log", "batch_size=32,64"
SHORT = "--set", "env_steps=1000", "eval_period=200"
FEW = "--trials", 4, "--best", 2, "--fresh-seeds", 2, "--jobs", 2


def sweep(*arguments, out=None):
    arguments = [str(a) for a in ("cartpole", *arguments)]
    return tyro.cli(Sweep, args=arguments)(Console(width=200, file=out))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a whole sweep, and what it printed."""
    folder, out = tmp_path_factory.mktemp("sweep"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        trainer_in(folder, patch)
        assert sweep(*OVER, *SHORT, *FEW, out=out) == 0
    return folder / "sweeps", out.getvalue()


@pytest.fixture
def swept(finished, trainer):
    """Lays a copy of that sweep in the test's directory; gives what was printed."""
    shutil.copytree(finished[0], "sweeps")
    return finished[1]


@pytest.mark.thorough
def test_trials_are_searched_and_the_best_are_trained_again(swept):
    page = Path("sweeps/cartpole/sweep.md").read_text()
    command = (
        "targetnet sweep cartpole --over sync_period=10..1000:log batch_size=32,64 "
        "--set env_steps=1000 eval_period=200 --trials 4 --jobs 2 --best 2 --fresh-seeds 2"
    )
    assert f"```\n{command}\n```" in page
    best_trials = page[page.index("## Best trials") : page.index("## All trials")]
    assert best_trials.count("| 2 |") == 2  # fresh seeds of two trials
    assert "| `sync_period` | 10 to 1000, log |" in page
    for name in ("fresh", "parallel", "history"):
        assert f"](sweep/{name}.png)" in page
        assert Path(f"sweeps/cartpole/sweep/{name}.png").read_bytes().startswith(b"\x89PNG")
    from targetnet.agents.config.files import load_config
    from targetnet.agents.experiments.sweep.command import _STUDY
    from targetnet.agents.experiments.sweep.plan import read_plan
    from targetnet.agents.experiments.sweep.study import Study

    directory = Path("sweeps/cartpole")
    best = Study(directory / _STUDY, read_plan(directory / "sweep.toml")).best()
    winner = load_config(directory / "winner.toml")
    assert winner.sync_period == best.params["sync_period"]
    rows = [row for _, row in read_rows(directory / "fresh" / "rows.jsonl") if "seed" in row]
    assert sorted(row["seed"] for row in rows) == [4000, 4000, 4001, 4001]
    values = ", ".join(f"{name} = {value}" for name, value in best.params.items())
    assert f"best trial: {best.number} ({values}), score {best.value:,.1f}" in swept
    assert "(4 / 4)" in swept
    assert f"With tuning seed {best.number} training ends with the digest" in " ".join(page.split())


@pytest.mark.thorough
def test_the_same_command_trains_nothing_again_and_writes_the_same_page(trainer, swept):
    page = Path("sweeps/cartpole/sweep.md").read_bytes()
    trainer(fail="yes")
    assert sweep(*OVER, *SHORT, *FEW) == 0
    assert Path("sweeps/cartpole/sweep.md").read_bytes() == page


@pytest.mark.thorough
def test_the_winner_is_verified(swept, capsys):
    assert sweep("--verify") == 0
    out = capsys.readouterr().out
    assert "identical" in out and "seed" in out
    assert sweep(*OVER, *SHORT, "--verify") == 0


@pytest.mark.thorough
def test_another_digest_is_told(swept):
    # The same program, but for the digest.
    conftest = (ROOT / "tests/agents/experiments/sweep/conftest.py").read_text()
    Path("other.py").write_text(conftest.replace('digest=f"', 'digest=f"other-'))
    path = Path("trainer.py")
    path.write_text(
        path.read_text().replace("from tests.agents.experiments.sweep.conftest", "from other")
    )
    with pytest.raises(RlCoreError, match="not the same: other-") as error:
        sweep("--verify")
    assert error.value.exit_code == 1


@pytest.mark.thorough
def test_ctrl_c_lets_the_children_save_and_the_same_command_goes_on(trainer, tmp_path):
    command = trainer(slow="at-work")
    code = (
        "import sys; from targetnet.agents.cli import main\n"
        "from targetnet.agents.experiments import training_job\n"
        f"training_job.TRAIN = {command!r}; sys.exit(main.main(sys.argv[1:]))"
    )
    arguments = ["sweep", "cartpole", *OVER, *SHORT, *map(str, FEW)]
    for number in (signal.SIGINT, signal.SIGKILL):
        shutil.rmtree("at-work", ignore_errors=True)
        child = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], text=True, stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while len(list(Path("at-work").glob("*"))) < 2:
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.05)
        at_work = [int(path.name) for path in Path("at-work").iterdir()]
        child.send_signal(number)
        out, _ = child.communicate(timeout=60)
        if number == signal.SIGINT:
            assert child.returncode == 130
            assert "interrupted; run the same command again to continue" in out
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}/status").exists() and "zombie" not in
                  Path(f"/proc/{pid}/status").read_text() for pid in at_work):  # fmt: skip
            assert time.monotonic() < deadline, "a child goes on without its parent"
            time.sleep(0.05)
    trainer()
    assert sweep(*OVER, *SHORT, *FEW) == 0
    assert "| 3 |" in Path("sweeps/cartpole/sweep.md").read_text()


BAD = [
    (("--trials", 0, *OVER), "--trials must be at least 1, got 0"),
    (("--jobs", 0, *OVER), "--jobs must be at least 1"),
    (("--first-fresh-seed", 999, *OVER), "--first-fresh-seed must be at least 1,000, got 999; see"),
    (("--seeds", 1001, *OVER), "--seeds must be at most 1,000, got 1,001"),
    (("--page", "page.txt", *OVER), "--page must be a .md file"),
    ((), "a sweep needs at least one key to search"),
    (("--over", "sync_perod=1..5"), "did you mean 'sync_period'?"),
    (("--sampler", "grid", *OVER), "--over sync_period: a grid wants a list of values"),
    (("--together", 2, *OVER), "--together 2: trials of one process share a graph"),
    (("--verify",), "sweeps/cartpole holds no sweep: it has no sweep.toml"),
    (("--verify", *OVER), "sweeps/cartpole holds no sweep: it has no sweep.toml"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_a_mistake_is_one_line_and_leaves_nothing(trainer, tmp_path, arguments, message):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RlCoreError) as error:
        sweep(*arguments)
    assert message in str(error.value) and error.value.exit_code == 2
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.thorough
def test_a_sweep_of_a_version_without_a_key_is_gone_on_with(swept):
    path = Path("sweeps/cartpole/sweep.toml")
    plan = read_plan(path)
    del plan.config["value_rescaling"]
    path.write_text(plan.text())
    assert sweep(*OVER, *SHORT, *FEW) == 0


@pytest.mark.thorough
def test_another_sweep_is_not_written_over(swept):
    files = {path: path.read_bytes() for path in Path("sweeps").rglob("*") if path.is_file()}
    for arguments, difference in (
        ((*OVER, *SHORT, *FEW, "--seeds", 2), "seeds is 1 there, not 2"),
        ((*OVER, "--set", "env_steps=2000", "eval_period=200", *FEW), "env_steps is 1000 there"),
        (("--over", "batch_size=32,64", *SHORT, *FEW), "over is ["),
        ((*OVER, *SHORT, *FEW, "--no-prune"), "prune is True there, not False"),
    ):
        with pytest.raises(RlCoreError, match="sweeps/cartpole holds another sweep: ") as error:
            sweep(*arguments)
        assert difference in str(error.value)
    assert files == {
        path: path.read_bytes() for path in Path("sweeps").rglob("*") if path.is_file()
    }


def test_a_directory_of_something_else_is_left_alone(trainer):
    Path("mine").mkdir()
    Path("mine/thesis.md").write_text("all of it")
    with pytest.raises(RlCoreError, match=r"mine holds something else: it has no sweep\.toml"):
        sweep(*OVER, *SHORT, *FEW, "--dir", "mine")
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.md"]


def test_a_sweep_that_was_killed_at_its_first_file_begins_again_and_leaves_nothing_of_it(tmp_path):
    for left in ("lock", ".sweep.toml.12.tmp"):
        (tmp_path / left).touch()
    with _held(tmp_path, Mock(text=lambda: "plan")):
        assert {path.name for path in tmp_path.iterdir()} == {"lock", "sweep.toml"}


@pytest.mark.thorough
def test_two_processes_do_not_share_a_sweep(swept):
    lock = FileLock(Path("sweeps/cartpole/lock"), "")
    with pytest.raises(RlCoreError, match="another process is at work on sweeps/cartpole"):
        sweep(*OVER, *SHORT, *FEW)
    lock.release()
    assert sweep(*OVER, *SHORT, *FEW) == 0


@pytest.mark.thorough
def test_a_sweep_of_failures_is_one_line(trainer):
    trainer(fail="yes")
    with pytest.raises(
        RlCoreError, match=r"the first [34] trials failed; the last one: trial \d f"
    ):
        sweep(*OVER, *SHORT, *FEW)


@pytest.mark.slow
def test_fewer_processes_than_at_first_make_the_same_trials(swept):
    assert sweep(*OVER, *SHORT, *FEW[:-1], 1, "--dir", "one", "--trials", 1) == 0
    Path("sweeps").rename("two")
    page = Path("two/cartpole/sweep.md").read_text()
    # Two ahead at the beginning, one at a time after that.
    shutil.rmtree("one")
    sweep(*OVER, *SHORT, *FEW, "--dir", "one", "--trials", 1)
    assert sweep(*OVER, *SHORT, *FEW[:-1], 1, "--dir", "one") == 0
    numbers = page[page.index("<details>") :]
    assert numbers in Path("one/sweep.md").read_text()
