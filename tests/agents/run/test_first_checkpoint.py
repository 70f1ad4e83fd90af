"""A checkpoint before the first time step, and what a checkpoint holds while it is written."""

import copy

import numpy as np
import pytest
from rich.console import Console

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.checkpoints import Checkpoints
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control import steering
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import submit

SHORT = {
    "env_steps": 300,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 200,
    "learn_start": 50,
    "xla": False,
    "eval_period": 1_000,
    "final_eval_episodes": 1,
    "checkpoint_seconds": 0,
    "log_period": 50,
}
LOOPS = {
    "plain": {},
    "two envs": {"num_envs": 2},
    "concurrent": {"loop": "concurrent", "learn_period": 8},
    "async": {"num_envs": 2, "vectorization": "async"},
    "compiled": {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20},
}
FAST = ("plain", "concurrent")


def stop_at_once(directory):
    """Has the run stop at its first safe point, as Ctrl-C right after the start does."""
    directory.control.make()
    submit(directory.control, do_command("stop", "api"))


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=loop, marks=() if loop in FAST else pytest.mark.slow)
        for loop, settings in LOOPS.items()
    ],
)
def test_a_run_stopped_before_its_first_time_step_goes_on_as_if_it_were_not(tmp_path, settings):
    config = DqnConfig(**(SHORT | settings))
    stopped = train(config, tmp_path / "run", on_start=stop_at_once)
    assert stopped.env_steps == 0
    assert CheckpointStore(tmp_path / "run/checkpoints").latest().tick == 0
    console = Console(record=True, width=200)
    digest = resume(tmp_path / "run", console=console).digest
    said = console.export_text()
    assert "gave other results" not in said and "not the same bits" not in said
    assert digest == train(config, tmp_path / "straight").digest
    assert repeat(tmp_path / "run").identical


def test_a_checkpoint_of_version_0_1_before_the_first_time_step_is_resumed(tmp_path, monkeypatch):
    """It held the state of envs that had shown nothing."""
    config = DqnConfig(**SHORT)
    train(config, tmp_path / "run", on_start=stop_at_once)
    latest = CheckpointStore.latest

    def old(store):
        checkpoint = latest(store)
        lane = {"episode": 0, "actions": [], "return": 0.0, "observations": 0}
        checkpoint.host["envs"] = {"lanes": [lane]}
        return checkpoint

    monkeypatch.setattr(CheckpointStore, "latest", old)
    digest = resume(tmp_path / "run").digest
    assert digest == train(config, tmp_path / "straight").digest


def test_what_a_thread_writes_of_a_checkpoint_does_not_change_meanwhile(tmp_path, monkeypatch):
    taken = []
    write = Checkpoints._write

    def watched(self, files, tick, variables, host, *rest):
        taken.append((host, copy.deepcopy(host), variables, copy.deepcopy(variables)))
        return write(self, files, tick, variables, host, *rest)

    monkeypatch.setattr(Checkpoints, "_write", watched)
    train(DqnConfig(**(SHORT | {"checkpoint_steps": 60, "eval_period": 110})), tmp_path / "run")
    assert len(taken) >= 4
    for host, then, variables, values_then in taken:
        assert host == then
        for name, value in variables.items():
            assert np.array_equal(value, values_then[name], equal_nan=True), name


def test_an_evaluation_that_was_asked_for_is_made_after_a_resume(tmp_path, monkeypatch):
    """It was answered before the checkpoint, and the run was stopped before it was made."""
    # A fast machine makes the other 200 env steps before the next poll.
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)
    config = DqnConfig(**SHORT)

    asked = ["evaluate", "stop"]

    def ask(agent, tick):
        while tick.env_step == 100 and asked:
            submit(directory[0].control, do_command(asked.pop(), "api"))

    directory = []
    train(config, tmp_path / "run", on_start=directory.append, on_tick=ask)
    console = Console(record=True, width=200)
    resume(tmp_path / "run", console=console)
    text = console.export_text()
    assert text.count("greedy return") == 2, text  # and the one at the end
