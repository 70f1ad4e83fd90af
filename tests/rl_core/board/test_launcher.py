"""Boards: real TensorBoard processes, asked over HTTP what they show."""

import contextlib
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest
from tensorboard.compat.proto import graph_pb2, node_def_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2 as hparams_api
from tensorboard.plugins.hparams import metadata as hparams_plugin
from tensorboard.plugins.hparams import plugin_data_pb2 as hparams_data

from targetnet.rl_core.board import launcher
from targetnet.rl_core.board.events import EventWriter, write_apart
from targetnet.rl_core.board.launcher import BoardError, serve, start_beside
from targetnet.rl_core.board.once import (
    animation_event,
    charts_event,
    event_of,
    graph_event,
    hparams_event,
)
from targetnet.rl_core.board.tags import live_tag

PATIENCE = 60.0  # seconds until a wait is given up


def wait_for(condition, what):
    """The first true value of `condition()`, which is tried again until there is one."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)
    return value


class Shown(NamedTuple):
    """A board, the directory it shows and the writer of the run `cartpole` in it."""

    board: launcher.Board
    logdir: Path
    writer: EventWriter

    def get(self, route, **query):
        return self._ask(f"{route}?{urllib.parse.urlencode(query)}", None)

    def post(self, route, request):
        return self._ask(route, json.dumps(request).encode())

    def _ask(self, route, body):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.board.url + "data/plugin/" + route, body, headers)
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request) as reply:
            return json.load(reply)

    def series(self, plugin, tag):
        """What the plugin shows for a tag, once it shows anything."""
        query = {"run": "cartpole", "tag": tag}
        return wait_for(lambda: self.get(f"{plugin}/{plugin}", **query), f"{tag} in {plugin}")


def old_columns(*names):
    experiment = hparams_api.Experiment(
        hparam_infos=[hparams_api.HParamInfo(name=name) for name in names],
        metric_infos=[
            hparams_api.MetricInfo(name=hparams_api.MetricName(tag=tag))
            for tag in ("evaluation/return", "episode/return")
        ],
    )
    data = hparams_data.HParamsPluginData(experiment=experiment)
    summary = summary_pb2.Summary()
    summary.value.add(
        tag=hparams_plugin.EXPERIMENT_TAG,
        metadata=hparams_plugin.create_summary_metadata(data),
        tensor=hparams_plugin.NULL_TENSOR,
    )
    return event_of(summary)


@pytest.fixture(scope="module", params=["true", "false"], ids=["fast loader", "slow loader"])
def shown(request, tmp_path_factory):
    logdir = tmp_path_factory.mktemp("runs")
    with EventWriter(logdir / "other", more_tags=[live_tag("tau", "1")]) as other:
        other.add(hparams_event({"env_id": "CartPole-v1", "sync_period": 50, "dueling": True}))
        other.scalar("live/tau", 0.5, 1)
        # As version 0.1 wrote them: columns that say nothing of other runs.
        other.add(old_columns("dueling", "env_id", "sync_period"))
    with EventWriter(logdir / "cartpole") as writer:
        writer.add(charts_event())
        node = node_def_pb2.NodeDef(name="online/torso/product", op="MatMul")
        writer.add(graph_event(graph_pb2.GraphDef(node=[node]).SerializeToString()))
        writer.add(hparams_event({"env_id": "CartPole-v1", "sync_period": 500, "dueling": True}))
        writer.text("run/config", "# a heading", 0)
        for step in (10, 20):
            writer.scalars({"learn/loss": 1 / step, "episode/return": step}, step)
        writer.scalars({"learn/loss": math.nan, "evaluation/return": 7.0}, 30)
        writer.histogram("learn/td_error", [0.0, 1.0, 1.0], 30)
        writer.flush()
        animation = animation_event("play/episode", b"GIF89a of a play", 4, 2, 30)
        write_apart(logdir / "other", animation, ".play")
        arguments = [f"--load_fast={request.param}", "--reload_interval=1"]
        board = start_beside(logdir, port=0, arguments=arguments)
        yield Shown(board, logdir, writer)
        board.stop()


# --- what is written is shown, by both of TensorBoard's loaders


@pytest.mark.cases(0)
def test_a_curve_is_shown_with_its_nan(shown):
    got = [point[1:] for point in shown.series("scalars", "learn/loss")]
    assert got == [[10, pytest.approx(0.1)], [20, pytest.approx(0.05)], [30, "NaN"]]


def test_a_curve_is_shown_with_its_meaning(shown):
    shown.series("scalars", "learn/loss")
    description = shown.get("scalars/tags")["cartpole"]["learn/loss"]["description"]
    assert description.startswith("<p>Mean loss over the batch")


def test_a_histogram_is_shown(shown):
    ((_, step, buckets),) = shown.series("histograms", "learn/td_error")
    assert (step, buckets[0][2], buckets[-1][2]) == (30, 1, 2)
    assert shown.series("distributions", "learn/td_error")


def test_a_text_is_shown_as_markdown(shown):
    (got,) = shown.series("text", "run/config")
    assert (got["step"], got["text"]) == (0, "<h1>a heading</h1>")


def test_the_time_series_tab_lists_curves_and_histograms(shown):
    shown.series("histograms", "learn/td_error")
    tags = shown.get("timeseries/tags")
    curves = {"learn/loss", "episode/return", "evaluation/return"}
    assert curves <= set(tags["scalars"]["runTagInfo"]["cartpole"])
    assert tags["histograms"]["runTagInfo"] == {"cartpole": ["learn/td_error"]}


def test_the_hparams_tab_lists_what_differs_and_the_returns(shown):
    shown.series("scalars", "evaluation/return")
    experiment = shown.post("hparams/experiment", {})
    columns = [(column["name"], column["differs"]) for column in experiment["hparamInfos"]]
    assert columns == [("sync_period", True)]  # not those that are alike
    metrics = [metric["name"]["tag"] for metric in experiment["metricInfos"]]
    assert metrics[:2] == ["evaluation/return", "episode/return"] and "live/tau" in metrics
    request = {"allowedStatuses": ["STATUS_UNKNOWN"], "sliceSize": 10}
    rows = shown.post("hparams/session_groups", request)["sessionGroups"]
    row, other = sorted(rows, key=lambda row: row["name"])
    assert (row["name"], other["name"]) == ("cartpole", "other")
    assert row["hparams"] == {"env_id": "CartPole-v1", "sync_period": 500.0, "dueling": True}
    assert [value["value"] for value in row["metricValues"][:2]] == [7.0, 20.0]


def test_return_loss_q_and_target_age_stand_together(shown):
    layout = wait_for(lambda: shown.get("custom_scalars/layout"), "the layout")
    (category,) = layout["category"]
    charts = {chart["title"]: chart["multiline"]["tag"] for chart in category["chart"]}
    assert [*charts] == ["return", "loss", "Q", "target age"]
    shown.series("scalars", "evaluation/return")
    asked = "|".join(charts["return"])
    curves = shown.get("custom_scalars/scalars", run="cartpole", tag=asked)["tag_to_events"]
    assert curves.keys() == {"episode/return", "evaluation/return"}


def test_the_graph_is_shown_without_tensorflow(shown):
    wait_for(lambda: shown.get("graphs/info").get("cartpole", {}).get("run_graph"), "the graph")
    url = f"{shown.board.url}data/plugin/graphs/graph?run=cartpole"
    with urllib.request.urlopen(url) as reply:
        assert b'name: "online/torso/product"' in reply.read()


def test_an_animation_beside_the_runs_own_file_is_shown_under_the_run(shown):
    query = {"run": "other", "tag": "play/episode", "sample": 0}
    (image,) = wait_for(lambda: shown.get("images/images", **query), "the animation")
    assert image["step"] == 30
    assert shown.get("scalars/scalars", run="other", tag="live/tau")
    assert not any("play" in run for run in shown.get("scalars/tags"))


def test_a_curve_grows_while_it_is_watched(shown):
    shown.series("scalars", "learn/loss")
    shown.writer.scalar("target/age", 3.0, 40)
    shown.writer.flush()
    assert [point[1:] for point in shown.series("scalars", "target/age")] == [[40, 3.0]]


def test_tensorflow_is_not_loaded(shown):
    shown.series("scalars", "learn/loss")
    maps = Path(f"/proc/{shown.board.process.pid}/maps")
    if not maps.exists():
        pytest.skip("needs /proc")
    assert "/tensorflow/" not in maps.read_text()


# --- the process beside a run


def answers(url):
    """Whether anything listens there."""
    place = urllib.parse.urlparse(url)
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", place.port)) == 0


@pytest.fixture
def board(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # would hide an address left in a buffer
    board = start_beside(tmp_path, port=0)
    yield board
    board.stop()


@pytest.mark.thorough
def test_it_is_out_of_ctrl_cs_reach_and_stopping_ends_it_and_may_be_repeated(board):
    assert os.getsid(board.process.pid) == board.process.pid != os.getsid(0)
    assert answers(board.url)
    board.stop()
    board.stop()
    assert not answers(board.url)
    assert board.process.returncode == 0


def test_a_board_that_ignores_the_request_is_stopped_by_force(board, monkeypatch):
    monkeypatch.setattr(launcher, "STOP_SECONDS", 0.2)
    os.kill(board.process.pid, signal.SIGSTOP)  # acts on SIGKILL only
    board.stop()
    assert board.process.returncode == -signal.SIGKILL


@pytest.mark.thorough
def test_the_first_board_leaves_the_default_port_and_the_second_finds_the_next(tmp_path):
    first = start_beside(tmp_path)
    second = start_beside(tmp_path)
    try:
        assert answers(first.url) and answers(second.url)
        assert first.url != second.url
    finally:
        first.stop()
        second.stop()


PARENT = """
import sys, time
from pathlib import Path
from targetnet.rl_core.board.launcher import start_beside
print(start_beside(Path(sys.argv[1]), port=0).url, flush=True)
time.sleep(600)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be asked for this")
def test_a_board_does_not_outlive_a_killed_parent(tmp_path):
    command = [sys.executable, "-c", PARENT, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        url = parent.stdout.readline()
        assert answers(url)
        parent.kill()
    wait_for(lambda: not answers(url), "the end of the board")


@pytest.fixture
def started(monkeypatch):
    """The processes the launcher starts."""
    processes = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            processes.append(self)

    monkeypatch.setattr(launcher.subprocess, "Popen", Recorded)
    return processes


def test_a_board_that_does_not_get_ready_is_given_up_and_ended(tmp_path, monkeypatch, started):
    monkeypatch.setattr(launcher, "START_SECONDS", 0.0)
    with pytest.raises(BoardError, match="did not start within 0 s"):
        start_beside(tmp_path)
    (process,) = started
    assert process.returncode == -signal.SIGKILL


def test_no_interpreter_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(BoardError, match=r"^cannot start TensorBoard: No such file or directory$"):
        start_beside(tmp_path)


# --- the foreground


def run_board(*arguments):
    """`python -m targetnet.rl_core.board` until it ends by itself: exit code, stdout, stderr."""
    command = [sys.executable, "-m", "targetnet.rl_core.board", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.cases(0)
@pytest.mark.parametrize("loader", ["auto", pytest.param("false", marks=pytest.mark.slow)])
def test_ctrl_c_ends_the_foreground_quietly_and_only_the_address_was_said(tmp_path, loader):
    (tmp_path / "run").mkdir()  # else it says that there is no run yet
    command = [
        sys.executable,
        "-m",
        "targetnet.rl_core.board",
        tmp_path,
        "--port=0",
        f"--load_fast={loader}",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert re.fullmatch(r"TensorBoard at http://localhost:\d+/ \(Ctrl-C to stop\)\n", line)
    assert (process.returncode, stdout, stderr) == (0, "", "")


def test_ctrl_c_while_the_board_is_starting_is_quiet_too(tmp_path, monkeypatch, capfd):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(launcher, "_configured", interrupted)
    serve(tmp_path, full=True)
    assert capfd.readouterr() == ("", "")


@contextlib.contextmanager
def taken_port(listening):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listening:
            server.listen()
        yield server.getsockname()[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "listening",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["listening", "only bound"],
)
def test_a_port_that_was_asked_for_and_is_taken_is_one_clear_line(tmp_path, listening):
    with taken_port(listening) as port:
        line = (
            f"port {port} is already in use; choose another, or leave it out to take "
            "the first free one from 6006 on"
        )
        assert run_board(tmp_path, f"--port={port}") == (2, "", line + "\n")
        with pytest.raises(BoardError) as error:
            start_beside(tmp_path, port=port)
        assert str(error.value) == line


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "arguments, line",
    [
        (["--no-such"], "tensorboard: error: unrecognized arguments: --no-such"),
        (["--path_prefix=x"], "Path prefix must start with slash, but got: 'x'."),
        (
            ["--host=192.0.2.1", "--port=0"],  # an address reserved for documentation
            "TensorBoard cannot listen at 192.0.2.1:0: Cannot assign requested address",
        ),
    ],
)
def test_what_tensorboard_refuses_is_one_clear_line(tmp_path, arguments, line):
    assert run_board(tmp_path, *arguments) == (2, "", line + "\n")


def test_what_is_no_directory_is_one_clear_line(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "runs"):
        line = f"cannot show {str(path)!r}: {str(file)!r} is not a directory"
        assert run_board(path) == (2, "", line + "\n")
        with pytest.raises(BoardError) as error:
            start_beside(path)
        assert str(error.value) == line


# --- before there is a run


@pytest.mark.thorough
def test_a_run_that_begins_later_appears_in_a_board_that_waits(tmp_path):
    logdir = tmp_path / "later" / "runs"
    board = start_beside(logdir, port=0, arguments=["--reload_interval=1"])
    try:
        with urllib.request.urlopen(board.url + "data/plugin/steer/runs") as reply:
            assert json.load(reply)["runs"] == []
        with EventWriter(logdir / "first") as writer:
            writer.scalars({"learn/loss": 1.0}, 1)

        def runs():
            with urllib.request.urlopen(board.url + "data/runs") as reply:
                return json.load(reply)

        assert wait_for(runs, "the run") == ["first"]
    finally:
        board.stop()


@pytest.mark.parametrize("content", [None, "directory", "a run"])
def test_serving_says_whether_there_is_a_run_yet(tmp_path, capsys, content):
    logdir = tmp_path / "runs"
    if content:
        (logdir if content == "directory" else logdir / "cartpole-1").mkdir(parents=True)
    launcher._say_if_empty(logdir)
    said = f"there is no run in {logdir} yet; a run appears when it has begun\n"
    assert capsys.readouterr().out == ("" if content == "a run" else said)


@pytest.mark.parametrize("port", [-1, 65536])
def test_an_impossible_port_is_one_clear_line(tmp_path, port):
    with pytest.raises(BoardError, match=f"^a port must be 0 to 65535, got {port}$"):
        serve(tmp_path, port=port)


def test_full_leaves_tensorflow_in(tmp_path, monkeypatch):
    tape = []
    program = types.SimpleNamespace(main=lambda: tape.append("serve"))
    monkeypatch.setattr(launcher, "_leave_out_tensorflow", lambda: tape.append("leave out"))
    monkeypatch.setattr(launcher, "_configured", lambda argv: program)
    serve(tmp_path, full=True)
    serve(tmp_path)
    assert tape == ["serve", "leave out", "serve"]


# --- the module


def test_importing_it_imports_no_tensorflow_no_tensorboard_and_nothing_else_of_ours():
    check = (
        "import rl_core, sys\n"
        "before = set(sys.modules)\n"
        "import targetnet.rl_core.board.__main__\n"
        "tops = {name.split('.')[0] for name in sys.modules}\n"
        "assert not tops & {'tensorflow', 'tensorboard', 'numpy'}, tops\n"
        "print(*sorted(m for m in set(sys.modules) - before if m.startswith('rl_core')))"
    )
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    ours = {
        "targetnet.rl_core.board",
        "targetnet.rl_core.board.__main__",
        "targetnet.rl_core.board.launcher",
        "targetnet.rl_core.errors",
    }
    assert set(done.stdout.split()) <= ours
