"""Nothing that anyone puts into the inbox is applied unless it is a valid command."""

import json
import os
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

IDENT = "0123456789abcdef" * 2
NAME = f"17-{IDENT}.json"
GOOD = {"id": IDENT, "time": 1.5, "who": "cli", "name": "sync_period", "value": 50}


def text(**changes):
    """The good command's JSON with some values changed, as they are written."""
    fields = {key: json.dumps(value) for key, value in GOOD.items()} | changes
    return "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}"


BAD = {
    "NaN": text(value="NaN"),
    "infinity": text(value="Infinity"),
    "minus infinity": text(value="-Infinity"),
    "huge exponent": text(value="1e999"),
    "4301 digits": text(value="9" * 4301),
    "true": text(value="true"),
    "null": text(value="null"),
    "an object": text(value='{"a": 1}'),
    "a list of numbers": text(value="[1, 2]"),
    "a list of lists": text(value='[["torso"]]'),
    "a long text": text(value=json.dumps("x" * 2_000)),
    "a lone surrogate": text(value='"\\ud800"'),
    "two keys alike": text()[:-1] + ', "value": 60}',
    "two keys alike inside": text(value='{"a": 1, "a": 2}'),
    "an unknown key": text(extra="1"),
    "set and do": text(do='"sync"'),
    "no such action": json.dumps({"id": IDENT, "time": 1.5, "who": "cli", "do": "rm"}),
    "time as text": text(time='"now"'),
    "time true": text(time="true"),
    "time NaN": text(time="NaN"),
    "who else": text(who='"root"'),
    "who schedule": text(who='"schedule"'),
    "another id": text(id=json.dumps("f" * 32)),
    "id with a newline": text(id=json.dumps(IDENT + "\n")),
    "an empty name": text(name='""'),
    "nothing": "",
    "an empty list": "[]",
    "a number": "50",
    "not JSON": "sync_period=50",
    "cut short": text()[:-3],
    "two objects": text() + text(),
    "a byte order mark": "\ufeff" + text(),
    "deep": text(value="[" * 5_000 + "]" * 5_000),
    "very deep": "[" * 100_000,
    "10 MB": text(value=json.dumps("x" * 10_000_000)),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_it_is_refused_logged_once_and_removed(bench, content):
    before = dict(bench.live)
    bench.put(NAME, content.encode())
    bench.move(3)
    assert bench.live.overrides() == {} and bench.run.done == []
    assert {**bench.live, "epsilon": 1.0} == before
    (entry,) = bench.log
    assert not entry.taken and entry.reason and "\n" not in entry.reason
    assert len(entry.reason) < 300 and bench.inbox == []


def test_the_good_one_is_good(bench):
    bench.put(NAME, text().encode())
    bench.move()
    assert bench.live["sync_period"] == 50


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"\x00" * 100, '{"id": "é"}'.encode("latin-1")])
def test_bytes_that_are_no_text_are_refused(bench, data):
    bench.put(NAME, data)
    bench.move()
    assert [entry.taken for entry in bench.log] == [False]


@pytest.mark.parametrize(
    "name", ["x.json", "17-.json", f"{IDENT}.json", f"17-{IDENT.upper()}.json"]
)
def test_a_good_command_under_another_name_is_refused(bench, name):
    bench.put(name, text().encode())
    bench.move(2)
    assert [entry.taken for entry in bench.log] == [False] and bench.live["sync_period"] == 500


def test_a_name_that_is_no_text_is_refused_and_the_log_stays_readable(bench):
    name = os.fsdecode(b"17-\xff\xfe.json")
    bench.put(name, text().encode())
    bench.move(2)
    assert [entry.taken for entry in bench.log] == [False] and bench.inbox == []


def test_what_is_no_file_is_refused_without_waiting_for_it(bench, tmp_path):
    target = tmp_path / "target"
    target.write_text(text())
    inbox = bench.files.inbox
    os.mkfifo(inbox / f"1-{IDENT}.json")
    (inbox / f"2-{IDENT}.json").symlink_to(target)
    (inbox / f"3-{IDENT}.json").symlink_to(tmp_path / "nowhere")
    (inbox / f"4-{IDENT}.json").mkdir()
    (inbox / f"5-{IDENT}.json").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        directory = os.open(inbox, os.O_RDONLY)  # a socket's path must be short
        server.bind(f"/proc/self/fd/{directory}/6-{IDENT}.json")
        os.close(directory)
    bench.move(5)
    assert [entry.taken for entry in bench.log] == [False] * 6
    assert bench.inbox == [f"4-{IDENT}.json"]  # a directory cannot be removed, and is told once
    assert target.read_text() == text() and bench.live["sync_period"] == 500


def test_what_cannot_be_removed_does_not_keep_others_from_being_read(bench):
    for number in range(300):
        (bench.files.inbox / f"{number:017d}-{number:032x}.json").mkdir()
    bench.command(10**6, name="sync_period", value=50)
    bench.move(3)
    assert bench.live["sync_period"] == 50


def test_what_is_too_long_is_called_so_and_not_read(bench):
    bench.put(NAME, text(value=json.dumps("x" * 10_000_000)).encode())
    bench.move()
    assert "at most 16384 bytes" in bench.log[0].reason


def test_a_reason_from_outside_cannot_forge_a_line_of_the_log(bench):
    forged = 'x\n{"id": "forged", "taken": true}'
    bench.command(name=forged[:90], value=1)
    bench.move()
    assert len(bench.files.log.read_text().splitlines()) == 1


# At random.

numbers = st.one_of(
    st.integers(), st.floats(), st.integers(min_value=-(10**30), max_value=10**30), st.booleans()
)
anything = st.recursive(
    st.one_of(st.none(), numbers, st.text(max_size=20)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(["sync_period", "tau", "epsilon", "exempt", "batch_size", "", "x"])
messages = st.one_of(
    st.binary(max_size=60),
    anything.map(lambda x: json.dumps(x).encode()),
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.just(None) | anything,
            "time": numbers | anything,
            "who": st.sampled_from(["cli", "board", "api", "root"]) | anything,
            "name": names | anything,
            "value": numbers | anything,
            "do": st.sampled_from(["sync", "stop", "rm"]) | anything,
        },
    ),
)


def valid(name, value):
    """What the knobs of the fake run allow, said another way."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "sync_period": real and value == value // 1 and 1 <= value < 2**63,
        "tau": real and 0 < value <= 1,
        "epsilon": real and 0 <= value <= 1,
        "exempt": isinstance(value, frozenset) and value <= {"torso", "head"},
    }[name]


def check_messages(bench, batch, offset):
    """Puts all of a batch into the inbox, lets the run take them, and looks at what came of it."""
    before = len(bench.log)
    for number, message in enumerate(batch, offset):
        ident = f"{number:032x}"
        if isinstance(message, dict):
            if message.get("id", 0) is None:
                message = message | {"id": ident}
            message = json.dumps({"time": 1.0, "who": "cli", "id": ident} | message).encode()
        bench.put(f"{number:017d}-{ident}.json", message)
    bench.move(2 + len(batch) // 256)
    assert bench.inbox == []
    new = bench.log[before:]
    assert len(new) == len(batch)
    for entry in new:
        assert entry.taken or entry.reason
    for name, value in bench.live.overrides().items():
        assert valid(name, value), (name, value)
    assert set(bench.run.done) <= {"sync", "stop"}


@pytest.mark.thorough
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batch=st.lists(messages, min_size=10, max_size=30))
def test_random_messages_never_apply_anything_invalid(bench, batch):
    check_messages(bench, batch, offset=1 + len(bench.log))


@pytest.mark.slow
@settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow,
                           HealthCheck.data_too_large, HealthCheck.large_base_example],
)  # fmt: skip
@given(batch=st.lists(messages, min_size=20, max_size=30), repeats=st.integers(6, 10))
def test_a_hundred_thousand_random_messages_never_apply_anything_invalid(
    make_bench, tmp_path_factory, batch, repeats
):
    bench = make_bench(tmp_path_factory.mktemp("hostile"))
    check_messages(bench, [*batch] * repeats, offset=1)
    bench.steering.close()
