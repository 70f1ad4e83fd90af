"""The log as a file: a strict JSON object a line, safe when `append` returns, read as it grows."""

import io
import json
import math
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targetnet.rl_core.control.log import ControlLog, LogTail, read_log, require_length
from targetnet.rl_core.errors import BoundsError, RunDirError
from tests.rl_core.control.entries import entry


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def line(number, **fields):
    return (json.dumps(entry(number, **fields).model_dump()) + "\n").encode()


def strict(text):
    """The objects of a log as another program reads them, which knows no NaN."""

    def no_constant(name):
        raise AssertionError(f"{name} is no JSON")

    return [json.loads(row, parse_constant=no_constant) for row in text.split("\n")[:-1]]


# Appending.


def test_entries_are_synced_once_before_append_returns(path, monkeypatch):
    tape = []
    write, fsync = os.pwrite, os.fsync
    log = ControlLog(path)
    monkeypatch.setattr(os, "pwrite", lambda *of: (tape.append("write"), write(*of))[1])
    monkeypatch.setattr(os, "fsync", lambda f: (tape.append("fsync"), fsync(f))[1])
    log.append([entry(1), entry(2), entry(3)])
    assert tape == ["write", "fsync"]
    assert len(read_log(path)) == 3


def test_a_write_that_is_cut_short_is_completed(path, monkeypatch):
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:7], at))
    ControlLog(path).append([entry(1), entry(2)])
    assert read_log(path) == [entry(1), entry(2)]


def test_a_write_that_failed_halfway_does_not_damage_what_comes_after(path, monkeypatch):
    """A full disk, which somebody then empties: the run goes on, and so must its log."""
    log = ControlLog(path)
    log.append([entry(1)])
    write, written = os.pwrite, []

    def fills_up(file, data, at):
        if written:
            raise OSError(28, "No space left on device")
        written.append(write(file, data[:10], at))
        return written[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fills_up)
        with pytest.raises(OSError, match="No space left"):
            log.append([entry(2)])
    log.append([entry(3)])
    assert read_log(path) == [entry(1), entry(3)]


def test_a_second_ctrl_c_while_it_is_synced_leaves_no_line_twice(path, monkeypatch):
    """The run closes then, and appends what it has not appended."""
    log = ControlLog(path)
    log.append([entry(1)])

    def interrupted(file):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append([entry(2)])
    log.append([entry(2), entry(3)])
    assert read_log(path) == [entry(1), entry(2), entry(3)]


def test_the_ids_of_all_lines_are_known_after_reopening(path):
    log = ControlLog(path)
    log.append([entry(1), entry(2, taken=False, reason="no")])
    log.append([entry(3, kind="unreadable", name="?")])
    log.close()
    assert ControlLog(path).ids == {entry(number).id for number in (1, 2, 3)}


def test_whatever_is_said_stays_on_its_own_line(path):
    """Of Unicode's many line ends, and what is no text at all."""
    said = ["a\nb", "a\r\nb", "a\x85b", "a\u2028b", "a\x00b", "\ud800", '"}\n{"', "é\U0001f600"]
    entries = [
        entry(number, name=text, reason=text, value=text) for number, text in enumerate(said)
    ]
    ControlLog(path).append(entries)
    assert read_log(path) == entries
    assert [row["name"] for row in strict(path.read_text())] == said


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")], ids=repr)
def test_the_log_is_json_also_where_a_refused_value_is_none(bench, value):
    """A browser reads no NaN."""
    with pytest.raises(BoundsError):
        bench.live["tau"] = value
    (row,) = strict(bench.files.log.read_text())
    assert row["taken"] is False and "got" in row["reason"]


def test_a_log_where_no_file_can_be_is_one_clear_line(path):
    path.mkdir()
    for use in (ControlLog, read_log):
        with pytest.raises(RunDirError, match=r"log\.jsonl"):
            use(path)


# Reading.


def test_no_file_is_an_empty_log(path):
    assert read_log(path) == [] and LogTail(path).new() == []
    assert not path.exists()


@pytest.mark.parametrize("damage", [b"x\n", b"\n", b"\xff\n", b"{}\n", b"null\n", b"[1]\n"])
def test_a_damaged_line_in_the_middle_is_named_by_its_number(path, damage):
    data = line(1) + line(2) + damage + line(4)
    path.write_bytes(data)
    for use in (read_log, ControlLog):
        with pytest.raises(RunDirError, match=r"log\.jsonl is damaged: line 3 "):
            use(path)
    assert path.read_bytes() == data  # refused, not repaired


@pytest.mark.parametrize("cut", [1, 40, -2, -1])
def test_wherever_the_last_line_was_cut_it_is_dropped(path, cut):
    path.write_bytes(line(1) + line(2)[:cut])
    assert read_log(path) == [entry(1)]
    log = ControlLog(path)
    assert log.ids == {entry(1).id}
    log.append([entry(3)])
    assert read_log(path) == [entry(1), entry(3)]


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.integers(1, 400), max_size=12))
def test_a_tail_gives_every_line_once_however_the_bytes_come(tmp_path_factory, cuts):
    path = tmp_path_factory.mktemp("tail") / "log.jsonl"
    data = b"".join(line(number) for number in range(6))
    tail, got = LogTail(path), []
    with path.open("ab", buffering=0) as file:
        for cut in [*cuts, len(data)]:
            file.write(data[:cut])
            data = data[cut:]
            got += tail.new()
    assert got == [entry(number) for number in range(6)]
    assert tail.new() == []


def test_a_tail_begins_after_what_is_there_or_where_it_is_told(path):
    path.write_bytes(line(1) + line(2))
    now, first, second = (
        LogTail(path),
        LogTail(path, position=0),
        LogTail(path, position=len(line(1))),
    )
    with path.open("ab") as file:
        file.write(line(3))
    assert now.new() == [entry(3)]
    assert first.new() == [entry(1), entry(2), entry(3)]
    assert second.new() == [entry(2), entry(3)]


def test_a_tail_that_begins_while_a_line_is_being_written_gives_no_half_of_it(path):
    """The run appends some kilobytes at once; whoever looks meanwhile sees a part of them."""
    path.write_bytes(line(1) + line(2)[:40])
    tail = LogTail(path)
    with path.open("ab") as file:
        file.write(line(2)[40:] + line(3))
    assert tail.new() in ([entry(3)], [entry(2), entry(3)])


def test_a_tail_that_begins_at_a_torn_line_sees_what_is_written_over_it(path):
    """A run is restarted, which drops what a crash cut short, while somebody begins to ask it."""
    path.write_bytes(line(1) + line(2, reason="x" * 1_000)[:-1])
    tail = LogTail(path)
    ControlLog(path).append([entry(3)])
    assert tail.new() == [entry(3)]


def test_a_damaged_line_is_an_error_of_the_tail_too(path):
    tail = LogTail(path)
    path.write_bytes(line(1) + b"x\n")
    with pytest.raises(RunDirError, match=r"log\.jsonl is damaged: line 2 "):
        tail.new()


# In words.


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"who": "schedule", "name": "epsilon", "value": "auto", "old": 1.0, "new": 0.04},
            "epsilon 1 -> 0.04 at update 1 (env step 2)",
        ),
        (
            {"name": "sync_period", "old": 12_500, "new": 1, "update": 10**6},
            "sync_period 12,500 -> 1 at update 1,000,000 (env step 2)",
        ),
        ({"kind": "do", "name": "pause", "env_step": 0}, "pause at update 1 (env step 0)"),
        (
            {"kind": "do", "name": "resume", "taken": False, "reason": "it is not paused"},
            "refused resume: it is not paused",
        ),
        (
            {"name": "exempt", "value": ["b", "a"], "taken": False, "reason": "no block 'b'"},
            "refused exempt = a+b: no block 'b'",
        ),
        (
            {"kind": "unreadable", "name": "x.json", "taken": False, "reason": "not JSON"},
            "refused x.json: not JSON",
        ),
    ],
)
def test_an_entry_reads_as_a_sentence(fields, text):
    assert entry(**fields).describe() == text


# Seals.


@pytest.fixture
def sealed(path):
    log = ControlLog(path)
    log.append([entry(1), entry(2), entry(3)])
    log.append([entry(4)])
    log.close()
    return path


def test_every_flipped_bit_of_a_sealed_log_is_noticed(sealed):
    data = sealed.read_bytes()
    wanted = [entry(number) for number in (1, 2, 3, 4)]
    for place in range(len(data)):
        for bit in (0, 3):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            sealed.write_bytes(flipped)
            try:
                found = read_log(sealed)
            except RunDirError as error:
                assert "is damaged: line" in str(error)
            else:
                # The last line's end: a line that was not written whole is dropped.
                assert place == len(data) - 1 and found == wanted[:3]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_line_that_is_missing_before_others_is_noticed(sealed, missing):
    lines = sealed.read_bytes().splitlines(keepends=True)
    del lines[missing]
    sealed.write_bytes(b"".join(lines))
    with pytest.raises(RunDirError, match=f"line {missing + 1} is not what was written"):
        read_log(sealed)


def test_lines_that_changed_places_are_noticed(sealed):
    lines = sealed.read_bytes().splitlines(keepends=True)
    sealed.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    with pytest.raises(RunDirError, match="line 1 is not what was written"):
        read_log(sealed)


def test_a_log_that_version_0_1_began_goes_on_with_sealed_lines(path):
    path.write_bytes(line(1) + line(2))
    log = ControlLog(path)
    log.append([entry(3)])
    assert read_log(path) == [entry(1), entry(2), entry(3)]
    path.write_bytes(path.read_bytes() + line(4))
    with pytest.raises(RunDirError, match="line 4 is not what was written"):
        read_log(path)


@pytest.mark.parametrize("count", [1, 4])
def test_seals_that_were_taken_out_are_missed(sealed, count):
    """Of the last lines, or of all: others are noticed by the positions of those behind them."""
    lines = sealed.read_bytes().splitlines(keepends=True)
    bare = [re.sub(rb', "seal": "\w+"', b"", line) for line in lines[-count:]]
    sealed.write_bytes(b"".join([*lines[:-count], *bare]))
    for tail in (LogTail(sealed, position=0), LogTail(sealed, last=1)):
        with pytest.raises(RunDirError, match=r"damaged: .*line .*is not what was written"):
            tail.new()


@pytest.mark.parametrize("key", ["tick", "value", "taken"])
def test_a_key_with_a_letter_changed_is_no_log_entry_also_without_seals(path, key):
    """Else the entry would have the default of the key that is missing."""
    path.write_bytes(line(1).replace(f'"{key}"'.encode(), f'"{key[:-1]}_"'.encode()))
    with pytest.raises(RunDirError, match="line 1 is no log entry"):
        read_log(path)


@pytest.mark.parametrize("time", ["-Infinity", "NaN", "1e300", "-1", "9" * 5_000, '"x"'])
def test_a_time_that_no_calendar_has_is_no_log_entry(path, time):
    path.write_bytes(line(1).replace(b'"time": 2.0', f'"time": {time}'.encode()))
    with pytest.raises(RunDirError, match="line 1 is no log entry"):
        read_log(path)


@pytest.mark.parametrize("deep", [9, 300, 100_000])
def test_a_line_nested_too_deeply_is_no_log_entry(path, deep):
    """Of some hundred levels it can be read, and not be shown as JSON again."""
    nested = b"[" * deep + b"]" * deep
    path.write_bytes(line(1, value=7).replace(b'"value": 7', b'"value": ' + nested))
    assert nested in path.read_bytes()
    with pytest.raises(RunDirError, match="line 1 is no log entry"):
        read_log(path)


# From its end.


@pytest.mark.parametrize("last", [1, 2, 3, 4, 100])
def test_the_last_lines_are_read_without_those_before(sealed, last):
    whole = read_log(sealed)
    data = bytearray(sealed.read_bytes())
    tail = LogTail(sealed, last=last)
    data[: tail.position] = b"x" * tail.position  # nobody looks there
    sealed.write_bytes(data)
    assert tail.new() == whole[-last:]
    assert tail.new() == []


def test_the_last_lines_are_found_over_many_blocks(path, monkeypatch):
    monkeypatch.setattr("targetnet.rl_core.control.log._BLOCK", 7)
    log = ControlLog(path)
    log.append([entry(number) for number in range(9)])
    with path.open("ab") as file:
        file.write(b'{"half')
    for last in range(1, 12):
        assert LogTail(path, last=last).new() == read_log(path)[-last:]


def test_of_a_large_log_only_its_end_is_read(path, monkeypatch):
    log = ControlLog(path)
    log.append([entry(number) for number in range(5_000)])
    read, got = io.FileIO.readinto, []

    class Counting(io.FileIO):
        def readinto(self, buffer):
            got.append(read(self, buffer))
            return got[-1]

    monkeypatch.setattr(
        "targetnet.rl_core.control.log.open_regular", lambda path: io.BufferedReader(Counting(path))
    )
    assert len(LogTail(path, last=100).new()) == 100
    assert sum(got) < 300_000 < path.stat().st_size


def test_a_log_that_is_shorter_than_it_was_is_refused(sealed):
    length = sealed.stat().st_size
    require_length(sealed, length)
    with pytest.raises(RunDirError, match=rf"has {length:,} bytes and had {length + 1:,}"):
        require_length(sealed, length + 1)
    sealed.unlink()
    require_length(sealed, 0)
    with pytest.raises(RunDirError, match="has 0 bytes and had 1"):
        require_length(sealed, 1)


def test_a_pipe_in_the_place_of_the_log_is_not_waited_for(path):
    os.mkfifo(path)
    for use in (ControlLog, read_log, LogTail):
        with pytest.raises(RunDirError, match="it is not a regular file"):
            use(path)


# A part at a time, of a log that may be huge.


def written(path, entries):
    log = ControlLog(path)
    log.append(entry(number) for number in range(entries))
    log.close()
    return path.stat().st_size


def test_a_bounded_tail_reads_a_log_in_parts(path):
    line = written(path, 10) // 10
    tail, sizes = LogTail(path, position=0, most=3 * line + 10), []
    while new := tail.new():
        sizes.append(len(new))
    assert sum(sizes) == 10 and max(sizes) <= 4


def test_of_a_long_log_only_the_end_is_searched_for_lines(path):
    size = written(path, 1_000)
    tail = LogTail(path, last=1_000, most=1 << 16)
    assert size - (1 << 16) <= tail.position < size - (1 << 15)
    assert tail.new()[-1].id == f"{999:032x}"


def test_a_huge_line_is_refused_and_not_read(path):
    path.touch()
    os.truncate(path, 1 << 38)  # a hole of 256 GB, which reading would never get through
    with pytest.raises(RunDirError, match="65,536 bytes of it hold no whole line"):
        LogTail(path, last=5, most=1 << 16)


def test_an_unfinished_line_is_waited_for_until_it_is_too_long(path):
    end = written(path, 10)
    os.truncate(path, end + 5_000)
    assert LogTail(path, position=end, most=5_001).new() == []
    with pytest.raises(RunDirError, match="5,000 bytes of it hold no whole line"):
        LogTail(path, position=end, most=5_000).new()
