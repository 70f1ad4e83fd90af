"""A control directory in which anybody put anything: one short line, nothing is waited for."""

import json
import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from targetnet.rl_core.control.client import NotRunning, RunClient
from targetnet.rl_core.control.commands import set_command
from targetnet.rl_core.control.files import RunLock, is_alive, submit
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RlCoreError, RunDirError


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path.name)


def directory(path):
    path.mkdir()


def sock(path):
    with socket.socket(socket.AF_UNIX) as server:
        at = os.open(path.parent, os.O_RDONLY)  # a socket's path must be short
        server.bind(f"/proc/self/fd/{at}/{path.name}")
        os.close(at)


KINDS = [pipe, device, loop, directory, sock]


@pytest.fixture
def over(bench):
    """The files of a run that has ended, with a state."""
    bench.move()
    bench.steering.publish("stopped")
    bench.steering.close()
    return bench.files


def refusal(call, *arguments):
    with pytest.raises(RlCoreError) as caught:
        call(*arguments)
    text = str(caught.value)
    assert text.isprintable() and len(text) <= 600, text
    return text


def everything(files):
    return sorted((str(p), p.lstat().st_mtime_ns) for p in files.run.rglob("*"))


@pytest.mark.parametrize("make", KINDS)
def test_a_state_that_is_no_regular_file_is_refused_and_never_waited_for(over, make):
    over.state.unlink()
    make(over.state)
    before = everything(over)
    for call in (lambda: read_state(over), lambda: RunClient(over.run).set("tau", 0.5)):
        assert "state.json" in refusal(call)
    assert everything(over) == before


@pytest.mark.parametrize("make", KINDS)
def test_a_lock_that_is_no_regular_file_is_refused_and_never_waited_for(over, make):
    over.lock.unlink()
    make(over.lock)
    before = everything(over)
    for call in (
        lambda: is_alive(over),
        lambda: read_state(over),
        lambda: RunLock(over),
        lambda: RunClient(over.run).set("tau", 0.5),
    ):
        assert "lock" in refusal(call)
    assert everything(over) == before


def test_a_refused_lock_is_closed(over):
    over.lock.unlink()
    os.mkfifo(over.lock)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        refusal(RunLock, over)
        refusal(is_alive, over)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_run_without_a_lock_is_not_alive(over):
    over.lock.unlink()
    assert read_state(over)[1] is False


@pytest.mark.parametrize("make", [pipe, device, loop, sock])
def test_an_inbox_that_is_none_ends_no_run(bench, make):
    bench.files.inbox.rmdir()
    make(bench.files.inbox)
    bench.move(3)
    refusal(submit, bench.files, set_command("tau", 0.5, "cli"))


def closed(*_, **__):
    raise PermissionError(13, "Permission denied")


def test_a_letter_that_cannot_be_withdrawn_is_told(bench, monkeypatch):
    client = RunClient(bench.files.run, timeout=0.01)
    bench.steering.publish()
    monkeypatch.setattr(Path, "unlink", closed)
    monkeypatch.setattr(
        "targetnet.rl_core.control.client.submit", lambda files, _: files.inbox / "x"
    )
    with pytest.raises(RunDirError, match="cannot withdraw"):
        client.set("tau", 0.5)


@pytest.mark.parametrize("run", ["\0", "x" * 5_000, "\x1b[2J", "\ud800", "/dev/null", "x/" * 3_000])
def test_a_hostile_path_of_a_run_is_refused_in_one_short_line(run):
    for call in (RunClient(run).set, RunClient(run).do):
        refusal(call, "tau", 0.5)


# Damaged states.


def text(state, **changes):
    """The state's JSON with some values changed, as they are written."""
    fields = {key: json.dumps(value) for key, value in state.items()} | changes
    return "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}"


DEEP = "[" * 100_000 + "]" * 100_000
CHANGES = {
    "time before all time": {"time": "-Infinity"},
    "time after all time": {"time": "1e300"},
    "no time": {"time": "NaN"},
    "time as text": {"time": '"now"'},
    "started": {"started": "Infinity"},
    "speed": {"env_steps_per_second": "NaN"},
    "seconds left": {"eta_seconds": "Infinity"},
    "return": {"mean_return": "-Infinity"},
    "env steps of 5,000 digits": {"env_step": "9" * 5_000},
    "env steps of 4,000 digits": {"env_step": "9" * 4_000},
    "fewer than no env steps": {"env_steps": "-1"},
    "an age": {"target_age": str(2**63)},
    "a point": {"recent": '{"episode/return": [1, NaN]}'},
    "a point of 5,000 digits": {"recent": '{"episode/return": [%s, 1]}' % ("9" * 5_000)},
    "deep values": {"values": DEEP},
    "deep and unknown": {"more": DEEP},
    "a status": {"status": '"dancing"'},
    "actions": {"actions": "3"},
    "no env id": {"env_id": "null"},
    "huge": {"note": json.dumps("x" * (1 << 21))},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_damaged_state_is_said_to_be_damaged(over, changes):
    state = json.loads(over.state.read_bytes())
    over.state.write_text(text(state, **changes))
    assert "state.json" in refusal(read_state, over)


def test_the_whole_one_is_whole(over):
    state = json.loads(over.state.read_bytes())
    over.state.write_text(text(state))
    assert read_state(over)[0].status == "stopped"
    with pytest.raises(NotRunning, match="stopped at env step 1"):
        RunClient(over.run).set("tau", 0.5)


numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([2**63, 10**400, -0.0, 1e308]))
anything = st.recursive(
    st.one_of(st.none(), numbers, st.booleans(), st.text(max_size=20)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_random_damage_gives_a_state_or_one_line(over, data):
    state = json.loads((over.run / "whole").read_bytes()) if (over.run / "whole").exists() else None
    if state is None:
        state = json.loads(over.state.read_bytes())
        (over.run / "whole").write_text(json.dumps(state))
    names = st.sampled_from(sorted(state))
    changes = data.draw(st.dictionaries(names, anything, max_size=3))
    damaged = bytearray(json.dumps(state | changes).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    over.state.write_bytes(damaged)
    try:
        found, _ = read_state(over)
    except RunDirError as error:
        assert str(error).isprintable() and len(str(error)) <= 600
    else:
        assert 0 <= found.time <= 1e11 and 0 <= found.env_step < 2**63
        time.localtime(found.time)
