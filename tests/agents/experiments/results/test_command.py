"""`targetnet results` as a user types it, with children that only say they trained."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tyro
from rich.console import Console

from targetnet.agents.experiments import training_job
from targetnet.agents.experiments.jobs import Job
from targetnet.agents.experiments.results.command import Results
from targetnet.agents.experiments.results.seeds import ConfigSeeds
from targetnet.agents.experiments.store import ResultStore
from targetnet.rl_core.errors import RlCoreError

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, trainer):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_job, "TRAIN", trainer)
    for name in ("good", "bad", "slow"):
        Path(f"{name}.toml").write_text('env_id = "CartPole-v1"\n')
    Path("lake.toml").write_text('env_id = "FrozenLake-v1"\n')


def results(*arguments):
    return tyro.cli(Results, args=[str(a) for a in arguments])(Console(width=200))


def rows(out="results"):
    return json.loads(Path(out, "table.json").read_text())["rows"]


def finished(agent, path="results/rows.jsonl"):
    return [*ResultStore(Path(path)).runs(agent)]


def calls(name, seed):
    return Path(f"results/runs/{name}/{seed}/calls").read_text().split()


@pytest.mark.thorough
def test_every_seed_is_trained_on_one_core_and_the_page_is_written(capsys):
    assert results("good.toml", "--seeds", 4, "--jobs", 2, "--page", "docs/results.md") == 0
    (row,) = rows()
    assert [seed["mean"] for seed in row["seeds"]] == [100, 200, 300, 400]
    assert (row["name"], row["mean"]["value"], row["iqm"]["value"]) == ("good", 250, 250)
    page = Path("docs/results.md").read_text()
    assert page.startswith("# Results\n")
    assert "targetnet results good.toml --seeds 4 --page docs/results.md\n" in page
    assert "](results/CartPole-v1.png)" in page
    assert {path.suffix for path in Path("docs/results").iterdir()} == {".png", ".svg"}
    assert [calls("good", seed) for seed in range(4)] == [["1"]] * 4  # OMP_NUM_THREADS
    out = capsys.readouterr().out
    assert "(4 / 4)" in out
    assert "CartPole-v1, good: mean 250.0, IQM 250.0 (4 seeds, 100.0 to 400.0)" in out


def test_seeds_that_nobody_has_tuned_on_may_begin_anywhere():
    assert results("good.toml", "--seeds", 2, "--first-seed", 1_000) == 0
    assert [seed["seed"] for seed in rows()[0]["seeds"]] == [1_000, 1_001]
    assert "good.toml --seeds 2 --first-seed 1000\n" in Path("results/results.md").read_text()


@pytest.mark.thorough
def test_the_page_has_its_title_and_the_command_that_makes_it_but_no_path_of_this_machine(tmp_path):
    first, page = ["good.toml", "--seeds", 1, "--page", "page.md"], Path("page.md")
    assert results(*first, "--rows", "kept.jsonl", "--title", "Plain\nDQN") == 0
    text = page.read_text()
    assert text.startswith("# Plain DQN\n")
    command = "good.toml --seeds 1 --rows kept.jsonl --page page.md --title 'Plain DQN'"
    assert f"\ntargetnet results {command}\n" in text
    assert results(*first, "--rows", tmp_path / "kept.jsonl") == 0
    assert "\ntargetnet results good.toml --seeds 1 --page page.md\n" in page.read_text()


@pytest.mark.thorough
def test_a_second_call_trains_nothing_and_writes_the_same_page():
    results("good.toml", "--seeds", 2)
    page = Path("results/results.md").read_bytes()
    assert results("good.toml", "--seeds", 2) == 0
    assert Path("results/results.md").read_bytes() == page
    assert len(calls("good", 0)) == 1


@pytest.mark.thorough
def test_the_page_is_made_of_the_kept_seeds_wherever_their_runs_are():
    results("good.toml", "--seeds", 2, "--rows", "kept.jsonl")
    page = Path("results/results.md").read_bytes()
    shutil.rmtree("results")
    assert results("good.toml", "--seeds", 2, "--rows", "kept.jsonl") == 0
    # Nothing is left to train, so no run makes the directory.
    new = "--out", "new/place", "--page", "page.md"
    assert results("good.toml", "--seeds", 2, "--rows", "kept.jsonl", *new) == 0
    assert [seed["mean"] for seed in rows("new/place")[0]["seeds"]] == [100, 200]
    assert Path("results/results.md").read_bytes() == page
    assert not Path("results/runs").exists()


def test_a_seed_is_kept_as_soon_as_it_is_finished(monkeypatch):
    ended = []
    monkeypatch.setattr(ConfigSeeds, "keep_finished", lambda *_: ended.append(finished("good")))
    results("good.toml", "--seeds", 1)
    assert ended == [[0]]


@pytest.mark.thorough
def test_finished_runs_without_a_file_are_kept():
    results("good.toml", "--seeds", 2)
    Path("results/rows.jsonl").unlink()
    assert results("good.toml", "--seeds", 2, "--finished") == 0
    assert [seed["mean"] for seed in rows()[0]["seeds"]] == [100, 200]
    assert len(calls("good", 0)) == 1


def test_a_kept_seed_of_another_config_is_refused_before_anything_is_trained():
    results("good.toml", "--seeds", 1, "--rows", "kept.jsonl")
    Path("good.toml").write_text('env_id = "CartPole-v1"\nbatch_size = 7\n')
    with pytest.raises(RlCoreError, match=r"kept\.jsonl: good is of another config: batch_size is"):
        results("good.toml", "--seeds", 2, "--rows", "kept.jsonl")
    assert not Path("results/runs/good/1").exists()


@pytest.mark.slow
def test_seeds_of_one_process_are_members_of_a_population():
    assert results("good.toml", "--seeds", 5, "--together", 2, "--jobs", 1) == 0
    (row,) = rows()
    assert [seed["mean"] for seed in row["seeds"]] == [100, 200, 300, 400, 500]
    runs = Path("results/runs/good")
    assert sorted(path.name for path in runs.iterdir() if path.is_dir()) == [
        "population-0", "population-2", "population-4",
    ]  # fmt: skip
    # More seeds, of which some have a population, in populations of another size.
    Path("results/rows.jsonl").unlink()
    (runs / "population-2" / "m01" / "result.json").unlink()
    assert results("good.toml", "--seeds", 9, "--together", 3, "--jobs", 1) == 0
    assert [seed["mean"] for seed in rows()[0]["seeds"]] == [100 * n for n in range(1, 10)]
    assert sorted(path.name for path in runs.iterdir() if path.is_dir()) == [
        "population-0", "population-2", "population-4", "population-5", "population-8",
    ]  # fmt: skip
    # Nothing of it is trained again, alone or together.
    calls = {path: path.read_text() for path in runs.rglob("calls")}
    assert results("good.toml", "--seeds", 9) == 0
    assert calls == {path: path.read_text() for path in runs.rglob("calls")}


@pytest.mark.thorough
def test_a_seed_that_began_alone_goes_on_alone():
    results("good.toml", "--seeds", 1)
    Path("results/rows.jsonl").unlink()
    assert results("good.toml", "--seeds", 3, "--together", 3) == 0
    assert len(calls("good", 0)) == 2
    assert Path("results/runs/good/population-1/m01/result.json").exists()


def test_a_population_of_another_config_is_told():
    results("good.toml", "--seeds", 2, "--together", 2)
    Path("results/rows.jsonl").unlink()
    Path("good.toml").write_text('env_id = "CartPole-v1"\nbatch_size = 7\n')
    assert results("good.toml", "--seeds", 2, "--together", 2) == 1
    assert not finished("good")


def test_the_other_members_of_a_population_are_kept():
    assert results("bad.toml", "--seeds", 3, "--together", 3) == 1
    assert [seed["seed"] for seed in rows()[0]["seeds"]] == [0, 2]


@pytest.mark.thorough
def test_a_failing_seed_is_one_line_and_the_others_are_on_the_page(capsys):
    assert results("bad.toml", "good.toml", "--seeds", 3) == 1
    log = Path("results/logs/bad/1.log")
    line = f"bad seed 1 failed (exit code 1): targetnet: the env fell over; log: {log}"
    assert line in capsys.readouterr().out.splitlines()
    assert log.read_text().startswith("it began well")
    assert [(row["name"], len(row["seeds"])) for row in rows()] == [("bad", 2), ("good", 3)]


def test_where_nothing_could_be_trained_there_is_no_page(monkeypatch):
    monkeypatch.setattr(training_job, "TRAIN", [sys.executable, "-c", "raise SystemExit(2)"])
    assert results("good.toml", "--seeds", 1) == 1
    assert not Path("results/results.md").exists()


@pytest.mark.thorough
def test_the_peer_is_trained_where_it_has_settings_and_its_finished_seeds_are_kept(peer_python):
    arguments = ["good.toml", "lake.toml", "--seeds", 2, "--peer", "sb3"]
    assert results(*arguments, "--peer-python", peer_python) == 0
    assert [(r["env_id"], r["name"], len(r["seeds"])) for r in rows()] == [
        ("CartPole-v1", "good", 2),
        ("FrozenLake-v1", "lake", 2),
        ("CartPole-v1", "SB3 DQN", 2),
    ]
    written = Path("results/rows.jsonl")
    before = written.read_bytes()
    # All of it is there: no interpreter is needed, so no environment is made.
    assert results(*arguments) == 0
    assert written.read_bytes() == before and not Path("results/venvs").exists()


def test_without_its_environment_the_peer_is_left_out_and_ours_are_trained(monkeypatch, capsys):
    broken = [sys.executable, "-c", "raise SystemExit('no such package')"]
    log = Path("results/logs/venv.log")
    monkeypatch.setattr(
        "targetnet.agents.experiments.results.peer.venv_jobs",
        lambda *_: [Job("SB3 DQN: torch", broken, log)],
    )
    assert results("good.toml", "--seeds", 1, "--peer", "sb3") == 1
    assert "SB3 DQN: torch failed (exit code 1): no such package; log:" in capsys.readouterr().out
    assert [row["name"] for row in rows()] == ["good"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["good.toml", "--seeds", 0], "--seeds must be at least 1, got 0"),
        (["good.toml", "--first-seed", -1], "--first-seed must be at least 0, got -1"),
        (["good.toml", "--seeds", 10**12], "--seeds must be at most 10,000, got 1,000,000,000,000"),
        (["good.toml", "--first-seed", 2**63 - 1, "--seeds", 2], "must leave room in int64, got"),
        (["good.toml", "--jobs", 0], "--jobs must be at least 1, got 0"),
        (["god"], "no shipped config 'god'"),
        ([], "name at least one config"),
        (["good.toml", "./good.toml"], "two configs are called 'good'"),
        (["good.toml", "--page", "docs/results"], "--page must be a .md file"),
        (["good.toml", "--rows", "docs/rows"], "--rows must be a .jsonl file, got 'docs/rows'"),
        (["good.toml", "--peer-python", "python3"], "--peer-python needs --peer"),
        (["good.toml", "--peer", "sb3", "--peer-python", "no/python"], "no program 'no/python'"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(arguments, message):
    with pytest.raises(RlCoreError) as error:
        results(*arguments)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not Path("results").exists()


DRIVER = """
import sys
import tyro
from rich.console import Console
from targetnet.agents.experiments import training_job
from targetnet.agents.experiments.results import command
training_job.TRAIN = sys.argv[1].split()
code = tyro.cli(command.Results, args=sys.argv[2:])(Console(width=200))
assert not {"tensorflow", "torch"} & set(sys.modules)
sys.exit(code)
"""


@pytest.mark.thorough
def test_after_ctrl_c_every_child_saves_once_and_the_next_call_goes_on(trainer):
    driver = [sys.executable, "-c", DRIVER, " ".join(trainer)]
    arguments = ["slow.toml", "--seeds", "3", "--jobs", "2"]
    # A terminal's Ctrl-C goes to every process of the group.
    process = subprocess.Popen(
        [*driver, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    runs = [Path(f"results/runs/slow/{seed}") for seed in range(3)]
    while not all((run / "started").exists() for run in runs[:2]):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert "stopping: 2 at work" in out and "run the same command again" in out
    # Each was told once; a second Ctrl-C would have been immediate. The third never began.
    assert [(run / "checkpoint").read_text() for run in runs[:2]] == ["1", "1"]
    assert not runs[2].exists() and not Path("results/results.md").exists()

    runs[2].mkdir()
    (runs[2] / "checkpoint").touch()  # so that the fake goes on without waiting
    assert results(*arguments) == 0
    assert [seed["mean"] for seed in rows()[0]["seeds"]] == [100, 200, 300]


@pytest.mark.thorough
def test_sigterm_stops_it_in_the_same_way(trainer):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, " ".join(trainer), "slow.toml", "--seeds", "1"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    while not Path("results/runs/slow/0/started").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert Path("results/runs/slow/0/checkpoint").read_text() == "1"


def test_a_second_ctrl_c_does_not_wait_for_what_a_child_saves():
    Path("deaf.py").write_text(
        "import os, pathlib, signal, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "pathlib.Path('pid.tmp').write_text(str(os.getpid()))\n"
        "pathlib.Path('pid.tmp').rename('pid')\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", DRIVER, f"{sys.executable} deaf.py", "good.toml"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    while not Path("pid").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert "stopping" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode in (-signal.SIGINT, 130)
    assert not Path(f"/proc/{Path('pid').read_text()}").exists()


def test_a_childs_progress_is_that_of_its_state(tmp_path):
    from targetnet.rl_core.control.files import ControlFiles

    files = ControlFiles(tmp_path)
    assert training_job.env_steps_of([tmp_path]) is None
    state = {
        "status": "running", "pid": 1, "host": "h", "started": 0.0, "time": 0.0, "env_id": "e",
        "tick": 70, "env_step": 70, "env_steps": 500, "update": 5, "env_steps_per_second": 9.0,
        "eta_seconds": None, "episodes": 1, "mean_return": None, "target_age": 0, "recent": {},
        "values": [], "actions": [],
    }  # fmt: skip
    files.make()
    files.state.write_text(json.dumps(state))
    assert training_job.env_steps_of([tmp_path, tmp_path]) == (140, 1_000)


def test_importing_the_command_imports_no_library_that_trains_or_draws():
    heavy = {"tensorflow", "torch", "matplotlib", "tensorboard", "gymnasium", "scipy"}
    code = "import sys, targetnet.agents.experiments.results.command\n"
    code += f"print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.thorough
def test_finished_trains_nothing_and_shows_what_there_is():
    results("good.toml", "--seeds", 2)
    assert results("good.toml", "--seeds", 5, "--finished") == 0
    (row,) = rows()
    assert [seed["mean"] for seed in row["seeds"]] == [100, 200]
    assert not Path("results/runs/good/2").exists()
    assert "--seeds 5 --finished" in Path("results/results.md").read_text()
    with pytest.raises(RlCoreError, match="no seed of these configs is finished in elsewhere/rows"):
        results("good.toml", "--finished", "--out", "elsewhere")


@pytest.mark.thorough
def test_a_run_of_another_config_is_left_out_and_named(capsys):
    results("good.toml", "--seeds", 2)
    rows_file = Path("results/rows.jsonl")
    *others, _ = rows_file.read_text().splitlines(keepends=True)
    rows_file.write_text("".join(others))
    config = Path("results/runs/good/1/config.toml")
    config.write_text('env_id = "CartPole-v1"\nseed = 1\nbatch_size = 7\n')
    capsys.readouterr()
    assert results("good.toml", "--seeds", 2, "--finished") == 0
    out = capsys.readouterr().out
    assert "results/runs/good/1 is left out: batch_size is 7 in this run" in out
    assert [seed["seed"] for seed in rows()[0]["seeds"]] == [0]
