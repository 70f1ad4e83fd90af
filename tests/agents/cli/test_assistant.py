"""What an assistant may ask of runs: bounded answers, one line for a mistake, nothing outside."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from targetnet.agents.cli.assistant import READING, STEERING, Tools
from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.control.commands import ACTIONS
from targetnet.rl_core.control.files import ControlFiles, is_alive
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RlCoreError

ROOT = Path(__file__).parents[3]
FAKE_RUN = ROOT / "tests/rl_core/control/fake_run.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A directory with a run that is at work (without TensorFlow) and has one curve."""
    directory = tmp_path_factory.mktemp("runs")
    run = directory / "fake-1"
    with EventWriter(run) as events:
        for env_step in range(0, 50_000, 10):
            events.scalar("episode/return", env_step / 10, env_step)
        events.scalar("learn/loss", float("nan"), 10)
    process = subprocess.Popen([sys.executable, FAKE_RUN, run], env={"PYTHONPATH": str(ROOT)})
    while not (run / "control/state.json").exists() or not is_alive(ControlFiles(run)):
        assert process.poll() is None
    yield directory
    process.kill()
    process.wait()


@pytest.fixture
def tools(runs):
    return Tools(runs)


def refused(call, *arguments):
    """The one line that an assistant is told."""
    with pytest.raises(RlCoreError) as error:
        call(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_runs_are_listed_with_their_progress(tools):
    (listed,) = tools.list_runs()["runs"]
    assert (listed["run"], listed["status"], listed["env_id"]) == ("fake-1", "running", "Fake-v0")
    assert listed["env_steps"] == 1_000_000


def test_the_status_has_every_live_value_with_its_bounds_and_meaning(tools):
    status = tools.status("fake-1")
    values = {value["name"]: value for value in status["live_values"]}
    assert list(values) == ["sync_period", "tau", "epsilon", "exempt"]
    assert values["tau"]["bounds"] and values["tau"]["meaning"] == "share of a copy"
    assert values["epsilon"]["source"] == "schedule" and "learn/q_mean" in status["curves"]


def test_a_value_that_is_set_is_in_the_log_under_the_name_mcp(tools, runs):
    answer = tools.set("fake-1", "sync_period", 77)
    assert answer["taken"] and answer["text"].startswith("sync_period 500 -> 77 at update ")
    entry = read_log(runs / "fake-1/control/log.jsonl")[-1]
    assert (entry.who, entry.name, entry.new) == ("mcp", "sync_period", 77)
    assert tools.log("fake-1", 1)["entries"] == [answer | {"when": "0 s ago"}]
    assert tools.set("fake-1", "sync_period", "auto")["text"].startswith("sync_period 77 -> 500")
    assert tools.set("fake-1", "exempt", ["head"])["taken"]
    assert tools.set("fake-1", "tau", "0.5")["text"].startswith("tau 1 -> 0.5 ")  # numbers as text


def test_a_refusal_is_an_answer_with_the_reason_of_the_run(tools):
    answer = tools.set("fake-1", "tau", 2)
    assert (
        not answer["taken"]
        and answer["text"] == "refused tau = 2: tau must be a number in (0, 1], got 2"
    )
    assert "did you mean 'sync_period'" in tools.set("fake-1", "sync_perod", 5)["text"]


def test_an_action_is_done_and_an_unknown_one_is_not(tools, runs):
    assert tools.do("fake-1", "snapshot")["taken"]
    assert read_log(runs / "fake-1/control/log.jsonl")[-1].who == "mcp"
    assert tools.do("fake-1", "perturb", "0.8 torso")["text"].startswith("perturb 0.8 torso at")
    assert "a factor above 0 and below 1" in refused(tools.do, "fake-1", "perturb", "2")
    assert "cannot do 'dance'" in refused(tools.do, "fake-1", "dance")
    assert all(f"{action}: " in Tools.do.__doc__ for action in ACTIONS)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, None, {}, "x" * 2_000])
def test_values_that_no_command_may_have_are_refused(tools, value):
    try:
        assert not tools.set("fake-1", "tau", value)["taken"]
    except RlCoreError as error:
        assert "value" in str(error)


def test_a_curve_is_thinned_out_with_its_first_and_last_point(tools):
    curve = tools.curve("fake-1", "episode/return", 11)
    assert len(curve["points"]) == 11 and curve["thinned_out_from"] == 5_000
    assert curve["points"][0] == [0, 0.0] and curve["points"][-1] == [49_990, 4_999.0]
    assert (curve["smallest"], curve["largest"], curve["complete"]) == (0.0, 4_999.0, True)
    steps = [env_step for env_step, _ in curve["points"]]
    gaps = [b - a for a, b in itertools.pairwise(steps)]
    assert max(gaps) < 2 * min(gaps)


def test_a_curve_with_nan_is_json(tools):
    curve = tools.curve("fake-1", "learn/loss")
    assert curve["points"] == [[10, "nan"]] and curve["smallest"] is None
    json.dumps(curve, allow_nan=False)


def test_a_curve_that_is_not_there_is_answered_with_the_nearest(tools):
    assert refused(tools.curve, "fake-1", "episode/retun") == (
        "fake-1 has no curve 'episode/retun'; did you mean 'episode/return'?"
    )
    for points in (1, 1_001, -5):
        assert "points must be from 2 to 1,000" in refused(tools.curve, "fake-1", "a", points)
    for last in (0, 201):
        assert "last must be from 1 to 200" in refused(tools.log, "fake-1", last)


EVERY_TOOL = [
    ("status",), ("curve", "episode/return"), ("log",), ("set", "tau", 0.5), ("do", "sync"),
]  # fmt: skip


@pytest.mark.parametrize("tool", EVERY_TOOL)
@pytest.mark.parametrize(
    "name",
    ["../outside", "outside", "/", "", ".", "..", "fake-1/", "fake-1/control", "\0", "x" * 9_999],
)
def test_only_names_of_the_list_are_runs(runs, tool, name):
    outside = runs.parent / "outside"
    outside.mkdir(exist_ok=True)
    name = str(outside) if name == "/" else name
    method, *arguments = tool
    assert "no run" in refused(getattr(Tools(runs), method), name, *arguments)
    assert len(refused(getattr(Tools(runs), method), name, *arguments)) < 400


@pytest.fixture
def linked(tmp_path, runs):
    """A directory of runs whose one run is made of links, which a test makes, to a real run."""
    run = tmp_path / "here/fake-1"
    (run / "control").mkdir(parents=True)
    return Tools(tmp_path / "here", timeout=0.1), run, runs / "fake-1"


def copy_state(run, real):
    (run / "control/state.json").write_bytes((real / "control/state.json").read_bytes())


@pytest.mark.parametrize("link", ["state.json", "log.jsonl", "inbox", "lock"])
@pytest.mark.parametrize("tool", EVERY_TOOL)
def test_a_run_whose_files_lead_elsewhere_is_neither_read_nor_steered(linked, link, tool):
    tools, run, real = linked
    if link != "state.json":
        copy_state(run, real)
    (run / "control" / link).symlink_to(real / "control" / link)
    before = command_files_and_log(real)
    method, *arguments = tool
    assert "leads out of the log directory" in refused(getattr(tools, method), "fake-1", *arguments)
    assert "leads out" in tools.list_runs()["damaged"][0]["problem"]
    assert command_files_and_log(real) == before


def command_files_and_log(run):
    return sorted((run / "control/inbox").iterdir()), read_log(run / "control/log.jsonl")


def test_a_run_directory_that_is_a_link_is_no_run(tmp_path, runs):
    (tmp_path / "fake-1").symlink_to(runs / "fake-1")
    assert tools_find_nothing(tmp_path)


def test_a_control_directory_that_is_a_link_out_is_refused(linked):
    tools, run, real = linked
    (run / "control").rmdir()
    (run / "control").symlink_to(real / "control")
    assert "leads out" in refused(tools.set, "fake-1", "tau", 0.5)


def tools_find_nothing(directory):
    return Tools(directory).list_runs() == {"runs": [], "not_listed": 0, "damaged": []}


def test_an_event_file_that_is_a_link_is_not_read(linked):
    tools, run, real = linked
    copy_state(run, real)
    (path,) = real.glob("events.*")
    (run / path.name).symlink_to(path)
    with pytest.raises(OSError, match="symbolic link"):
        tools.curve("fake-1", "episode/return")


def test_answers_of_a_hostile_run_are_bounded_and_printable(linked):
    tools, run, real = linked
    state = json.loads((real / "control/state.json").read_text())
    value = state["values"][0] | {"name": "n\x1b[31m" * 100, "meaning": "m\n" * 500}
    state |= {
        "env_id": "e\n\x1b" * 2_000, "values": [value] * 250, "note": "n" * 1_000,
        "recent": {f"tag{i}" * 10: [1, 2.0] for i in range(2_000)},
    }  # fmt: skip
    text = json.dumps(state)
    assert 600_000 < len(text) < 1 << 20  # a larger one is not read
    (run / "control/state.json").write_text(text)
    for answer in (tools.list_runs(), tools.status("fake-1")):
        shown = json.dumps(answer, ensure_ascii=False)
        assert len(shown) < 200_000 and shown.isprintable()


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b"\xff\xfe", b" " * (1 << 21)])
def test_a_damaged_state_is_one_line_and_hides_no_other_run(tmp_path, runs, content):
    for name in ("good", "bad"):
        (tmp_path / name / "control").mkdir(parents=True)
    copy_state(tmp_path / "good", runs / "fake-1")
    (tmp_path / "bad/control/state.json").write_bytes(content)
    tools = Tools(tmp_path)
    listed = tools.list_runs()
    assert [run["run"] for run in listed["runs"]] == ["good"]
    assert listed["runs"][0]["status"] == "killed"
    assert [run["run"] for run in listed["damaged"]] == ["bad"]
    assert "bad" in refused(tools.status, "bad")


def test_a_damaged_log_is_one_line(linked):
    tools, run, real = linked
    copy_state(run, real)
    state = json.loads((run / "control/state.json").read_text()) | {"log_bytes": 0}
    (run / "control/state.json").write_text(json.dumps(state))
    log = run / "control/log.jsonl"
    log.write_text("no entry\n")
    assert "is damaged" in refused(tools.log, "fake-1")
    with log.open("wb") as file:
        file.truncate(1 << 30)  # one line of a gigabyte, without a byte on the disk
    assert "its entries are too long" in refused(tools.log, "fake-1")


def test_at_most_two_hundred_runs_are_listed_and_the_rest_counted(tmp_path, runs):
    for i in range(205):
        run = tmp_path / f"run-{i}"
        (run / "control").mkdir(parents=True)
        copy_state(run, runs / "fake-1")
    listed = Tools(tmp_path).list_runs()
    assert len(listed["runs"]) == 200 and listed["not_listed"] == 5


def test_a_run_that_is_not_at_work_is_not_steered(linked):
    tools, run, real = linked
    copy_state(run, real)
    (run / "control/inbox").mkdir()
    assert "is not running: killed" in refused(tools.do, "fake-1", "sync")
    assert list((run / "control/inbox").iterdir()) == []


def test_the_tools_are_those_that_are_offered():
    methods = {name for name in vars(Tools) if not name.startswith("_")}
    assert methods == {*READING, *STEERING}


def test_one_run_may_be_given_instead_of_a_directory(runs):
    tools = Tools(runs / "fake-1")
    assert [run["run"] for run in tools.list_runs()["runs"]] == ["."]
    assert tools.set(".", "sync_period", 123)["taken"]
    assert read_state(ControlFiles(runs / "fake-1"))[1]
