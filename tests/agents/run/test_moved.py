"""A run that was moved to another machine: what it was told still holds."""

import shutil
import threading

import pytest

from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.client import RunClient
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from tests.agents.cluster.toys import wait_for
from tests.agents.run.test_resume import config


def orders_in(run):
    return [
        (entry.name, entry.env_step)
        for entry in read_log(ControlFiles(run).log)
        if entry.kind == "do"
    ]


def lose(run, newest):
    """Leaves the run as it was at home when its node died: all its log, an older checkpoint.

    Returns the env step at which it goes on.
    """
    store = CheckpointStore(run / "checkpoints")
    numbers = store._numbers()
    for number in numbers[len(numbers) - newest :]:
        shutil.rmtree(run / f"checkpoints/{number:08d}")
    ControlFiles(run).moved.write_bytes(b"0")
    return store.latest().host["loop"]["env_step"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped, its digest, and the env step of the stop."""
    run = tmp_path_factory.mktemp("stopped") / "run"

    def watch(agent, tick):
        if tick.env_step == 600:
            submit(ControlFiles(run), do_command("stop", "api"))

    outcome = train(config(checkpoint_keep=5), run, on_tick=watch, console=None)
    ((name, step),) = orders_in(run)
    assert name == "stop" and 600 <= step < 1_500
    return outcome, step


@pytest.mark.thorough
def test_a_run_that_was_stopped_ends_there_again_with_the_same_bits(stopped, tmp_path):
    outcome, step = stopped
    shutil.copytree(outcome.run, tmp_path / "run")
    assert lose(tmp_path / "run", 2) < step
    moved = resume(tmp_path / "run", console=None)
    assert (moved.env_steps, moved.digest) == (step, outcome.digest)
    assert orders_in(tmp_path / "run") == [("stop", step)]  # once


@pytest.mark.thorough
def test_a_run_whose_last_checkpoint_is_that_of_the_stop_ends_at_once(stopped, tmp_path):
    outcome, step = stopped
    shutil.copytree(outcome.run, tmp_path / "run")
    assert lose(tmp_path / "run", 0) == step
    moved = resume(tmp_path / "run", console=None)
    assert (moved.env_steps, moved.digest) == (step, outcome.digest)


def test_a_run_that_was_stopped_and_that_somebody_resumes_goes_on(stopped, tmp_path):
    outcome, _ = stopped
    shutil.copytree(outcome.run, tmp_path / "run")
    lose(tmp_path / "run", 2)
    ControlFiles(tmp_path / "run").moved.unlink()
    assert resume(tmp_path / "run", console=None).env_steps == 1_500


@pytest.mark.thorough
def test_a_run_that_was_paused_is_paused_until_it_is_resumed(tmp_path):
    run, ends = tmp_path / "run", []

    def watch(agent, tick):
        if tick.env_step == 600:
            for order in ("pause", "stop"):
                submit(ControlFiles(run), do_command(order, "api"))

    train(config(checkpoint_keep=5), run, on_tick=watch, console=None)
    at = lose(run, 2)
    # As if nobody had stopped it: its node died while it was paused.
    log = ControlFiles(run).log
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    ControlFiles(run).state.unlink()
    thread = threading.Thread(target=lambda: ends.append(resume(run, console=None)))
    thread.start()
    wait_for(lambda: ControlFiles(run).state.exists())
    state, alive = read_state(ControlFiles(run))
    assert (state.status, state.env_step, alive) == ("paused", at, True)
    RunClient(run).do("resume")
    thread.join()
    (outcome,) = ends
    assert outcome.env_steps == 1_500
    assert [name for name, _ in orders_in(run)] == ["pause", "resume"]
    assert outcome.digest == train(config(), tmp_path / "straight", console=None).digest
