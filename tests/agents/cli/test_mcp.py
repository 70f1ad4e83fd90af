"""`targetnet mcp` with the package's own client, over standard input and output."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from targetnet.agents.cli import INTERRUPTED
from targetnet.agents.cli.assistant import READING, STEERING
from targetnet.agents.cli.main import main
from targetnet.rl_core.control.files import ControlFiles, is_alive
from targetnet.rl_core.control.log import read_log

ROOT = Path(__file__).parents[3]
FAKE_RUN = ROOT / "tests/rl_core/control/fake_run.py"
SMALL = ["hidden=[8]", "batch_size=8", "learn_start=50", "xla=false", "env_steps=1000000000"]


def asked(runs, *calls, options=()):
    """What a client is told: the names of the tools, then (is it an error, text) of each call."""
    pytest.importorskip("mcp", reason="mcp is not installed: pip install 'targetnet[mcp]'")
    from mcp import Client, StdioServerParameters

    async def talk():
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "targetnet.agents.cli", "mcp", str(runs), *options],
            env={"PYTHONPATH": str(ROOT)},
        )
        async with Client(server) as client:
            listed = await client.list_tools()
            answers = [await client.call_tool(name, given) for name, given in calls]
        return listed.tools, [(answer.is_error, answer.content[0].text) for answer in answers]

    return asyncio.run(talk())


def started(run, command):
    process = subprocess.Popen(
        command, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=run.parent,
    )  # fmt: skip
    while not (run / "control/state.json").exists() or not is_alive(ControlFiles(run)):
        assert process.poll() is None
    return process


@pytest.fixture
def runs(tmp_path):
    run = tmp_path / "runs/fake-1"
    run.parent.mkdir()
    process = started(run, [sys.executable, FAKE_RUN, run])
    yield run.parent
    process.kill()
    process.wait()


@pytest.mark.thorough
def test_a_client_finds_a_run_and_steers_it(runs):
    tools, (listed, put, refusal, unknown, wrong) = asked(
        runs,
        ("list_runs", {}),
        ("set", {"run": "fake-1", "name": "sync_period", "value": 50}),
        ("set", {"run": "fake-1", "name": "tau", "value": 7}),
        ("status", {"run": "../fake-1"}),
        ("do", {"run": "fake-1", "action": "dance"}),
    )
    assert [tool.name for tool in tools] == [*READING, *STEERING]
    assert all(tool.annotations.read_only_hint == (tool.name in READING) for tool in tools)
    assert json.loads(listed[1])["runs"][0]["run"] == "fake-1"
    entry, other = read_log(runs / "fake-1/control/log.jsonl")
    assert json.loads(put[1])["text"] == entry.describe() and (entry.who, entry.new) == ("mcp", 50)
    assert not json.loads(refusal[1])["taken"] and other.who == "mcp" and not other.taken
    assert unknown[0] and "no run '../fake-1' here; did you mean 'fake-1'?" in unknown[1]
    assert wrong[0] and "cannot do 'dance': there are sync, " in wrong[1] and "\n" not in wrong[1]


@pytest.mark.thorough
def test_a_read_only_server_offers_nothing_that_changes_a_run(runs):
    tools, (answer,) = asked(
        runs, ("do", {"run": "fake-1", "action": "stop"}), options=["--read-only"]
    )
    assert [tool.name for tool in tools] == [*READING]
    assert answer[0] and read_log(runs / "fake-1/control/log.jsonl") == []


@pytest.mark.thorough
def test_a_problem_in_a_file_is_one_line_and_no_traceback(runs):
    (runs / "fake-1/events.out.tfevents.1").symlink_to("/etc/passwd")
    _, (answer,) = asked(runs, ("curve", {"run": "fake-1", "tag": "learn/loss"}))
    line = "cannot read the run: it is a symbolic link"
    assert answer == (True, f"Error executing tool curve: {line}")


@pytest.mark.slow
def test_an_assistant_steers_a_real_run_to_its_end(tmp_path):
    run = tmp_path / "runs/cartpole-1"
    run.parent.mkdir()
    train = ["-m", "targetnet.agents.cli", "train", "cartpole", "--run", str(run), "--set", *SMALL]
    process = started(run, [sys.executable, *train])
    try:
        _, (put, curve, log, stop) = asked(
            run.parent,
            ("set", {"run": "cartpole-1", "name": "learning_rate", "value": 0.0005}),
            ("curve", {"run": "cartpole-1", "tag": "live/learning_rate"}),
            ("log", {"run": "cartpole-1"}),
            ("do", {"run": "cartpole-1", "action": "stop"}),
        )
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    text = json.loads(put[1])["text"]
    assert re.match(r"learning_rate [\d.]+ -> 0.0005 at update", text)
    *_, old, new = json.loads(curve[1])["points"]
    assert old[0] == new[0] - 1 and new[1] == pytest.approx(0.0005) != old[1]
    assert text in [entry["text"] for entry in json.loads(log[1])["entries"]]
    assert json.loads(stop[1])["taken"]
    asked_for = [e.name for e in read_log(run / "control/log.jsonl") if e.who == "mcp"]
    assert asked_for == ["learning_rate", "stop"]


@pytest.mark.thorough
def test_ctrl_c_ends_it_at_once_and_so_does_the_end_of_its_input(tmp_path):
    pytest.importorskip("mcp", reason="mcp is not installed: pip install 'targetnet[mcp]'")
    for end, code in (
        (lambda server: server.send_signal(signal.SIGINT), INTERRUPTED),
        (lambda server: server.stdin.close(), 0),
    ):
        with subprocess.Popen(
            [sys.executable, "-m", "targetnet.agents.cli", "mcp", str(tmp_path)],
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as server:  # fmt: skip
            server.stdin.write(b'not JSON\n{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            server.stdin.flush()
            assert b'"id":1' in server.stdout.readline()
            end(server)
            assert server.wait(30) == code
            assert b"Traceback" not in server.stderr.read()


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["mcp", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.err == "targetnet: targetnet mcp needs mcp: pip install 'targetnet[mcp]'\n"
    assert told.out == ""


def test_a_directory_that_is_not_there_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    assert main(["mcp", str(tmp_path / "runs")]) == 2
    assert "no such directory" in capsys.readouterr().err


@pytest.mark.thorough
def test_the_server_imports_no_tensorflow(tmp_path):
    pytest.importorskip("mcp", reason="mcp is not installed: pip install 'targetnet[mcp]'")
    code = (
        "import sys; from pathlib import Path\n"
        "from targetnet.agents.cli.mcp_command import server\n"
        "server(Path('.')); print('tensorflow' in sys.modules, 'gymnasium' in sys.modules)"
    )
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.stdout == "False False\n", done.stderr
