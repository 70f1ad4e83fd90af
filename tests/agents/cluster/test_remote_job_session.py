"""The order in which things come home."""

import threading

import pytest

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.local_mirror import LocalMirror, LocalRuns
from targetnet.agents.cluster.remote_job_session import RemoteJobSession
from targetnet.agents.cluster.tree import JobInputs
from targetnet.agents.cluster.worker import NodeFile, NodeReport
from targetnet.rl_core.control.commands import set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from tests.agents.cluster.toys import node


class Script:
    """An actor that answers from a list of looks, and tells each call before it answers."""

    def __init__(self, looks, before=lambda method: None):
        self.interrupted, self.killed = threading.Event(), threading.Event()
        self._looks, self._before, self.tape = iter(looks), before, []

    def call(self, method, *arguments, **more):
        self._before(method)
        self.tape.append((method, *arguments))
        return next(self._looks) if method == "look" else None


def look(*, code=None, files=(), posted=(), waiting=(), checkpoints=None):
    return NodeReport(
        code, "", b"", list(files), [], set(posted), set(waiting), checkpoints or {"": []}
    )


@pytest.fixture
def visit(tmp_path):
    run = tmp_path / "run"
    runs = LocalRuns(run, [""])
    runs.lock()

    def visit(actor):
        inputs = JobInputs(run, [run], {"cartpole": b"text"})
        made = RemoteJobSession(
            actor, node("first"), LocalMirror(run), runs, inputs, tmp_path / "log", lambda: None
        )
        made.begin(["train", "cartpole"])
        return made

    yield visit
    runs.release()


def test_a_command_file_stays_at_home_until_its_answer_is_there(visit, tmp_path):
    command_file = submit(ControlFiles(tmp_path / "run"), set_command("x", 1, "api"))
    name, log, there = command_file.name, tmp_path / "run/control/log.jsonl", []
    looks = [
        look(),  # it has no inbox yet
        look(posted=[name], waiting=[name]),
        look(files=[NodeFile("control/log.jsonl", 0, b"answer\n", 7)]),  # it waits no more
        look(code=0),
        look(code=0),
    ]
    actor = Script(
        looks,
        lambda method: (
            there.append((command_file.exists(), log.exists())) if method == "look" else None
        ),
    )
    assert visit(actor).follow() == 0
    assert there == [(True, False)] * 3 + [(False, True)] * 2
    posts = [given[2] for method, *given in actor.tape if method == "look"]
    assert [[*post] for post in posts] == [[name], [name], [], [], []]


def test_a_node_that_claims_command_files_of_others_has_none_removed(visit, tmp_path):
    (tmp_path / "other").mkdir()
    files = ControlFiles(tmp_path / "other")
    files.make()
    others = submit(files, set_command("x", 1, "api"))
    looks = [look(posted=[f"../other/{others.name}"]), look(code=0), look(code=0)]
    assert visit(Script(looks)).follow() == 0
    assert others.exists()


@pytest.mark.thorough
def test_a_command_file_that_was_withdrawn_at_home_is_taken_back_from_the_node(visit, tmp_path):
    command_file = submit(ControlFiles(tmp_path / "run"), set_command("x", 1, "api"))
    name = command_file.name
    looks = [look(posted=[name], waiting=[name]), look(waiting=[name]), look(), look(code=0)]
    calls = []

    def before(method):
        calls.append(method)
        if calls.count("look") == 2:  # its sender has waited long enough
            command_file.unlink(missing_ok=True)

    actor = Script([*looks, look(code=0)], before)
    assert visit(actor).follow() == 0
    posts = [given[2] for method, *given in actor.tape if method == "look"]
    assert posts[0][name] is not None and posts[1:] == [{}, {name: None}, {}, {}]


@pytest.mark.parametrize(
    "checkpoints", [{"../4/": [99_999_999]}, {"/etc/": [1]}, {"m00/": [1]}, {"": ["../1"]},
                    {"": [10**20]}, {"": [True]}, {"": [-1]}],
    ids=str,
)  # fmt: skip
def test_checkpoints_of_other_places_are_refused(visit, tmp_path, checkpoints):
    actor = Script([look(checkpoints=checkpoints)])
    made = visit(actor)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ClusterError, match=r"it has checkpoints of .* that are none"):
        made.follow()
    assert sorted(tmp_path.rglob("*")) == before and "hold" not in dict.fromkeys(
        method for method, *_ in actor.tape
    )


def test_a_node_gets_files_before_its_process_starts(visit):
    actor = Script([])
    visit(actor)
    assert [method for method, *_ in actor.tape] == ["prepare", "put", "start"]
    assert actor.tape[1] == ("put", "cartpole.toml", b"text")


def test_words_of_the_command_are_those_of_the_node(tmp_path):
    run, file = tmp_path / "a/3", str(tmp_path / "b/mine.toml")
    portable = JobInputs(run, [run / "m00", run / "m01"], {file: b"", "cartpole": b""})
    command = ["python", "train", file, "cartpole", "--run", str(run), "--resume"]
    assert portable.arguments(command) == [
        "train", "mine.toml", "cartpole.toml", "--run", "3", "--resume"
    ]  # fmt: skip
    assert portable.names() == ["m00/", "m01/"]
    assert JobInputs(run, [run]).names() == [""]
