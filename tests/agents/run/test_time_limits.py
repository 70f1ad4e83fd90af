"""Envs without a time limit: their evaluations end, and a run says what there is to know."""

import json
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.files import require_can_go_on
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.saved.directory import RunDir
from targetnet.envs import make_envs
from targetnet.rl_core.control.client import RunClient
from targetnet.rl_core.control.commands import do_command

NOTICE = (
    "CliffWalking-v1 is registered without a time limit: an episode may last for ever, unless the "
    "env ends it by itself; an evaluation cuts it after 40 env steps (eval_max_steps); for a "
    "limit: --set env_kwargs={max_episode_steps=1000}"
)
TOML = """
env_id = "CliffWalking-v1"
env_steps = 60
hidden = [8]
batch_size = 8
replay_capacity = 100
learn_start = 20
eval_period = 30
eval_episodes = 2
eval_max_steps = 40
final_eval_episodes = 3
xla = false
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cliff")
    (folder / "cliff.toml").write_text(TOML)
    return folder


@pytest.fixture(scope="module")
def trained(folder, pool):
    """Weights of a policy that never comes to the goal: it always goes up."""
    import numpy as np

    run = folder / "trained"
    with pool.open():
        assert main(["train", str(folder / "cliff.toml"), "--run", str(run)]) == 0
    directory = RunDir.open(run)
    weights = directory.load_weights()
    up = {name: np.zeros_like(array) for name, array in weights.items()}
    up["head/q/b"] = np.float32([1, 0, 0, 0])
    directory.save_weights(up)
    return run


@pytest.mark.thorough
def test_a_run_ends_and_says_what_was_cut_and_how_to_set_a_limit(folder, capsys):
    run = folder / "run"
    assert main(["train", str(folder / "cliff.toml"), "--run", str(run)]) == 0
    out = capsys.readouterr().out
    assert NOTICE in out
    result = json.loads((run / "result.json").read_text())
    assert result["cut"] == result["episodes"] == 3  # of the seed 0 none comes to the goal
    assert "env step 30: greedy return" in out and "; 2 cut after 40 env steps)" in out
    assert "; 3 cut after 40 env steps)" in out


def test_the_command_of_the_notice_sets_a_limit(folder, capsys):
    arguments = ["train", str(folder / "cliff.toml"), "--run", str(folder / "limited")]
    arguments += ["--set", "env_kwargs={max_episode_steps=1000}", "env_steps=30"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "without a time limit" not in out
    assert RunDir.open(folder / "limited").config().env_kwargs == {"max_episode_steps": 1000}


def test_eval_says_how_many_were_cut(trained, capsys):
    assert main(["eval", str(trained), "--episodes", "4"]) == 0
    out = capsys.readouterr().out
    assert out == (
        "greedy return -40.0 +- 0.0 (mean and std of 4 episodes, -40.0 to -40.0; 4 cut after 40 "
        "env steps)\n"
    )
    assert main(["eval", str(trained), "--episodes", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["cut"] == 4 and err == ""


@pytest.mark.thorough
def test_play_says_which_were_cut(trained, capsys, tmp_path):
    arguments = ["play", str(trained), "--episodes", "2", "--video", str(tmp_path / "cliff.gif")]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "episode 1: return -40.0, 40 env steps (cut there)",
        "episode 2: return -40.0, 40 env steps (cut there)",
    ]
    assert lines[2] == "mean return -40.0; 2 cut after 40 env steps"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["eval", pytest.param("play", marks=pytest.mark.slow)])
def test_ctrl_c_ends_it_in_one_line_with_code_130(trained, folder, command, tmp_path):
    config = RunDir.open(trained).config()
    endless = folder / f"endless {command}"
    directory = RunDir.create(endless, "", config.model_copy(update={"eval_max_steps": 10**9}))
    directory.save_weights(RunDir.open(trained).load_weights())
    shutil.copy(trained / "spaces.json", endless)
    arguments = [str(endless), *(["--video", str(tmp_path / "x.gif")] if command == "play" else [])]
    # What is shown after some seconds says that it is at work.
    script = (
        "import sys\nfrom targetnet.agents.run import display\n"
        "from targetnet.agents.cli.main import main\n"
        "display._LINE_SECONDS = 0.2; sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, command, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        give_up = threading.Timer(120, process.kill)
        give_up.start()
        try:
            next(line for line in process.stderr if line.startswith("evaluating: 0 of "))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
        finally:
            give_up.cancel()
            process.kill()
    lines = [line for line in err.splitlines() if not line.startswith("evaluating: ")]
    assert (process.returncode, out, lines) == (130, "", ["targetnet: interrupted"])
    assert not list(tmp_path.iterdir())


def test_do_stop_ends_a_run_in_a_long_evaluation(folder, capsys, monkeypatch):
    from targetnet.agents.run.evaluations import Evaluations

    run, steps = folder / "stopped", []
    real = Evaluations._stopped_meanwhile

    def stopped_meanwhile(self):
        steps.append(1)
        if len(steps) == 100:
            RunClient(run).send([do_command("stop", "api")])
        return real(self)

    monkeypatch.setattr(Evaluations, "_stopped_meanwhile", stopped_meanwhile)
    arguments = ["train", str(folder / "cliff.toml"), "--run", str(run)]
    assert main([*arguments, "--set", "eval_max_steps=1_000_000_000"]) == 0
    assert "stopped at env step 30" in capsys.readouterr().out
    assert 100 <= len(steps) < 100_000  # until the next look into the inbox


LIMITS = [
    ("CartPole-v1", {}, "sync", True),
    ("CartPole-v1", {}, "async", True),
    ("CartPole-v1", {}, "vector_entry_point", True),
    ("CliffWalking-v1", {}, "sync", False),
    ("CliffWalking-v1", {}, "async", False),
    ("CliffWalking-v1", {"max_episode_steps": 9}, "sync", True),
    ("CliffWalking-v1", {"max_episode_steps": 9}, "async", True),
]


@pytest.mark.parametrize(("env_id", "env_kwargs", "vectorization", "limited"), LIMITS, ids=str)
def test_whether_there_is_a_limit_is_known(env_id, env_kwargs, vectorization, limited):
    envs = make_envs(env_id, 1, seed=1, env_kwargs=env_kwargs, vectorization=vectorization)
    envs.close()
    assert envs.has_time_limit is limited


def test_it_may_change_when_a_run_goes_on():
    before = DqnConfig()
    assert before.eval_max_steps == 27_000
    require_can_go_on(before, DqnConfig(eval_max_steps=5))
