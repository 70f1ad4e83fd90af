"""Output that cannot be written: training goes on, all else says so in a line; SIGHUP; ulimit."""

import io
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from rich.console import Console

from targetnet.agents.cli import main as command
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.jobs import Job, run_jobs
from targetnet.agents.run.process import stop_on_interrupt
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.console import Output, OutputFailed, output_guarded
from targetnet.rl_core.machine import memory_limit

COMMAND = [sys.executable, "-m", "targetnet.agents.cli"]
FULL = "No space left on device"
CONFIG = (
    'env_id = "CartPole-v1"\nenv_steps = {}\nhidden = [8]\nlearn_start = 50\nxla = false\n'
    "final_eval_episodes = 1\n"
)
CARTPOLE = DqnConfig(
    env_id="CartPole-v1", env_steps=100, hidden=(8,), learn_start=90, batch_size=8,
    final_eval_episodes=1, xla=False,
)  # fmt: skip
LOST = f"targetnet: output is lost from here on: {FULL}\n"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.delenv("TARGETNET_DEBUG", raising=False)


class Disk(io.StringIO):
    """A text stream that can be full."""

    is_full = True

    def write(self, text):
        if self.is_full:
            raise OSError(28, FULL)
        return super().write(text)


@pytest.fixture
def config(tmp_path):
    def config(env_steps):
        (tmp_path / "c.toml").write_text(CONFIG.format(env_steps))
        return str(tmp_path / "c.toml")

    return config


@pytest.fixture
def run(tmp_path):
    return str(tmp_path / "run")


# The stream.


def test_a_gap_is_told_once_and_at_its_place():
    disk, told = Disk(), []
    stream = Output(disk, tell=told.append)
    stream.write("lost\n")
    stream.write("lost\n")
    disk.is_full = False
    stream.write("first\n")
    stream.write("second\n")
    assert disk.getvalue() == f"(output is missing here: {FULL})\nfirst\nsecond\n"
    assert told == [f"output is lost from here on: {FULL}"]


def test_a_gap_at_the_end_is_told_too():
    disk = Disk()
    stream = Output(disk)
    stream.write("lost\n")
    disk.is_full = False
    stream.end()
    assert disk.getvalue() == f"(output is missing here: {FULL})\n"


def test_a_closed_stream_loses_its_text_too():
    closed = io.StringIO()
    closed.close()
    stream = Output(closed)
    stream.write("lost\n")
    stream.end()
    assert isinstance(stream.error, ValueError)


def test_output_that_must_arrive_is_an_error():
    with pytest.raises(OutputFailed, match=f"^cannot write the output: {FULL}$"):
        Output(Disk(), lasts=False).write("lost\n")


def test_standard_streams_come_back_and_are_guarded_once():
    before = sys.stdout, sys.stderr
    with output_guarded() as outer, output_guarded() as inner:
        assert ([sys.stderr, sys.stdout], inner) == (outer, [])
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.thorough
def test_from_python_too_a_console_that_cannot_be_written_ends_no_run(tmp_path):
    disk = Disk()
    console = Console(file=disk)

    def on_tick(agent, tick):
        disk.is_full = tick.env_step < 50

    disk.is_full = False  # before training begins
    assert train(CARTPOLE, tmp_path / "run", console=console, on_tick=on_tick).env_steps == 100
    assert f"(output is missing here: {FULL})\nenv step 60:" in disk.getvalue()
    assert console.file is disk


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("force_terminal", [False, True])
def test_from_python_too_a_console_may_be_lost_from_the_first_line_to_the_last(
    tmp_path, force_terminal
):
    console = Console(file=Disk(), force_terminal=force_terminal)
    outcome = train(CARTPOLE, tmp_path / "run", console=console)
    assert (outcome.env_steps, len(outcome.returns)) == (100, 1)
    longer = resume(tmp_path / "run", changes={"env_steps": 120}, console=console)
    assert (longer.env_steps, len(longer.returns)) == (120, 1)
    assert repeat(tmp_path / "run", console=console).identical
    with pytest.raises(OSError, match=FULL):
        console.print("a program's own lines still fail")


# Commands, as processes.


@pytest.mark.slow
def test_a_run_whose_output_and_errors_are_lost_trains_to_its_end(config, run):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*COMMAND, "train", config(500), "--run", run],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, LOST)
        again = [*COMMAND, "resume", run, "--set", "env_steps=600"]
        assert subprocess.run(again, stdout=full, stderr=full, check=False).returncode == 0
        again = [*COMMAND, "replay", run]
        assert subprocess.run(again, stdout=full, stderr=full, check=False).returncode == 0
    with open(f"{run}/digest.json") as file:  # noqa: PTH123
        assert json.load(file)["env_step"] == 600


@pytest.mark.slow
def test_a_population_whose_reader_has_ended_trains_to_its_end(config, run):
    with subprocess.Popen(
        [*COMMAND, "train", config(500), "--run", run, "--seeds", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, LOST.replace(FULL, "Broken pipe"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["train", "--help"],
        ["--version"],
        ["configs"],
        ["ls", "."],
        ["ls", ".", "--json"],
    ],
)
def test_any_other_command_says_so_in_a_line(arguments, tmp_path):
    (tmp_path / "r/control").mkdir(parents=True)
    (tmp_path / "r/control/state.json").write_text("{")  # something to list
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
            cwd=tmp_path, check=False,
        )  # fmt: skip
    error = f"targetnet: cannot write the output: {FULL}\n"
    assert (done.returncode, done.stderr) == (1, error)


def test_a_mistake_is_all_that_is_said_where_nothing_was_to_be_written(tmp_path):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*COMMAND, "status", "nope"], stdout=full, stderr=subprocess.PIPE, text=True,
            cwd=tmp_path, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("targetnet: nope") and done.stderr.count("\n") == 1


def test_a_reader_that_has_ended_ends_another_command_silently():
    with subprocess.Popen(
        [*COMMAND, "configs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (1, "")


# Signals.


@pytest.fixture
def heard():
    """A SIGHUP that is not ignored, though pytest may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_closing_a_terminal_and_a_logout_after_it_end_nothing_at_once(heard):
    with stop_on_interrupt() as stop:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_an_ignored_sighup_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_interrupt() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_sighup_lets_jobs_save(heard, tmp_path):
    code = "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('saved')"
    log = tmp_path / "log"
    job = Job("job", [sys.executable, "-uc", f"print('up')\n{code}"], log)
    asked = iter([job, None])

    def jobs():
        yield next(asked)
        while "up" not in log.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGHUP)

    assert run_jobs(jobs(), 2, Console(quiet=True), total=1).exit_code == 129
    assert log.read_text() == "up\nsaved\n"


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_vanishes_lets_the_run_save_and_under_nohup_go_on(config, run, ignored):
    """The run leads a session whose terminal this is, so that the system sends it a SIGHUP."""
    steps = 20_000 if ignored else 10_000_000
    arguments = [*COMMAND, "train", config(steps), "--run", run]
    child, terminal = pty.fork()
    if not child:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
        os.execv(sys.executable, arguments)
    seen = b""
    while b"started in" not in seen:
        seen += os.read(terminal, 1_000)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (0 if ignored else 129)
    with open(f"{run}/digest.json") as file:  # noqa: PTH123
        end = json.load(file)
    assert end["env_step"] == steps if ignored else 0 < end["env_step"] < steps


# Memory.


@pytest.mark.cases(0)
@pytest.mark.parametrize("megabytes", [400, 1_200, 1_600, 2_200, 2_900])
def test_an_address_space_that_is_too_small_is_told_before_tensorflow_starts(
    config, run, megabytes
):
    limit = megabytes * 1_000_000
    done = subprocess.run(
        [*COMMAND, "train", config(500), "--run", run], capture_output=True, text=True, check=False,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    given = f"{limit / 1e6:.0f} MB" if limit < 1e9 else f"{limit / 1e9:.3g} GB"
    assert (done.returncode, done.stdout, done.stderr) == (
        2, "", f"targetnet: TensorFlow needs 3 GB of address space, but the limit is {given}; "
        "raise it: ulimit -v 2929688\n",
    )  # fmt: skip
    assert not os.path.exists(run)  # noqa: PTH110


def test_too_little_memory_for_a_thread_is_a_line(monkeypatch, capsys):
    def fails(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(command, "_run", fails)
    assert command.main(["configs"]) == 1
    line = "targetnet: can't start new thread: see the limits that `ulimit -a` shows"
    assert capsys.readouterr().err == f"{line}\n"


def test_a_replay_must_fit_into_what_tensorflow_leaves_of_the_address_space(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (3_000_000_000, -1))
    assert memory_limit() == 200_000_000


@pytest.mark.slow
def test_the_address_space_that_is_named_is_enough(run):
    limit = 2_929_688 * 1_024
    done = subprocess.run(
        [*COMMAND, "train", "cartpole-plain", "--run", run, "--set", "env_steps=1500"],
        capture_output=True, text=True, check=False,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
