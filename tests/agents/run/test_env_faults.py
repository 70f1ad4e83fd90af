"""Runs that an env ends: with NaN, with a broken step, with an exception of its own."""

import json
import sys

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run import train as training
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import (
    EnvContractError,
    EnvError,
    EnvFailed,
    EnvNotFinite,
    EnvWorkerLost,
)

AT = 120  # env step of the fault, in each env's first episode

# A worker imports it too.
MODULE = """
import contextlib, os, pathlib, signal
import gymnasium as gym, numpy as np

class Faulty(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    mended = False

    def __init__(self, fault="nan", at=120):
        self.fault, self.at = fault, at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.seen(), {}

    def seen(self):
        return self.np_random.normal(size=2).astype(np.float32)

    def step(self, action):
        self.t += 1
        seen, reward = self.seen(), float(action)
        if self.t == self.at and not Faulty.mended:
            if self.fault == "raise":
                raise RuntimeError("the simulator is gone")
            if self.fault == "none":
                reward = None
            if self.fault == "nan":
                reward = float("nan")
            if pathlib.Path(self.fault).is_absolute():
                with contextlib.suppress(FileNotFoundError):  # the other env may have taken it
                    os.unlink(self.fault)
                    os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "inf":
                seen[1] = np.inf
        return seen, reward, False, self.t == 200, {}

gym.register("Faulty-v0", Faulty)
"""
LOOPS = {
    "plain": {},
    "concurrent": {"loop": "concurrent"},
    "async": {"vectorization": "async"},
    "async concurrent": {"vectorization": "async", "loop": "concurrent", "num_envs": 2},
    "two": {"num_envs": 2},
}


@pytest.fixture(autouse=True)
def faulty_module(tmp_path, monkeypatch):
    place = tmp_path / "modules"
    place.mkdir()
    (place / "faulty_envs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(place)
    yield
    sys.modules.pop("faulty_envs", None)
    gym.registry.pop("Faulty-v0", None)


def config(**settings):
    return DqnConfig(
        **{
            "env_id": "faulty_envs:Faulty-v0",
            "env_steps": 600,
            "hidden": (8,),
            "batch_size": 8,
            "replay_capacity": 500,
            "learn_start": 20,
            "learn_period": 8,
            "log_period": 50,
            "eval_period": 5_000,
            "eval_episodes": 1,
            "final_eval_episodes": 1,
            "checkpoint_steps": 40,
            "checkpoint_seconds": 0.0,
            "xla": False,
            **settings,
        }
    )


def fault_in(run, kind, fault="nan", **settings):
    with pytest.raises(kind) as raised:
        train(config(env_kwargs={"fault": fault}, **settings), run)
    assert "\n" not in str(raised.value)
    return raised.value


def weights_are_finite(run):
    weights = RunDir.open(run).load_weights()
    return all(np.isfinite(array).all() for array in weights.values())


def newest_checkpoint(run):
    return CheckpointStore(run / "checkpoints").latest()


PROBLEMS = {
    "nan": "the reward must be finite in float32, got nan",
    "inf": "the observation must be finite in float32, got inf at [1]",
}


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize(
    ("loop", "fault"),
    [
        ("plain", "nan"),
        pytest.param("plain", "inf", marks=pytest.mark.slow),
        ("concurrent", "nan"),
        pytest.param("async", "inf", marks=pytest.mark.slow),
        ("async concurrent", "inf"),
        ("two", "nan"),
    ],
)
def test_what_is_not_finite_ends_the_run_with_its_place_and_what_is_saved(
    tmp_path, loop, fault, monkeypatch
):
    agents, real = [], training.agent_for
    monkeypatch.setattr(training, "agent_for", lambda *a: agents.append(real(*a)) or agents[-1])
    run = tmp_path / "run"
    raised = fault_in(run, EnvNotFinite, fault, **LOOPS[loop])
    num_envs = LOOPS[loop].get("num_envs", 1)
    env_step = (AT - 1) * num_envs + 1  # env 0 comes first
    checkpoint = newest_checkpoint(run).host["loop"]["env_step"]
    assert 0 < checkpoint < env_step
    end = RunDir.open(run).load_digest()
    assert str(raised) == (
        f"at env step {env_step}, env 0 (faulty_envs:Faulty-v0), step {AT} of its episode 0: "
        f"{PROBLEMS[fault]}; correct the env; saved: {run / 'weights.safetensors'} (update "
        f"{end.update}) and the checkpoint of env step {checkpoint}, where resume goes on"
    )
    assert weights_are_finite(run) and end.update > 0 and not end.whole
    assert read_state(RunDir.open(run).control)[0].status == "failed"
    # Nothing of the time step has entered the replay.
    (agent,) = agents
    stored = agent.state.contents.written()
    rows = agent.state.contents.time_steps(0, stored)
    assert AT - 8 <= stored <= AT
    assert np.isfinite(rows["observation"]).all()
    # The newest row gets its outcome one time step later; until then its memory is anything.
    assert np.isfinite(rows["reward"][:-1]).all()


@pytest.mark.cases(0)
@pytest.mark.parametrize("loop", ["plain", pytest.param("concurrent", marks=pytest.mark.slow)])
def test_resumed_it_meets_the_same_again_and_once_mended_it_is_the_run_that_never_failed(
    tmp_path, loop, monkeypatch
):
    import faulty_envs

    run, settings = tmp_path / "run", LOOPS[loop]
    first = str(fault_in(run, EnvNotFinite, **settings))
    weights = (run / "weights.safetensors").read_bytes()
    with pytest.raises(EnvNotFinite) as again:
        resume(run)
    assert str(again.value).split("; saved")[0] == first.split("; saved")[0]
    assert (run / "weights.safetensors").read_bytes() == weights
    monkeypatch.setattr(faulty_envs.Faulty, "mended", True)
    mended = train(config(env_kwargs={"fault": "nan"}, **settings), tmp_path / "mended")
    assert resume(run).digest == mended.digest


@pytest.mark.parametrize("loop", ["plain", "concurrent"])
def test_a_run_that_failed_replays_as_far_as_it_was_recorded(tmp_path, loop):
    fault_in(tmp_path / "run", EnvNotFinite, **LOOPS[loop])
    verdict = repeat(tmp_path / "run")
    assert verdict.identical and not verdict.complete
    assert AT - 10 <= verdict.env_steps <= AT


@pytest.mark.parametrize(
    "loop",
    ["plain", *(pytest.param(loop, marks=pytest.mark.slow) for loop in ("concurrent", "async"))],
)
def test_a_broken_step_is_a_mistake_and_an_exception_of_the_envs_own_is_none(tmp_path, loop):
    broken = fault_in(tmp_path / "broken", EnvContractError, "none", **LOOPS[loop])
    assert broken.exit_code == 2
    assert str(broken).startswith(
        f"at env step {AT}, env 0 (faulty_envs:Faulty-v0), step {AT} of its episode 0: the reward "
        "must be one number, got None; correct the env; saved: "
    )
    failed = fault_in(tmp_path / "failed", EnvFailed, "raise", **LOOPS[loop])
    assert failed.exit_code == 1
    assert str(failed).startswith(
        f"at env step {AT}, env 0 (faulty_envs:Faulty-v0), step {AT} of its episode 0: "
        "RuntimeError was raised (the simulator is gone); correct the env; saved: "
    )
    assert weights_are_finite(tmp_path / "failed")


def test_without_a_checkpoint_it_says_that_there_is_none(tmp_path):
    fault = fault_in(tmp_path / "run", EnvNotFinite, checkpoint_steps=0)
    assert str(fault).endswith("; there is no checkpoint: resume begins again")
    assert newest_checkpoint(tmp_path / "run") is None


def test_a_fault_in_an_evaluation_ends_the_run_between_two_time_steps(tmp_path, monkeypatch):
    """So there is a checkpoint of just then, and a resumed run evaluates again."""
    run = tmp_path / "run"
    settings = {
        "env_kwargs": {"fault": "nan", "at": 190},
        "eval_period": 100,
        "checkpoint_steps": 0,
    }
    messages = []
    with pytest.raises(EnvNotFinite) as raised:
        train(config(**settings), run)
    messages.append(str(raised.value))
    assert messages[0].startswith(
        "at env step 100, in an evaluation, env 0 (faulty_envs:Faulty-v0), step 190 of its "
        "episode 0: the reward must be finite"
    )
    assert messages[0].endswith("and the checkpoint of env step 100, where resume goes on")
    assert RunDir.open(run).load_digest().whole
    with pytest.raises(EnvNotFinite) as raised:
        resume(run)
    assert str(raised.value) == messages[0]
    import faulty_envs

    monkeypatch.setattr(faulty_envs.Faulty, "mended", True)
    assert resume(run).digest == train(config(**settings), tmp_path / "mended").digest


def test_envs_that_cannot_be_made_for_an_evaluation_cost_nothing_of_the_training(
    tmp_path, monkeypatch
):
    run, settings = tmp_path / "run", {"eval_period": 100, "checkpoint_steps": 0}

    def only_one(*_, **__):
        raise EnvError("the simulator runs only once")

    with monkeypatch.context() as patch, pytest.raises(EnvError, match="only once"):
        patch.setattr("targetnet.agents.loops.evaluation.envs_beside", only_one)
        train(config(env_kwargs={"fault": ""}, **settings), run)
    assert RunDir.open(run).load_digest().whole
    assert CheckpointStore(RunDir.open(run).checkpoints).latest().host["loop"]["env_step"] == 100
    straight = train(config(env_kwargs={"fault": ""}, **settings), tmp_path / "straight")
    assert resume(run).digest == straight.digest


def test_a_fault_in_the_final_evaluation_leaves_a_trained_run(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(EnvNotFinite, match="at env step 110, in an evaluation, env 0"):
        train(config(env_steps=110), run)
    assert newest_checkpoint(run).host["loop"]["env_step"] == 110
    assert not (run / "result.json").exists()
    assert weights_are_finite(run)


# The command line.


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("fault", "code", "traceback", "vectorization"),
    [
        ("nan", 1, False, "sync"),
        ("none", 2, False, "sync"),
        ("raise", 1, True, "sync"),
        ("raise", 1, True, "async"),
    ],
)
def test_the_command_line_has_one_line_and_of_an_exception_its_traceback(
    tmp_path, monkeypatch, capsys, fault, code, traceback, vectorization
):
    monkeypatch.chdir(tmp_path)
    values = config().model_dump(include={
        "env_id", "env_steps", "batch_size", "replay_capacity", "learn_start", "log_period",
        "eval_period", "checkpoint_steps", "xla",
    })  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    (tmp_path / "faulty.toml").write_text("\n".join([*lines, "hidden = [8]"]))
    arguments = ["train", "faulty.toml", "--run", "mine", "--set", f"vectorization={vectorization}"]
    assert main([*arguments, f'env_kwargs={{fault = "{fault}"}}']) == code
    imports, *above, last = capsys.readouterr().err.splitlines()
    assert imports.startswith("targetnet: env 'faulty_envs:Faulty-v0' imports /")
    assert last.startswith(f"targetnet: at env step {AT}, env 0 (faulty_envs:Faulty-v0)")
    assert "mine/weights.safetensors" in last and "the checkpoint of env step " in last
    shown = "\n".join(above)
    assert bool(above) is traceback
    if traceback:
        assert 'raise RuntimeError("the simulator is gone")' in shown
        assert "EnvFailed" not in shown
    assert main(["digest", "mine"]) == 0


def test_eval_and_play_end_the_same_way(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    with pytest.raises(EnvNotFinite):
        train(config(env_steps=100), run)
    assert main(["eval", str(run), "--episodes", "2"]) == 1
    imports, *err = capsys.readouterr().err.splitlines()
    assert imports.startswith("targetnet: env 'faulty_envs:Faulty-v0' imports /")
    assert err == [
        f"targetnet: in an evaluation, env 0 (faulty_envs:Faulty-v0), step {AT} of its episode 0: "
        "the reward must be finite in float32, got nan; correct the env"
    ]


@pytest.mark.thorough
def test_a_worker_that_is_killed_once_ends_the_run_and_a_resume_makes_it_whole(tmp_path, capsys):
    """As the system does where memory runs out."""
    once = tmp_path / "once"
    settings = {"env_kwargs": {"fault": str(once)}, "vectorization": "async", "num_envs": 2}
    straight = train(config(**settings), tmp_path / "straight")
    once.touch()
    run = tmp_path / "run"
    with pytest.raises(EnvWorkerLost) as raised:
        train(config(**settings), run)
    said = str(raised.value)
    assert said.count("\n") == 0 and raised.value.exit_code == 1
    assert "at env step 23" in said and "was killed by SIGKILL" in said  # either env
    assert f"saved: {run}" in said and "where resume goes on" in said
    assert weights_are_finite(run)
    assert main(["resume", str(run)]) == 0
    assert json.loads((run / "digest.json").read_text())["digest"] == straight.digest
