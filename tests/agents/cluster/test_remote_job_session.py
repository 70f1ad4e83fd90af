"""The order in which things come home."""

import threading
from pathlib import Path

import pytest

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.local_mirror import LocalMirror, LocalRuns
from targetnet.agents.cluster.messages import FilePiece, JobInputs, NodeFacts, NodeReport
from targetnet.agents.cluster.node_files import sha256_of
from targetnet.agents.cluster.nodes import versions
from targetnet.agents.cluster.remote_job_session import RemoteJobSession
from targetnet.rl_core.control.commands import set_command
from targetnet.rl_core.control.files import ControlFiles, submit

ABOUT = NodeFacts("1", "node", versions(), "Abacus")


class Script:
    """An actor that answers from a list of looks, and tells each call before it answers."""

    def __init__(self, looks, before=lambda method: None):
        self.interrupted, self.killed, self.node = threading.Event(), threading.Event(), "node"
        self._looks, self._before, self.tape = iter(looks), before, []
        self.run = Path()

    def call(self, method, *arguments, **more):
        self._before(method)
        self.tape.append((method, *arguments))
        sizes = arguments[0] if method == "digests" else {}
        answers = {
            "look": lambda: next(self._looks),
            "post": lambda: True,
            "digests": lambda: {path: sha256_of(self.run / path, n) for path, n in sizes.items()},
        }
        return answers.get(method, lambda: None)()


def look(*, code=None, pieces=(), command_files=(), more=False, checkpoints=None):
    return NodeReport(
        code, "", b"", list(pieces), [], set(command_files), checkpoints or {"": []}, more
    )


@pytest.fixture
def visit(tmp_path):
    run = tmp_path / "run"
    runs = LocalRuns(run, [""])
    runs.lock()

    def visit(actor):
        portable, actor.run = JobInputs(run, [run], {"cartpole": b"text"}), run
        return RemoteJobSession(
            actor, LocalMirror(run), runs, portable, tmp_path / "log", lambda: None
        )

    yield visit
    runs.release()


def test_a_command_file_stays_at_home_until_all_of_the_log_is_there(visit, tmp_path):
    command_file = submit(ControlFiles(tmp_path / "run"), set_command("x", 1, "api"))
    log = "control/log.jsonl"
    there = []
    looks = [
        look(command_files=[command_file.name]),
        look(
            pieces=[FilePiece(log, 1, 0, b"first\n", 13)], more=True
        ),  # answered: it waits no more
        look(pieces=[FilePiece(log, 1, 6, b"second\n", 13)]),
        look(code=0),
        look(code=0),
    ]
    actor = Script(
        looks, lambda method: there.append(command_file.exists()) if method == "look" else 0
    )
    made = visit(actor)
    made.begin(["train", "cartpole"], ABOUT)
    assert made.follow() == 0
    assert there == [True, True, True, False, False]


@pytest.mark.thorough
def test_a_command_file_that_was_withdrawn_at_home_is_taken_back_from_the_node(visit, tmp_path):
    command_file = submit(ControlFiles(tmp_path / "run"), set_command("x", 1, "api"))
    looks = [
        look(),
        look(command_files=[command_file.name]),
        look(command_files=[command_file.name]),
        look(),
        look(code=0),
    ]
    calls = []

    def before(method):
        calls.append(method)
        if calls.count("look") == 3:  # its sender has waited long enough
            command_file.unlink(missing_ok=True)

    actor = Script([*looks, look(code=0)], before)
    made = visit(actor)
    made.begin(["train", "cartpole"], ABOUT)
    assert made.follow() == 0
    posts = [given for method, *given in actor.tape if method == "post"]
    assert posts[0][:2] == ["", command_file.name] and posts[0][2] is not None
    assert posts[1:] == [["", command_file.name, None]]


@pytest.mark.parametrize(
    "checkpoints", [{"../4/": [99_999_999]}, {"/etc/": [1]}, {"m00/": [1]}, {"": ["../1"]},
                    {"": [10**20]}, {"": [True]}, {"": [-1]}],
    ids=str,
)  # fmt: skip
def test_checkpoints_of_other_places_are_refused(visit, tmp_path, checkpoints):
    actor = Script([look(checkpoints=checkpoints)])
    made = visit(actor)
    made.begin(["train", "cartpole"], ABOUT)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ClusterError, match=r"it has checkpoints of .* that are none"):
        made.follow()
    assert sorted(tmp_path.rglob("*")) == before and "hold" not in dict.fromkeys(
        method for method, *_ in actor.tape
    )


def test_a_node_gets_files_before_its_process_starts(visit):
    actor = Script([])
    visit(actor).begin(["-m", "targetnet.agents.cli", "train", "cartpole"], ABOUT)
    assert [method for method, *_ in actor.tape] == ["prepare", "put", "start"]
    assert actor.tape[1] == ("put", "cartpole.toml", 0, b"text")


def test_words_of_the_command_are_those_of_the_node(tmp_path):
    run, file = tmp_path / "a/3", str(tmp_path / "b/mine.toml")
    portable = JobInputs(run, [run / "m00", run / "m01"], {file: b"", "cartpole": b""})
    command = ["python", "train", file, "cartpole", "--run", str(run), "--resume"]
    assert portable.arguments(command) == [
        "train", "mine.toml", "cartpole.toml", "--run", "3", "--resume"
    ]  # fmt: skip
    assert portable.names() == ["m00/", "m01/"]
    assert JobInputs(run, [run]).names() == [""]
