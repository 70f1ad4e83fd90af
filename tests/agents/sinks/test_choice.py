"""`log_to`: names, packages that are missing, the id that a run keeps, what is not reported."""

import json
import os

import pytest
from rich.console import Console

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.run_keys import LOG_TO
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.sinks import choice
from targetnet.agents.sinks.choice import PACKAGES, Package
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.seal import sealed_json
from tests.agents.sinks.test_outbox import Memory

CONFIG = DqnConfig(
    env_steps=200, hidden=(8,), batch_size=8, replay_capacity=200, learn_start=50, xla=False,
    eval_period=150, eval_episodes=1, final_eval_episodes=1, log_period=50, log_to=("mlflow",),
)  # fmt: skip


@pytest.fixture
def opened(monkeypatch):
    """Puts a store in memory in MLflow's place; gives (start, id, store) of each session."""
    stores, sessions = {}, []

    def open_store(start, sink_id):
        store = stores.setdefault(sink_id, Memory())
        sessions.append((start, sink_id, store))
        return store

    monkeypatch.setattr(choice, "PACKAGES", {"mlflow": Package(("json",), open_store)})
    return sessions


def test_every_name_has_a_package():
    assert PACKAGES.keys() == LOG_TO.keys()


@pytest.mark.thorough
def test_a_run_goes_on_under_its_id_and_its_points_are_there_once(tmp_path, opened):
    first = train(CONFIG, tmp_path / "run")
    resume(tmp_path / "run", CONFIG.model_copy(update={"env_steps": 300}))
    (_, sink_id, store), (start, again, _) = opened
    assert sink_id == again == RunDir(tmp_path / "run").sink_id() and start.after == 200
    points = [(t, s) for t, s, _ in store.there if not t.startswith("episode/")]
    assert len(points) > 20 and len(set(points)) == len(points)
    assert {"result/mean", "learn/loss", "evaluation/return"} <= {tag for tag, *_ in store.there}
    assert {s for t, s, _ in store.there if t == "learn/updates"} == {50, 100, 150, 200, 250, 300}
    alone = train(CONFIG.model_copy(update={"log_to": ()}), tmp_path / "alone")
    assert alone.digest == first.digest


def test_one_that_is_turned_on_at_a_resume_gets_all_points_so_far(tmp_path, opened):
    train(CONFIG.model_copy(update={"log_to": ()}), tmp_path / "run")
    assert not (tmp_path / "run/sinks.json").exists() and not opened
    resume(tmp_path / "run", CONFIG.model_copy(update={"env_steps": 300}))
    ((_, _, store),) = opened
    assert {s for t, s, _ in store.there if t == "learn/updates"} == {50, 100, 150, 200, 250, 300}


def test_a_repetition_is_not_reported(tmp_path, opened):
    train(CONFIG, tmp_path / "run")
    assert repeat(tmp_path / "run", tmp_path / "again").identical
    assert len(opened) == 1 and RunDir(tmp_path / "again").config().log_to == ()


def test_a_new_run_does_not_go_on_under_the_id_of_one_that_was_there_before(tmp_path, opened):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/sinks.json").write_bytes(sealed_json({"id": "a" * 32}))
    train(CONFIG, tmp_path / "run")
    assert opened[0][1] != "a" * 32


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[" * 100_000, b"\xff", b'{"id": 5}', b'{"id": "x"}', b" " * 100_000,
        json.dumps({"id": "'; drop table runs; --" + 10 * "a"}).encode(),
        json.dumps({"id": "a" * 32 + "\n"}).encode(),
        json.dumps({"id": "a" * 32, "seal": "no"}).encode(),
        json.dumps({"id": "a" * 32, "more": 1}).encode(),
    ],
)  # fmt: skip
def test_a_damaged_id_is_one_line_and_the_run_goes_on(tmp_path, opened, content):
    assert told_of(tmp_path, opened, lambda path: path.write_bytes(content))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_an_id_that_is_no_regular_file_is_one_line_and_the_run_goes_on(tmp_path, opened, make):
    assert told_of(tmp_path, opened, make)


def told_of(tmp_path, opened, spoil):
    """Whether a run whose sinks.json is spoiled says so in one line, and reports nowhere."""
    run, console = tmp_path / "run", Console(record=True, width=400)

    def on_start(directory):
        spoil(directory.path / "sinks.json")

    outcome = train(SHORT, run, console=console, on_start=on_start)
    (line,) = [line for line in console.export_text().splitlines() if "sinks.json" in line]
    assert line.startswith(f"mlflow: cannot use {run}/sinks.json: ")
    assert line.endswith("(delete that file to begin anew there)")
    return outcome.env_steps == SHORT.env_steps and not opened


SHORT = CONFIG.model_copy(update={"env_steps": 60})


def test_a_package_that_is_missing_is_named_with_its_extra_and_nothing_is_written(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert main(["train", "cartpole", "--log-to", "wandb", "--run", "new"]) == 2
    assert capsys.readouterr().err == (
        "targetnet: log_to = 'wandb' needs wandb: pip install 'targetnet[wandb]'\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--log-to", "mlfow"], ["--set", 'log_to=["mlfow"]']])
def test_an_unknown_name_is_answered_with_the_nearest(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", *arguments]) == 2
    assert capsys.readouterr().err == (
        "targetnet: cartpole: log_to: there is no 'mlfow' to log to (mlflow, wandb, trackio); "
        "did you mean 'mlflow'?\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_resume_may_change_where_to_log(tmp_path, opened, capsys):
    train(CONFIG.model_copy(update={"log_to": ()}), tmp_path / "run")
    longer = ["--set", "env_steps=250"]
    assert main(["resume", str(tmp_path / "run"), "--log-to", "mlflow", *longer]) == 0
    assert len(opened) == 1 and RunDir(tmp_path / "run").config().log_to == ("mlflow",)


def test_a_name_twice_is_one():
    assert DqnConfig(log_to=("wandb", "wandb")).log_to == ("wandb",)


def test_a_sink_outside_of_a_list_is_refused():
    with pytest.raises(ConfigError, match="sinks is a list of objects"):
        train(CONFIG.model_copy(update={"log_to": ()}), sinks=Memory())
