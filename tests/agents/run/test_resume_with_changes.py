"""`resume --set`: live values change where the run goes on, and its past stays what it was."""

import io

import pytest
from rich.console import Console

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run import train as train_module
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.commands import BadCommand, set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.errors import (
    BoundsError,
    ConfigError,
    RunDirError,
    StaticHyperparameter,
    UnknownName,
)
from targetnet.rl_core.schedules import Linear, Piecewise
from tests.agents.run.interrupting import Crash, crash_at, curves
from tests.agents.steady import STEADY

pytestmark = pytest.mark.usefixtures("none_left_out")
CONFIG = DqnConfig(
    **STEADY | {"sync_period": 37},
    env_steps=600, hidden=(8,), batch_size=8, replay_capacity=400, learn_start=50, learn_period=2,
    log_period=100, eval_period=10_000, eval_episodes=1, final_eval_episodes=1, xla=False,
    checkpoint_seconds=0, checkpoint_steps=130, past_states=2,
)  # fmt: skip


def crash(*_, **__):
    raise Crash


def begun(run, moment, changes=(), config=CONFIG):
    """A run that crashes at one env step, with live values set at some before."""

    def watch(agent, tick):
        for env_step, name, value in changes:
            if tick.env_step == env_step:
                agent.hyperparameters[name] = value

    with pytest.raises(Crash):
        train(config, run, on_tick=crash_at(moment, watch))
    return run


def entries(run):
    return [(e.env_step, e.who, e.name, e.old, e.new) for e in read_log(ControlFiles(run).log)]


def files_of(run):
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in run.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.mark.thorough
def test_a_live_value_is_set_where_the_run_goes_on_logged_and_replayed(tmp_path):
    run = begun(tmp_path / "run", 300)  # the last checkpoint is of env step 260
    outcome = resume(run, changes={"sync_period": 50, "exempt": "torso"})
    assert entries(run)[:2] == [
        (260, "api", "sync_period", 37, 50),
        (260, "api", "exempt", [], ["torso"]),
    ]
    assert RunDir.open(run).config() == CONFIG  # the past was made with its values
    assert repeat(run).identical
    assert outcome.digest != train(CONFIG, tmp_path / "plain").digest


def test_the_command_line_does_it_as_the_command_line(tmp_path, capsys):
    run = begun(tmp_path / "run", 300)
    assert main(["resume", str(run), "--set", "sync_period=50", "--set", "env_steps=620"]) == 0
    assert entries(run)[0] == (260, "cli", "sync_period", 37, 50)
    assert "sync_period 37 -> 50 at update" in capsys.readouterr().out
    assert RunDir.open(run).config().env_steps == 620


@pytest.mark.cases(0)
@pytest.mark.parametrize("when", ["before the first time step", "right after it"])
def test_a_kill_right_after_the_resume_neither_loses_nor_doubles_it(tmp_path, monkeypatch, when):
    run = begun(tmp_path / "run", 300)
    straight = begun(tmp_path / "straight", 300)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        if when.startswith("before"):
            patch.setattr(train_module, "Run", crash)
        resume(run, changes={"sync_period": 50}, on_tick=crash_at(261))
    left = list((run / "control" / "inbox").glob("*.json"))
    assert len(left) == when.startswith("before")
    assert resume(run).digest == resume(straight, changes={"sync_period": 50}).digest
    assert [entry for entry in entries(run) if entry[2] == "sync_period"] == [
        (260, "api", "sync_period", 37, 50)
    ]


def test_it_comes_after_the_recorded_changes_and_is_not_overwritten(tmp_path):
    """These were asked for before the kill: the newer wish is the one that stays."""
    changes = [(270, "sync_period", 11), (280, "tau", 0.5), (290, "sync_period", 13)]
    run = begun(tmp_path / "run", 300, changes)
    periods = {}

    def on_tick(agent, tick):
        periods[tick.env_step] = agent.hyperparameters["sync_period"]

    resume(run, changes={"sync_period": 50, "learning_rate": 0.002}, on_tick=on_tick)
    logged = sorted(e for e in entries(run) if e[1] == "api" and e[2] != "tau")
    assert [e[2:] for e in logged] == [
        ("sync_period", 37, 11),
        ("learning_rate", 0.001, 0.002),
        ("sync_period", 11, 13),
        ("sync_period", 13, 50),
    ]
    assert [step for step, *_ in logged] == [270, 290, 290, 290]
    assert periods[275] == 11 and periods[600] == 50
    assert repeat(run).identical


def test_a_command_that_comes_before_a_recorded_change_is_made_again_is_the_newer_one(tmp_path):
    run = begun(tmp_path / "run", 300, [(290, "sync_period", 13)])
    periods, sent = {}, []

    def on_tick(agent, tick):
        if not sent:
            sent.append(submit(ControlFiles(run), set_command("sync_period", 50, "cli")))
        periods[tick.env_step] = agent.hyperparameters["sync_period"]

    resume(run, on_tick=on_tick)
    assert periods[280] == 37 and periods[600] == 50
    logged = [tuple(of) for _, who, name, *of in entries(run) if name == "sync_period"]
    assert logged == [(37, 13), (13, 50)]
    assert repeat(run).identical


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"sync_period": 0}, BoundsError, "sync_period must be a whole number of updates >= 1"),
        ({"sync_perod": 5}, ConfigError, "unknown key 'sync_perod'; did you mean 'sync_period'?"),
        ({"exemt": "head"}, ConfigError, "unknown key 'exemt'; did you mean 'exempt'?"),
        ({"exempt": "tors"}, UnknownName, "no block 'tors'.*did you mean 'torso'"),
        ({"hidden": (4,)}, ConfigError, r"hidden is \(8,\) in this run and cannot become \(4,\)"),
        ({"priority_beta": 0.1}, StaticHyperparameter, "that needs prioritized = true"),
        ({"tau": {"schedule": "constant"}}, ConfigError, "a run that goes on keeps its schedules"),
        ({"tau": [[1]]}, BadCommand, "must be a finite number, a text or a list of names"),
        ({"env_steps": 0}, ConfigError, "env_steps should be greater than or equal to 1, got 0"),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else "",
)
def test_a_change_that_cannot_be_made_leaves_every_file_as_it_was(
    tmp_path, changes, error, message
):
    run = begun(tmp_path / "run", 300)
    before = files_of(run)
    with pytest.raises(error, match=message) as caught:
        resume(run, changes={"learning_rate": 0.1} | changes)
    assert "\n" not in str(caught.value)
    assert files_of(run) == before


# Schedules in shares of the run.

SHARES = CONFIG.model_copy(
    update={
        "learning_rate": Linear(start=0.01, end=0.001, fraction=0.5),
        "epsilon": Piecewise(fractions=[[0.0, 1.0], [0.9, 0.1]]),
    }
)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("period", "due"), [(100, [300, 400, 500]), (1_000, []), (260, [520])], ids=str
)
def test_another_period_of_evaluations_holds_from_here_on(tmp_path, period, due):
    run = begun(tmp_path / "run", 300)  # its last checkpoint is at 260
    before = [step for step, _ in curves(run, complete=False).get("evaluation/return", [])]
    resume(run, changes=[f"eval_period={period}"])
    after = [step for step, _ in curves(run)["evaluation/return"]]
    kept = [step for step in before if step <= 260]
    assert after == [*kept, *due, 600]  # the last is the final one


@pytest.mark.thorough
def test_a_kill_before_the_config_of_a_longer_run_leaves_no_end_beside_it(tmp_path, monkeypatch):
    """Else it would seem to be finished for ever."""
    train(CONFIG, tmp_path / "run")
    longer = CONFIG.model_copy(update={"env_steps": 700})
    monkeypatch.setattr("targetnet.agents.run.resume.go_back", crash)
    with pytest.raises(Crash):
        resume(tmp_path / "run", longer)
    directory = RunDir(tmp_path / "run")
    assert directory.config().env_steps == 700 and not directory.has_result()
    monkeypatch.undo()
    assert resume(tmp_path / "run", longer).env_steps == 700


@pytest.mark.thorough
def test_a_longer_run_keeps_the_env_steps_of_its_shares_so_that_its_past_can_be_repeated(tmp_path):
    run = begun(tmp_path / "run", 300, config=SHARES)
    shown = io.StringIO()
    resume(run, changes={"env_steps": 900}, console=Console(file=shown, width=500))
    early = "schedules end long before the run's 900 env steps: learning_rate at env step 300;"
    assert early in shown.getvalue()
    kept = RunDir.open(run).config()
    assert kept.env_steps == 900
    assert kept.learning_rate == Linear(start=0.01, end=0.001, steps=300, fraction=0.5)
    assert kept.epsilon.points == ((0, 1.0), (540, 0.1))
    assert repeat(run).identical
    # A new run with this config has 900 env steps from its beginning.
    assert main(["train", str(run / "config.toml"), "--run", str(tmp_path / "new")]) == 0
    assert RunDir.open(tmp_path / "new").config().learning_rate.steps == 450


def test_a_job_that_is_started_again_with_more_env_steps_goes_on(tmp_path):
    """Its config's shares are those that the run began with, though their env steps differ."""
    run = begun(tmp_path / "run", 300, config=SHARES)
    longer = SHARES.model_copy(update={"env_steps": 700})
    assert longer.learning_rate.steps == 350
    resume(run, longer)
    assert RunDir.open(run).config().learning_rate.steps == 300


def test_another_share_is_refused_on_resume(tmp_path):
    run = begun(tmp_path / "run", 300, config=SHARES)
    other = Linear(start=0.01, end=0.001, fraction=0.6)
    with pytest.raises(
        ConfigError, match=r"learning_rate is Linear.*from here on: targetnet resume"
    ):
        resume(run, SHARES.model_copy(update={"learning_rate": other}))


def test_a_run_cannot_become_shorter_than_it_is(tmp_path):
    """Its end could not be repeated: it would lie before the checkpoint that it goes on from."""
    run = begun(tmp_path / "run", 300)
    before = files_of(run)
    with pytest.raises(
        ConfigError, match=r"env_steps must be at least 260, where .* goes on, got 200"
    ):
        resume(run, changes={"env_steps": 200})
    after = files_of(run)
    assert {name: after[name] for name in before} == before
    assert resume(run, changes={"env_steps": 260}).env_steps == 260
    assert resume(run, changes={"env_steps": 400}).env_steps == 400
    assert repeat(run).identical


@pytest.mark.thorough
def test_a_run_of_several_envs_that_went_beyond_its_end_is_finished_and_not_too_long(tmp_path):
    config = CONFIG.model_copy(update={"num_envs": 8, "env_steps": 101})
    outcome = train(config, tmp_path / "run")
    assert outcome.env_steps > 101
    with pytest.raises(RunDirError, match=f"is finished after {outcome.env_steps} env steps"):
        resume(outcome.run)
