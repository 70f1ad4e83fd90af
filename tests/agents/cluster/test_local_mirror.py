"""What comes home from another machine: names, pieces and digests that are not to be trusted."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from targetnet.agents.cluster import tree, worker
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.local_mirror import LocalMirror
from targetnet.agents.cluster.worker import NodeFile, Worker
from targetnet.agents.saved.directory import RESULT
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.files import write_whole


@pytest.fixture
def run(tmp_path):
    (tmp_path / "home" / "run").mkdir(parents=True)
    return tmp_path / "home" / "run"


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A run on a node with two checkpoints and a log of two lines."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Worker("run")
    made.prepare()
    path = made._tree
    (path / "control").mkdir(parents=True)
    (path / "control/log.jsonl").write_bytes(b"first\nsecond\nhal")
    store, chunks = CheckpointStore(path / "checkpoints"), {}
    for number in (1, 2):
        rows = [(number - 1, number, {"n": np.arange(number - 1, number)})]
        chunks = store.write(number, {"w": np.ones(3)}, {"a": 1}, chunks, rows)
    yield made, path
    made.close()


@pytest.mark.parametrize(
    "path",
    [
        "../outside", "/etc/outside", "control/../../outside", "m00/../../outside", "..", "", ".x",
        "control/lock", "control/token", "machines.json", "control/inbox/1-2.json", "a/b",
        "m00/a/b",
        "checkpoints/00000001/host.json", "checkpoints/rows/x", "events\n", "control/.x", "m1/x",
    ],
)  # fmt: skip
def test_a_name_that_is_none_of_a_runs_files_is_refused(run, path):
    with pytest.raises(ClusterError, match="a node sent a file named "):
        LocalMirror(run).take(NodeFile(path, 0, b"hostile", 1))
    assert not [*run.parent.rglob("*")][1:]


def test_a_link_at_home_is_not_written_through(run, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (run / "control").mkdir()
    (run / "control/trace.bin").symlink_to(outside)
    home = LocalMirror(run)
    home.have["control/trace.bin"] = (4, 0)
    with pytest.raises(OSError, match=r"cannot write .*trace\.bin"):
        home.take(NodeFile("control/trace.bin", 4, b"more", 8))
    assert outside.read_text() == "mine"


def test_a_population_that_has_no_member_yet_names_no_checkpoints(node):
    population, path = node
    shutil.rmtree(path)
    assert population.look({}, 0, {}).checkpoints == {}  # and not of "", which is no run here
    (path / "m00").mkdir(parents=True)
    assert population.look({}, 0, {}).checkpoints == {}
    CheckpointStore(path / "m00/checkpoints").write(1, {"w": np.ones(3)}, {}, {}, [])
    assert population.look({}, 0, {}).checkpoints == {"m00/": [1]}


@pytest.mark.parametrize(
    "place", ["control", "m00", "m00/control", "checkpoints", "checkpoints/rows",
              "checkpoints/00000001"],
)  # fmt: skip
def test_nothing_is_sent_from_a_tree_with_a_link_for_a_directory(run, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "id_rsa").write_text("mine")
    (run / place).parent.mkdir(parents=True, exist_ok=True)
    (run / place).symlink_to(outside)
    with pytest.raises(RunDirError, match=f"{place} is a link"):
        next(LocalMirror(run).files_to_send())


def test_rows_that_were_removed_for_newer_checkpoints_are_fetched_again(run, node):
    files, _ = node
    home = LocalMirror(run)
    fetch(home, files)
    for chunk in (run / "checkpoints/rows").iterdir():
        chunk.unlink()
    (run / "checkpoints/00000002").rename(run / "elsewhere")
    fetch(home, files)
    assert CheckpointStore(run / "checkpoints").latest().damaged == ()


def test_a_file_that_was_replaced_comes_anew_and_one_that_was_not_does_not(run, node):
    files, path = node
    home, name = LocalMirror(run), "config.toml"
    for text in ("old", "new"):
        write_whole(path / name, text.encode())
        bring(home, files)
        assert (run / name).read_text() == text
    (run / name).unlink()
    bring(home, files)
    assert not (run / name).exists()


@pytest.mark.parametrize("name", ["control/trace.bin", "config.toml"])
def test_a_piece_that_nobody_asked_for_is_refused(run, name):
    home = LocalMirror(run)
    home.take(NodeFile(name, 0, b"1234", 5))
    with pytest.raises(ClusterError, match=f"a node sent a wrong piece of {name}"):
        home.take(NodeFile(name, 5, b"1234", 9))


def test_what_was_cut_on_the_node_and_has_grown_again_comes_anew(run, node):
    files, path = node
    home, name = LocalMirror(run), "control/trace.bin"
    (path / name).write_bytes(b"1111")
    bring(home, files)
    (path / name).write_bytes(b"2222" * 2)
    bring(home, files)
    assert (run / name).read_bytes() == b"2222" * 2


@pytest.mark.parametrize("cut", [0, 6, 5_000, 9_998])
def test_whatever_a_cut_leaves_home_has_what_the_node_has(run, node, cut):
    files, path = node
    home, name = LocalMirror(run), "events.out.tfevents.1"
    for text in (b"x" * 10_000, b"x" * cut, b"x" * cut + b"y" * 9_999, b"z" * 4, b"z" * 9):
        (path / name).write_bytes(text)
        bring(home, files)
        assert (run / name).read_bytes() == text
    # What is here already does not come again.
    assert [file.path for file in files.look(home.have, 0, {}).files] == []
    with (path / name).open("ab") as curves:
        curves.write(b"new")
    (file,) = files.look(home.have, 0, {}).files
    assert (file.offset, file.data) == (9, b"new")


def bring(home, files, **how):
    look = files.look(home.have, 0, {}, **how)
    for file in look.files:
        home.take(file)
    for path in look.gone:
        home.drop(path)


def test_only_whole_lines_of_the_log_come_home(run, node):
    files, path = node
    home = LocalMirror(run)
    bring(home, files)
    assert (run / tree.LOG).read_bytes() == b"first\nsecond\n"
    with (path / tree.LOG).open("ab") as log:
        log.write(b"f\nthi")
    bring(home, files)
    assert (run / tree.LOG).read_bytes() == b"first\nsecond\nhalf\n"


def test_half_a_line_that_was_written_before_home_was_killed_is_not_gone_on_with(run, node):
    files, path = node
    (run / "control").mkdir()
    (run / tree.LOG).write_bytes(b"first\nsec")
    home = LocalMirror(run)
    sent = dict(home.files_to_send())
    # The run goes on from whole lines, and is told other things before home looks.
    (path / tree.LOG).write_bytes(sent[tree.LOG].rpartition(b"\n")[0] + b"\nthird\n")
    bring(home, files)
    assert (run / tree.LOG).read_bytes() == b"first\nthird\n"


def test_results_come_last(run, node):
    files, path = node
    (path / RESULT).write_text("{}")
    home = LocalMirror(run)
    bring(home, files)
    assert not (run / RESULT).exists()
    bring(home, files, last=True)
    assert (run / RESULT).exists()


def test_curves_that_the_run_removed_are_removed_and_nothing_else(run, node):
    files, path = node
    (path / "events.out.tfevents.1").touch()
    (path / "config.toml").touch()
    home = LocalMirror(run)
    bring(home, files)
    assert (run / "events.out.tfevents.1").exists()
    (path / "events.out.tfevents.1").unlink()
    (path / "config.toml").unlink()
    bring(home, files)
    assert not (run / "events.out.tfevents.1").exists() and (run / "config.toml").exists()


def fetch(home, files, number=2, read=None):
    home.begin_checkpoint("", number, files.hold("", number), read or files.read_held)
    home.end_checkpoint("", number, keep=2)


def test_a_checkpoint_comes_home_whole(run, node):
    files, path = node
    home = LocalMirror(run)
    assert home.lacks("", files.look({}, 0, {}).checkpoints[""]) == 2
    fetch(home, files)
    assert home.lacks("", [2]) is None
    last = CheckpointStore(run / "checkpoints").latest()
    assert (last.tick, last.damaged, [*last.chunks]) == (2, (), [*manifest_of(path)["chunks"]])


def manifest_of(path):
    text = (path / "checkpoints/00000002/manifest.json").read_text()
    return json.loads(text.split("\n")[0])


def test_a_checkpoint_that_the_run_removes_meanwhile_is_held(run, node):
    files, path = node
    manifest = files.hold("", 1)
    CheckpointStore(path / "checkpoints", keep=1).prune()
    assert files.look({}, 0, {}).checkpoints == {"": [2]}
    home = LocalMirror(run)
    home.begin_checkpoint("", 1, manifest, files.read_held)
    home.end_checkpoint("", 1, keep=2)
    assert CheckpointStore(run / "checkpoints").latest().tick == 1
    assert files.hold("", 1) is None


@pytest.mark.parametrize("more", [-1, 0, 1_000_000])
def test_rows_that_are_not_what_the_manifest_says_are_no_checkpoint(run, node, more):
    home = LocalMirror(run)
    with pytest.raises(ClusterError, match=r"\.safetensors came damaged from its node"):
        fetch(home, node[0], read=lambda name: b"x" * (len(node[0].read_held(name)) + more))
    assert CheckpointStore(run / "checkpoints").latest() is None
    assert not [*(run / "checkpoints/rows").iterdir()]


def sealed(manifest):
    text = json.dumps(manifest)
    return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n".encode()


@pytest.mark.parametrize("name", ["../../../outside", "000000000000000-000000000000001.x"])
def test_a_manifest_that_names_other_files_is_damaged(run, node, name):
    files, path = node
    manifest = manifest_of(path)
    manifest["chunks"] = {name: {"bytes": 1, "sha256": "0" * 64}}
    with pytest.raises(CheckpointError, match="is no name of a chunk"):
        LocalMirror(run).begin_checkpoint("", 2, sealed(manifest), files.read_held)


def test_a_chunk_of_another_past_is_fetched_again(run, node):
    files, path = node
    (run / "checkpoints/rows").mkdir(parents=True)
    for name, record in manifest_of(path)["chunks"].items():
        (run / "checkpoints/rows" / name).write_bytes(b"y" * record["bytes"])
    fetch(LocalMirror(run), files)
    assert CheckpointStore(run / "checkpoints").latest().tick == 2


def test_a_state_is_read_before_the_log_that_it_tells_of_and_written_after_it(node, monkeypatch):
    files, path = node
    (path / tree.STATE).write_text('{"log_bytes": 13}')
    (path / "control/trace.bin").touch()
    read, opened = [], worker.open_regular
    monkeypatch.setattr(worker, "open_regular", lambda path: read.append(path.name) or opened(path))
    taken = [file.path for file in files.look({}, 0, {}).files]
    assert read == ["state.json", "log.jsonl", "trace.bin"]
    assert taken == [tree.LOG, "control/trace.bin", tree.STATE]


def test_all_that_a_run_needs_goes_to_a_new_node_and_nothing_else(node):
    _, path = node
    for name in ("config.toml", "control/lock", "control/token", "machines.json", ".x.tmp"):
        (path / name).touch()
    sent = [name for name, _ in LocalMirror(path).files_to_send()]
    assert sent == [
        "config.toml", "control/log.jsonl",
        "checkpoints/rows/000000000000000-000000000000001.safetensors",
        "checkpoints/rows/000000000000001-000000000000002.safetensors",
        "checkpoints/00000001/host.json", "checkpoints/00000001/variables.safetensors",
        "checkpoints/00000001/manifest.json", "checkpoints/00000002/host.json",
        "checkpoints/00000002/variables.safetensors", "checkpoints/00000002/manifest.json",
    ]  # fmt: skip
