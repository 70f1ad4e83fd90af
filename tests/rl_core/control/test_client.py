"""Asking a run from another process, and being told what became of it."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from targetnet.rl_core.control.client import NotRunning, RunClient, ago
from targetnet.rl_core.control.commands import BadCommand, do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, is_alive, submit
from targetnet.rl_core.control.log import ControlLog, read_log
from targetnet.rl_core.errors import RunDirError
from tests.rl_core.control.entries import entry


def start(run, fake_run, *more):
    process = subprocess.Popen([sys.executable, fake_run, run, *more])
    files = ControlFiles(run)
    while not (files.state.exists() and is_alive(files)):
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.fixture(scope="module")
def fake_run(request):
    return request.path.parent / "fake_run.py"


@pytest.fixture
def run(tmp_path, fake_run):
    """A fake run in a process of its own."""
    with start(tmp_path / "run", fake_run) as process:
        yield tmp_path / "run"
        process.kill()


def test_set_returns_the_change_and_where_it_landed(run):
    entry = RunClient(run).set("sync_period", 50)
    assert entry.taken and (entry.old, entry.new, entry.who) == (500, 50, "api")
    assert entry.describe().startswith("sync_period 500 -> 50 at update ")
    assert entry == read_log(run / "control" / "log.jsonl")[-1]


def test_set_returns_the_refusal(run):
    entry = RunClient(run, who="cli").set("sync_perod", 50)
    assert not entry.taken and "did you mean 'sync_period'" in entry.reason


def test_several_commands_are_answered_in_their_order(run):
    entries = RunClient(run).ask([set_command("sync_period", n, "cli") for n in (3, 0, 5)])
    assert [entry.taken for entry in entries] == [True, False, True]
    assert entries[2].old == 3


def test_stop_is_answered_also_by_a_run_that_is_over_right_after(run):
    assert RunClient(run).do("stop").taken
    while is_alive(ControlFiles(run)):
        time.sleep(0.01)
    with pytest.raises(NotRunning, match=r"is not running: stopped at env step .* last heartbeat"):
        RunClient(run).set("sync_period", 50)
    assert list((run / "control" / "inbox").iterdir()) == []


def test_a_killed_run_is_called_killed(tmp_path, fake_run):
    with start(tmp_path / "run", fake_run) as process:
        process.kill()
    with pytest.raises(NotRunning, match="killed at env step"):
        RunClient(tmp_path / "run").do("pause")
    assert list((tmp_path / "run" / "control" / "inbox").iterdir()) == []


def test_of_several_commands_all_are_sent_or_none(run, monkeypatch):
    sent = []

    def full(files, command):
        if sent:
            raise RunDirError("cannot write: No space left on device")
        sent.append(submit(files, command))
        return sent[0]

    monkeypatch.setattr("targetnet.rl_core.control.client.submit", full)
    monkeypatch.setattr("targetnet.rl_core.control.client.is_alive", lambda files: True)
    commands = [set_command("tau", 0.5, "cli"), set_command("sync_period", 5, "cli")]
    for send in (RunClient(run).send, RunClient(run).begin):
        sent.clear()
        with pytest.raises(RunDirError, match="No space left"):
            send(commands)
        assert not sent[0].exists()


def test_a_run_that_does_not_answer_in_time_has_its_command_withdrawn(tmp_path, fake_run):
    with start(tmp_path / "run", fake_run) as process:
        process.send_signal(signal.SIGSTOP)  # alive, but busy with something else
        with pytest.raises(NotRunning, match=r"did not answer within 0\.2 s .*withdrawn"):
            RunClient(tmp_path / "run", timeout=0.2).set("sync_period", 50)
        assert list((tmp_path / "run" / "control" / "inbox").iterdir()) == []
        process.send_signal(signal.SIGCONT)
        assert RunClient(tmp_path / "run").set("tau", 0.5).taken
        process.kill()
    assert [e.name for e in read_log(tmp_path / "run" / "control" / "log.jsonl")] == ["tau"]


def test_of_several_commands_those_that_were_answered_are_told(tmp_path, fake_run):
    with start(tmp_path / "run", fake_run) as process:
        process.send_signal(signal.SIGSTOP)
        commands = [set_command("tau", 0.5, "cli"), do_command("sync", "cli")]
        asked = RunClient(tmp_path / "run", timeout=0.2).begin(commands)
        log = ControlLog(tmp_path / "run" / "control" / "log.jsonl")
        log.append([entry(id=commands[0].id)])
        log.close()
        with pytest.raises(NotRunning, match=r"answered before: tau 1 -> 0\.5 .*: the other comm"):
            asked.answers()
        process.kill()
    assert list((tmp_path / "run" / "control" / "inbox").iterdir()) == []


def test_a_run_that_dies_while_it_is_asked_is_noticed(tmp_path, fake_run):
    with start(tmp_path / "run", fake_run) as process:
        process.send_signal(signal.SIGSTOP)
        threading.Timer(0.3, process.kill).start()
        with pytest.raises(NotRunning, match="not running any more"):
            RunClient(tmp_path / "run", timeout=60).set("sync_period", 50)
    assert list((tmp_path / "run" / "control" / "inbox").iterdir()) == []


def test_what_cannot_be_sent_is_refused_before_anything_is_written(run):
    for value in (float("nan"), float("inf"), True, None, {"a": 1}, object()):
        with pytest.raises(BadCommand):
            RunClient(run).set("tau", value)
    with pytest.raises(BadCommand, match="did you mean 'pause'"):
        RunClient(run).do("pauze")
    assert read_log(run / "control" / "log.jsonl") == []


def test_no_run_is_one_clear_line(tmp_path):
    with pytest.raises(RunDirError, match="cannot be steered"):
        RunClient(tmp_path).set("tau", 0.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s ago"), (119, "119 s ago"), (121, "2 min ago"), (7_300, "2 h ago"),
     (200_000, "2 d ago"), (-5, "0 s ago")],
)  # fmt: skip
def test_ago(seconds, text):
    assert ago(time.time() - seconds) == text


@pytest.mark.parametrize(
    ("commands", "kills"), [(80, 5), pytest.param(200, 20, marks=pytest.mark.slow)]
)
def test_commands_against_kills_are_each_in_the_log_once(tmp_path, fake_run, commands, kills):
    """Every acknowledged command once, none twice, and in the end all of them."""
    rng = np.random.default_rng(0)
    run = tmp_path / "run"
    files = ControlFiles(run)
    process = start(run, fake_run)
    sent, acknowledged, killed = [], set(), 0
    gaps = rng.permutation([True] * kills + [False] * (commands - kills))
    for number, kill_now in enumerate(gaps):
        command = set_command("sync_period", number + 1, "cli")
        sent.append(command.id)
        submit(files, command)
        if kill_now:
            time.sleep(rng.uniform(0, 0.03))
            process.kill()
            process.wait()
            killed += 1
            acknowledged |= {entry.id for entry in read_log(files.log)}
            process = start(run, fake_run)
    while list(files.inbox.glob("*.json")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    logged = [entry.id for entry in read_log(files.log)]
    assert killed == kills and len(logged) == len(set(logged))
    assert acknowledged <= set(logged)
    assert sorted(logged) == sorted(sent)
