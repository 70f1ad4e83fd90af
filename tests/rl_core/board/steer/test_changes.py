"""The end of a log, however large it is, and each change as a command for the shell."""

import os
import shlex
from pathlib import Path

import pytest

from targetnet.rl_core.board.steer import changes
from targetnet.rl_core.board.steer.changes import as_command, for_page, read_changes
from targetnet.rl_core.control.log import ControlLog
from targetnet.rl_core.errors import RunDirError
from tests.rl_core.control.entries import entry

RUN = Path("/runs/cartpole-1")


@pytest.fixture
def log(tmp_path):
    """A log of ten entries."""
    path = tmp_path / "log.jsonl"
    written = ControlLog(path)
    written.append(entry(number) for number in range(10))
    written.close()
    return path


# Reading.


def test_the_first_answer_has_all_of_a_short_log_and_the_next_what_came_since(log):
    first = read_changes(log, 0)
    assert (first.begin, first.end, len(first.entries)) == (0, log.stat().st_size, 10)
    again = read_changes(log, first.end)
    assert (again.begin, again.end, again.entries) == (first.end, first.end, [])
    written = ControlLog(log)
    written.append([entry(99)])
    written.close()
    assert [e.id for e in read_changes(log, first.end).entries] == [f"{99:032x}"]


def test_the_first_answer_has_only_the_newest_entries_and_says_so(log, monkeypatch):
    monkeypatch.setattr(changes, "FIRST_ENTRIES", 3)
    first = read_changes(log, 0)
    assert [e.id for e in first.entries] == [f"{n:032x}" for n in (7, 8, 9)]
    assert first.begin > 0


@pytest.mark.parametrize("position", [-1, 10**6, 10**40, 0])
def test_a_position_that_is_not_in_the_log_gives_the_newest_entries(log, position):
    assert len(read_changes(log, position).entries) == 10


def test_a_position_within_a_line_of_another_runs_log_gives_the_newest_entries(log, tmp_path):
    """The run was removed and trained again, and its log has grown past the page's position."""
    position = read_changes(log, 0).end
    log.unlink()
    written = ControlLog(log)
    written.append(entry(number, name="learning_rate", tick=30) for number in range(100, 120))
    written.close()
    assert log.read_bytes()[position - 1 : position] != b"\n"
    found = read_changes(log, position)
    assert found.begin == 0 and [int(e.id, 16) for e in found.entries] == [*range(100, 120)]


def test_a_log_that_is_damaged_after_the_position_is_told(log):
    position = read_changes(log, 0).end
    written = ControlLog(log)
    written.append([entry(99)])
    written.close()
    log.write_bytes(log.read_bytes().replace(b'"tick": 3', b'"tick": 4'))
    with pytest.raises(RunDirError, match="damaged"):
        read_changes(log, position)


def test_a_page_that_slept_through_many_entries_gets_the_newest(log, monkeypatch):
    line = log.stat().st_size // 10
    monkeypatch.setattr(changes, "MOST_BYTES", 3 * line)
    monkeypatch.setattr(changes, "FIRST_ENTRIES", 2)
    assert [e.id for e in read_changes(log, line).entries] == [f"{n:032x}" for n in (8, 9)]


def test_a_run_without_a_log_has_no_changes(tmp_path):
    assert read_changes(tmp_path / "none", 0) == ([], 0, 0)


@pytest.mark.parametrize("position", [0, 5])
def test_a_huge_line_is_refused_and_not_read(tmp_path, position):
    path = tmp_path / "log.jsonl"
    path.touch()
    os.truncate(path, 1 << 38)  # a hole of 256 GB, which reading would never get through
    with pytest.raises(RunDirError, match="4,194,304 bytes of it hold no whole line"):
        read_changes(path, position)


# Commands.


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ["set", "tau=0.5"]),
        ({"value": "auto"}, ["set", "tau=auto"]),
        ({"name": "sync_period", "value": 12_500}, ["set", "sync_period=12500"]),
        ({"value": 1e-05}, ["set", "tau=1e-05"]),
        ({"name": "exempt", "value": ["head", "torso"]}, ["set", "exempt=head,torso"]),
        ({"name": "exempt", "value": []}, ["set", "exempt=none"]),
        ({"kind": "do", "name": "rewind", "value": 2}, ["do", "rewind", "2"]),
        ({"kind": "do", "name": "sync", "value": None}, ["do", "sync"]),
        ({"kind": "do", "name": "reset", "value": "head"}, ["do", "reset", "head"]),
        ({"kind": "do", "name": "perturb", "value": 0.8}, ["do", "perturb", "0.8"]),
        (
            {"kind": "do", "name": "perturb", "value": "0.8 torso"},
            ["do", "perturb", "0.8", "torso"],
        ),
        ({"kind": "do", "name": "reset", "value": "$(rm) x"}, ["do", "reset", "$(rm)", "x"]),
    ],
)
def test_a_change_as_a_command(fields, words):
    kind, *rest = words
    command = as_command(RUN, entry(**fields))
    assert command is not None
    assert shlex.split(command) == ["targetnet", kind, str(RUN), *rest]


@pytest.mark.parametrize(
    "fields",
    [
        {"taken": False, "reason": "no"},
        {"who": "schedule", "value": "auto"},
        {"kind": "unreadable"},
        {"kind": "do", "name": "rm", "value": None},
        {"kind": "do", "name": "reset", "value": "head --all"},
        {"name": "--board"},
        {"name": "x\nrm"},
        {"name": ""},
        {"value": True},
        {"value": None},
        {"value": {"a": 1}},
        {"value": [1, 2]},
        {"value": "a\x03b"},  # Ctrl-C would end the line that the shell reads
        {"value": "a\nb"},
        {"value": "\x1b[201~"},  # the end of a paste
    ],
)
def test_what_no_command_should_do_has_none(fields):
    assert as_command(RUN, entry(**fields)) is None


@pytest.mark.parametrize("name", ["a b", "$(reboot)", "`reboot`", "a'; reboot; '", "-x", "a\\"])
def test_a_directory_with_a_tricky_name_is_one_word_of_the_command(name):
    command = as_command(RUN / name, entry(value=name))
    assert command is not None
    assert shlex.split(command) == ["targetnet", "set", f"{RUN}/{name}", f"tau={name}"]
    assert as_command(RUN / f"{name}\r", entry()) is None


def test_an_entry_for_the_page_has_its_text_and_its_command():
    shown = for_page(RUN, entry())
    assert shown["text"] == "tau 1 -> 0.5 at update 1 (env step 2)"
    assert shown["command"] == f"targetnet set {RUN} tau=0.5"
