"""`train`, `resume` and `replay` called by a program: what they show, and mistakes in a call."""

import io

import pytest
from rich.console import Console

import targetnet
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.display import console_for
from targetnet.rl_core.errors import ArgumentError, ConfigError, RunDirError
from targetnet.rl_core.schedules import Linear

SHORT = DqnConfig(
    env_steps=200, hidden=(8,), batch_size=8, replay_capacity=400, learn_start=50, learn_period=4,
    final_eval_episodes=1, xla=False, checkpoint_seconds=0, past_states=0, log_period=100,
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_where_a_person_looks_on(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert console_for("auto").is_terminal and not console_for("auto").quiet
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert console_for("auto").quiet
    monkeypatch.setenv("FORCE_COLOR", "1")  # colors, but still nobody who looks on
    assert console_for("auto").quiet
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert console_for("auto").is_jupyter and not console_for("auto").quiet


def test_a_console_of_ones_own_is_taken_and_none_is_silent(monkeypatch):
    monkeypatch.setattr("sys.stdout", Terminal())
    mine = Console(file=io.StringIO())
    assert console_for(mine) is mine
    assert console_for(None).quiet


@pytest.mark.thorough
def test_a_script_in_a_pipe_is_silent(tmp_path, capsys):
    targetnet.train(SHORT, tmp_path / "run")
    assert targetnet.replay(tmp_path / "run").identical
    assert capsys.readouterr() == ("", "")


def test_the_bar_says_that_its_time_is_what_is_left(tmp_path):
    shown = Console(file=io.StringIO(), force_terminal=True, width=100)
    targetnet.train(SHORT, tmp_path / "run", console=shown)
    assert "0:00:00 left" in shown.file.getvalue()


def test_a_run_says_at_its_start_that_a_schedule_ends_early(tmp_path):
    shown = Console(file=io.StringIO(), width=500)
    rate = Linear(start=1e-3, end=1e-5, steps=50)
    config = SHORT.model_copy(update={"learning_rate": rate})
    targetnet.train(config, tmp_path / "run", console=shown)
    first = shown.file.getvalue().splitlines()[0]
    assert first.startswith("schedules end long before the run's 200 env steps: learning_rate at")
    again = Console(file=io.StringIO(), width=500)
    targetnet.replay(tmp_path / "run", console=again)
    assert "schedules end" not in again.file.getvalue()


@pytest.mark.thorough
def test_a_config_may_be_given_by_its_name_or_path_and_names_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    settings = SHORT.model_dump() | {"hidden": [8]}
    path.write_text(
        "".join(f"{k} = {str(settings[k]).lower()}\n" for k in ("env_steps", "hidden", "xla"))
        + "final_eval_episodes = 1\nlearn_start = 150\n"
    )
    assert str(targetnet.train(path).run) == "runs/mine-1"
    assert str(targetnet.train("mine.toml").run) == "runs/mine-2"
    assert str(targetnet.train(SHORT).run) == "runs/run-1"


def mistakes(run):
    config = {"env_id": "CartPole-v1"}
    return {
        "unknown name": (lambda: targetnet.train("cartpol"), ConfigError, "mean 'cartpole'"),
        "a dict": (lambda: targetnet.train(config), ArgumentError, "config must be a DqnConfig, a"),
        "a run that is a number": (
            lambda: targetnet.train(SHORT, 5), ArgumentError, "run must be a path, got 5",
        ),
        "on_tick": (
            lambda: targetnet.train(SHORT, on_tick=5),
            ArgumentError, r"on_tick must be a function of \(agent, tick\), got 5",
        ),
        "on_tick of one": (
            lambda: targetnet.train(SHORT, on_tick=lambda tick: None),
            ArgumentError, r"on_tick must be a function of \(agent, tick\), got one of \(tick\)",
        ),
        "on_start of none": (
            lambda: targetnet.resume(run, on_start=lambda: None),
            ArgumentError, r"on_start must be a function of \(run_dir\), got one of \(\)",
        ),
        "a console": (
            lambda: targetnet.train(SHORT, console=True),
            ArgumentError, "console must be a rich Console, 'auto' or None, got True",
        ),
        "no run to resume": (
            lambda: targetnet.resume(run), RunDirError, "is not a run directory: it has no config",
        ),
        "no run to replay": (
            lambda: targetnet.replay(""), ArgumentError, "run must be a path, got ''",
        ),
        "a run's name": (
            lambda: targetnet.train(SHORT, name="a/b"),
            ArgumentError, "name must be the NAME of runs/NAME-1, got 'a/b'",
        ),
        "a run without a name": (
            lambda: targetnet.train(SHORT, name=""), ArgumentError, "runs/NAME-1, got ''",
        ),
        "initial": (
            lambda: targetnet.train(SHORT, initial={}),
            ArgumentError, r"initial must be a function of \(weights\), got {}",
        ),
        "weights": (
            lambda: targetnet.train(SHORT, "run", initial=lambda weights: [1]),
            ArgumentError, "what initial returns must be weights by name",
        ),
        "nothing to load": (
            lambda: targetnet.load_config(3), ArgumentError, "a config must be a DqnConfig, a",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("mistake", mistakes(None))
def test_a_mistake_in_a_call_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, mistake):
    monkeypatch.chdir(tmp_path)
    call, error, message = mistakes(tmp_path / "none")[mistake]
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
