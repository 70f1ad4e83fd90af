"""The log, the state, the lock and the trace: whole, readable, and let go of."""

import json
import os
import subprocess
import sys
import threading
from unittest.mock import Mock

import numpy as np
import pytest

from targetnet.rl_core.control import files as files_module
from targetnet.rl_core.control import state as state_module
from targetnet.rl_core.control.files import ControlFiles, RunLock, is_alive
from targetnet.rl_core.control.log import ControlLog, LogTail, read_log
from targetnet.rl_core.control.records import TraceFile, read_trace
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.digest import checksums
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.files import clear_unfinished, write_whole
from tests.rl_core.control.entries import entry

# The log.


def test_what_was_appended_is_read(tmp_path):
    log = ControlLog(tmp_path / "log.jsonl")
    log.append([entry(1), entry(2, taken=False, reason="no")])
    assert read_log(tmp_path / "log.jsonl") == [entry(1), entry(2, taken=False, reason="no")]
    assert log.ids == {entry(1).id, entry(2).id}


def test_a_line_that_a_crash_cut_short_is_dropped_and_written_over(tmp_path):
    path = tmp_path / "log.jsonl"
    ControlLog(path).append([entry(1)])
    with path.open("ab") as file:
        file.write(b'{"id": "00' + b"0" * 2_000)  # longer than the line that comes
    assert read_log(path) == [entry(1)]
    ControlLog(path).append([entry(2)])
    assert read_log(path) == [entry(1), entry(2)]


@pytest.mark.parametrize("line", ["x", "[]", '{"id": 1}', "NaN"])
def test_a_damaged_line_is_an_error_that_names_it(tmp_path, line):
    path = tmp_path / "log.jsonl"
    ControlLog(path).append([entry(1)])
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RunDirError, match="line 2"):
        read_log(path)


def test_a_tail_gives_each_whole_line_once(tmp_path):
    path = tmp_path / "log.jsonl"
    tail = LogTail(path)
    assert tail.new() == []
    log = ControlLog(path)
    log.append([entry(1), entry(2)])
    assert tail.new() == [entry(1), entry(2)]
    with path.open("ab") as file:
        file.write(b'{"id"')
    assert tail.new() == []
    assert LogTail(path).new() == [] and LogTail(path, position=0).new() == [entry(1), entry(2)]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "sync_period", "old": 500, "new": 50, "update": 12_431, "env_step": 49_724},
         "sync_period 500 -> 50 at update 12,431 (env step 49,724)"),
        ({"value": "auto", "old": 0.5, "new": 1.0}, "tau 0.5 -> 1 (auto) at update 1 (env step 2)"),
        ({"name": "exempt", "old": [], "new": ["head", "torso"]},
         "exempt none -> head+torso at update 1 (env step 2)"),
        ({"kind": "do", "name": "sync"}, "sync at update 1 (env step 2)"),
        ({"taken": False, "reason": "no", "value": 0}, "refused tau = 0: no"),
    ],
)  # fmt: skip
def test_an_entry_in_words(fields, text):
    assert entry(**fields).describe() == text


# The state.


def test_the_state_is_what_the_run_says(bench):
    bench.move(7)
    bench.steering.publish()
    state, alive = read_state(bench.files)
    assert alive and state.status == "running"
    assert (state.tick, state.env_step, state.update) == (7, 7, 14)
    by_name = {value.name: value for value in state.values}
    assert by_name["sync_period"].value == 500 and by_name["sync_period"].source == "config"
    assert by_name["sync_period"].bounds == ">= 1" and by_name["sync_period"].low == 1
    assert by_name["epsilon"].source == "schedule" and "1,000" in by_name["epsilon"].configured
    assert by_name["exempt"].blocks == ["torso", "head"] and by_name["exempt"].value == []
    assert (by_name["tau"].scale, by_name["epsilon"].scale) == ("log", "linear")


def test_a_number_that_is_none_is_null_in_the_state(bench, monkeypatch):
    report = bench.run.report()
    nan = float("nan")
    said = report | {"mean_return": nan, "recent": {"learn/q_mean": (3, float("inf"))}}
    monkeypatch.setattr(bench.run, "report", lambda: said)
    bench.steering.publish()
    text = bench.files.state.read_text()
    assert "NaN" not in text and "Infinity" not in text
    state, _ = read_state(bench.files)
    assert state.mean_return is None and state.recent == {"learn/q_mean": (3, None)}


def test_the_state_is_published_twice_a_second_at_most_and_after_every_command(bench, monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(state_module.time, "monotonic", lambda: now[0])
    published = []
    publish = bench.steering.publish
    monkeypatch.setattr(bench.steering, "publish", lambda: (published.append(now[0]), publish()))
    monkeypatch.setattr("targetnet.rl_core.control.steering._now", lambda: now[0])
    for _ in range(300):  # three seconds
        now[0] += 0.01
        bench.move()
    assert 2 <= len(published) <= 6
    before = len(published)
    bench.command(name="tau", value=0.5)
    now[0] += 0.01
    bench.move()
    assert len(published) == before + 1


def test_a_reader_never_sees_half_a_state(bench):
    stop, damaged = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                json.loads(bench.files.state.read_bytes())
            except FileNotFoundError:
                pass
            except ValueError as error:
                damaged.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(200):
        bench.steering.publish()
    stop.set()
    thread.join()
    assert damaged == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"status": "running"}', b"\xff"])
def test_a_damaged_state_is_one_clear_line(bench, content):
    bench.files.state.write_bytes(content)
    with pytest.raises(RunDirError, match=r"state\.json is damaged"):
        read_state(bench.files)


def test_no_state_is_one_clear_line(tmp_path):
    with pytest.raises(RunDirError, match="cannot be steered"):
        read_state(ControlFiles(tmp_path))


# The lock.


@pytest.mark.parametrize("left", [None, ""])
def test_a_token_is_made_once_and_one_that_was_left_empty_anew(tmp_path, left):
    """A full disk leaves it so, and an empty one would refuse everybody."""
    files = ControlFiles(tmp_path)
    if left is not None:
        files.directory.mkdir()
        files.token.write_text(left)
    files.make()
    token = files.token.read_text()
    assert len(token) > 30 and files.token.stat().st_mode & 0o777 == 0o600
    files.make()
    assert files.token.read_text() == token
    assert {path.name for path in files.directory.iterdir()} == {"inbox", "token"}


@pytest.mark.parametrize("link", ["control", "control/inbox"])
def test_a_directory_that_is_a_link_is_refused_and_nothing_is_touched_where_it_leads(
    tmp_path, link
):
    """Command files are removed once they are read, so those files would be too."""
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "data.json").write_text("{}")
    (run / link).parent.mkdir(parents=True)
    (run / link).symlink_to(elsewhere)
    with pytest.raises(RunDirError, match=f"{link} is a link; a run has a directory of its own"):
        ControlFiles(run).make()
    assert [path.name for path in elsewhere.iterdir()] == ["data.json"]
    assert elsewhere.stat().st_mode & 0o777 == 0o755


def test_only_what_a_kill_left_unfinished_is_removed_and_through_no_link(tmp_path):
    files, elsewhere = ControlFiles(tmp_path / "run"), tmp_path / "elsewhere"
    files.run.mkdir()
    files.make()
    elsewhere.mkdir()
    kept = [files.run / ".notes.tmp", files.directory / "x.1.tmp", elsewhere / ".state.json.12.tmp"]
    for path in [*kept, files.directory / ".state.json.12.tmp", files.run / ".config.toml.7.tmp"]:
        path.write_text("")
    RunLock(files).release()  # also of a run that is finished, and so is not steered
    (files.run / "exchanges").symlink_to(elsewhere)
    clear_unfinished(files.run / "exchanges")
    assert sorted(tmp_path.rglob("*.tmp")) == sorted(kept)


def test_a_token_that_a_killed_run_left_unfinished_is_removed(tmp_path, monkeypatch):
    files = ControlFiles(tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(files_module.os, "getpid", lambda: 12)
        killed.setattr(files_module.Path, "replace", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            files.make()
    assert len([*files.directory.iterdir()]) == 2  # the inbox, and half a token
    files.make()
    RunLock(files).release()
    assert {path.name for path in files.directory.iterdir()} == {"inbox", "token", "lock"}


def test_a_command_that_its_killed_sender_left_unfinished_is_removed(tmp_path):
    """And none that somebody may still be writing."""
    files = ControlFiles(tmp_path)
    files.make()
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    numbers = {"old": int(dead.stdout), "new": int(dead.stdout), "alive": os.getpid()}
    paths = {name: files.inbox / f".{name}.json.{pid}.tmp" for name, pid in numbers.items()}
    for path in paths.values():
        path.write_text("{")
    for name in ("old", "alive"):
        os.utime(paths[name], (0, 0))
    RunLock(files).release()
    assert [name for name, path in paths.items() if path.exists()] == ["new", "alive"]


def test_a_run_is_alive_while_it_holds_its_lock(tmp_path):
    files = ControlFiles(tmp_path)
    assert not is_alive(files)
    files.make()
    lock = RunLock(files)
    assert is_alive(files)
    with pytest.raises(RunDirError, match="another process is running"):
        RunLock(files)
    lock.release()
    lock.release()
    assert not is_alive(files)
    RunLock(files).release()


def test_a_killed_process_lets_go_of_its_lock(tmp_path):
    files = ControlFiles(tmp_path)
    files.make()
    code = (
        "import sys, time; from pathlib import Path\n"
        "from targetnet.rl_core.control.files import *; "
        "lock = RunLock(ControlFiles(Path(sys.argv[1]))); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout.readline() == b"held\n"
        assert is_alive(files)
        holder.kill()
    assert not is_alive(files)


def test_asking_whether_it_is_alive_does_not_keep_a_run_from_starting(tmp_path):
    files = ControlFiles(tmp_path)
    files.make()
    stop, answers = threading.Event(), []

    def ask():
        while not stop.is_set():
            answers.append(is_alive(files))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(50):
            RunLock(files).release()
    finally:
        stop.set()
        thread.join()
    assert answers and not is_alive(files)


def test_what_is_written_whole_leaves_nothing_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("targetnet.rl_core.control.files.os.fsync", full)
    with pytest.raises(OSError):
        write_whole(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"] and path.read_bytes() == b"old"


# The trace.


def test_a_trace_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "trace.bin"
    assert len(read_trace(path)) == 0
    trace = TraceFile(path)
    trace.append(np.array([1, 2**32 - 1], np.uint32))
    trace.append(np.array([7], np.uint32))
    trace.write()
    trace.close()
    with path.open("ab") as file:
        file.write(b"\x01\x02")  # cut short
    assert read_trace(path).tolist() == [1, 2**32 - 1, 7]


def test_a_checksum_differs_wherever_one_bit_does():
    rng = np.random.default_rng(0)
    columns = [
        rng.normal(size=(5, 2, 3)).astype(np.float32),
        rng.integers(0, 2, size=(5, 2)).astype(bool),
        rng.integers(0, 9, size=(5, 2)).astype(np.int32),
    ]
    before = checksums(columns)
    assert before.dtype == np.uint32 and before.shape == (5,)
    assert np.array_equal(before, checksums([column.copy() for column in columns]))
    for column in columns:
        for index in np.ndindex(column.shape):
            changed = column.copy()
            changed[index] = ~changed[index] if column.dtype == bool else changed[index] + 1
            others = [changed if c is column else c for c in columns]
            assert np.nonzero(checksums(others) != before)[0].tolist() == [index[0]]


def test_the_same_rows_give_the_same_checksums_however_they_are_cut():
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    parts = [checksums([rows[:7]]), checksums([rows[7:]])]
    assert np.array_equal(np.concatenate(parts), checksums([rows]))


def test_the_client_is_imported_without_tensorflow_and_numpy():
    code = "import sys, targetnet.rl_core.control.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "numpy", "gymnasium"} & set(done.stdout.split())
