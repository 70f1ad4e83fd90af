"""What the run finds in its inbox: everything, in order, and for one `stat` when idle."""

import os
import shutil
import time
from pathlib import Path

import pytest

from targetnet.rl_core.control.commands import do_command, dump, set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.inbox import Inbox
from targetnet.rl_core.errors import RunDirError


@pytest.fixture
def files(tmp_path):
    files = ControlFiles(tmp_path)
    files.make()
    return files


@pytest.fixture
def inbox(files):
    return Inbox(files)


def put(files, number, value=0.5):
    """A command from second `number` of the epoch."""
    command = set_command("tau", value, "cli").model_copy(update={"time": float(number)})
    return submit(files, command)


def values(command_files):
    return [command_file.command.value for command_file in command_files]


def long_ago(path):
    os.utime(path, ns=(1, 1))


# What is there.


def test_letters_come_oldest_first_whatever_the_order_they_were_put_in(files, inbox):
    for number in (3, 1_000_000, 1, 2):
        put(files, number, value=number)
    assert values(inbox.command_files()) == [1, 2, 3, 1_000_000]


def test_what_was_not_removed_is_there_at_the_next_look(files, inbox):
    put(files, 1)
    (command_file,) = inbox.command_files()
    assert [other.id for other in inbox.command_files()] == [command_file.id]
    inbox.remove(command_file)
    inbox.remove(command_file)  # withdrawn by its sender meanwhile
    assert inbox.command_files() == []


def test_a_letter_is_the_command_that_was_sent(files, inbox):
    command = do_command("sync", "board")
    path = submit(files, command)
    (command_file,) = inbox.command_files()
    assert (command_file.path, command_file.id, command_file.command, command_file.problem) == (
        *(path, command.id, command),
        None,
    )


def test_a_letter_that_is_withdrawn_while_it_is_listed_is_none(files, inbox, monkeypatch):
    put(files, 1, value=1)
    put(files, 2, value=2)
    first = min(files.inbox.iterdir())
    real = os.open

    def withdraw_first(path, *args, **kwargs):
        first.unlink(missing_ok=True)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", withdraw_first)
    assert values(inbox.command_files()) == [2]


def test_all_of_a_flood_comes_though_not_at_once(files, inbox):
    for number in range(1, 601):
        put(files, number, value=number)
    looks = []
    while command_files := inbox.command_files():
        looks.append(values(command_files))
        for command_file in command_files:
            inbox.remove(command_file)
    assert len(looks) > 1
    assert [value for look in looks for value in look] == list(range(1, 601))


def test_the_rest_of_a_flood_is_seen_though_the_directory_did_not_change(files, inbox):
    for number in range(1, 301):
        put(files, number)
    long_ago(files.inbox)
    first = inbox.command_files()
    assert 0 < len(first) < 300
    long_ago(files.inbox)
    for command_file in first:
        inbox.remove(command_file)
    long_ago(files.inbox)
    assert len(first) + len(inbox.command_files()) == 300


def test_an_inbox_that_somebody_removed_is_empty_until_it_is_there_again(files, inbox):
    shutil.rmtree(files.inbox)
    assert inbox.command_files() == [] and inbox.command_files() == []
    files.make()
    put(files, 1, value=7)
    assert values(inbox.command_files()) == [7]


# When it looks.


def test_a_quiet_inbox_costs_one_stat_a_look(files, inbox, monkeypatch):
    long_ago(files.inbox)
    inbox.command_files()
    calls = []
    for name in ("stat", "scandir", "listdir", "open"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, _r=real, _n=name, **k: (calls.append(_n), _r(*a, **k))[1]
        )
    for _ in range(5):
        assert inbox.command_files() == []
    assert calls == ["stat"] * 5


@pytest.mark.parametrize("age_ms", [0, 1, 4, 10])
def test_a_letter_in_the_same_tick_of_the_clock_as_the_last_look_is_seen(
    files, inbox, monkeypatch, age_ms
):
    """Time stamps of a directory advance in ticks of up to 10 ms."""
    stamp = 1_000_000_000_000
    os.utime(files.inbox, ns=(stamp, stamp))
    monkeypatch.setattr(time, "time_ns", lambda: stamp + age_ms * 1_000_000)
    assert inbox.command_files() == []
    path = put(files, 1, value=7)
    os.utime(files.inbox, ns=(stamp, stamp))
    assert values(inbox.command_files()) == [7] and path.exists()


def test_a_letter_is_seen_also_when_the_clock_was_set_back(files, inbox, monkeypatch):
    future = time.time_ns() + 3600 * 10**9
    os.utime(files.inbox, ns=(future, future))
    assert inbox.command_files() == []
    put(files, 1, value=7)  # stamped an hour before the last look
    assert values(inbox.command_files()) == [7]


# What is no command.


@pytest.mark.parametrize(
    "name",
    [".hidden.json", "notes.txt", "17-0.json.bak", ".17-0.json.99.tmp", "JSON", "17-0.JSON"],
)
def test_what_does_not_claim_to_be_a_command_is_left_where_it_is(files, inbox, name):
    (files.inbox / name).write_text("{}")
    assert inbox.command_files() == []
    assert (files.inbox / name).exists()


def test_a_refusal_has_the_same_id_for_the_same_file_and_another_for_another(files):
    def ident(name, data):
        path = files.inbox / name
        path.write_bytes(data)
        (command_file,) = Inbox(files).command_files()  # a new one each time, as after a crash
        path.unlink()
        assert command_file.command is None and command_file.problem
        return command_file.id

    ids = [ident("1.json", b"x"), ident("2.json", b"x"), ident("1.json", b"y")]
    assert len(set(ids)) == 3
    assert ident("1.json", b"x") == ids[0]


def test_the_id_of_a_refusal_cannot_be_chosen(files, inbox):
    """Else a bad file could take the id of a command that is yet to come."""
    good = set_command("tau", 0.5, "cli")
    (files.inbox / f"1-{good.id}.json").write_bytes(dump(good)[:-1])
    (command_file,) = inbox.command_files()
    assert command_file.id != good.id


def test_an_unreadable_file_is_refused_with_the_systems_words(files, inbox, monkeypatch):
    path = put(files, 1)
    real = os.open

    def denied(name, *args, **kwargs):
        if Path(name) == path:
            raise PermissionError(13, "Permission denied", str(name))
        return real(name, *args, **kwargs)

    monkeypatch.setattr(os, "open", denied)  # whoever tests may be root, who reads everything
    (command_file,) = inbox.command_files()
    assert command_file.command is None and command_file.problem == "Permission denied"


def test_what_cannot_be_removed_is_not_listed_again(files, inbox):
    (files.inbox / "1.json").mkdir()
    (command_file,) = inbox.command_files()
    inbox.remove(command_file)
    put(files, 2, value=7)
    assert values(inbox.command_files()) == [7]


def test_looking_leaves_no_file_open(files, inbox):
    """Some hundred directories in the inbox must not use up what a process may open."""
    put(files, 1)
    os.mkfifo(files.inbox / "2.json")
    (files.inbox / "3.json").symlink_to("/dev/zero")
    for number in range(10, 30):
        (files.inbox / f"{number}.json").mkdir()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert len(inbox.command_files()) == 23
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# Sending.


def test_a_command_is_written_synced_and_renamed_and_hidden_until_then(files, monkeypatch):
    tape = []
    fsync, replace = os.fsync, Path.replace

    def listed():
        return [path.name for path in files.inbox.iterdir() if path.name.endswith(".json")]

    monkeypatch.setattr(os, "fsync", lambda f: (tape.append(("fsync", listed())), fsync(f))[1])
    monkeypatch.setattr(
        Path, "replace", lambda a, b: (tape.append(("rename", listed())), replace(a, b))[1]
    )
    path = put(files, 1)
    assert tape == [("fsync", []), ("rename", [])]
    assert listed() == [path.name]


def test_commands_of_one_instant_come_in_the_order_they_were_made(files, inbox, monkeypatch):
    """Also on a machine whose clock is coarse, or was just set back."""
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000 * 10**9)
    for number in range(1, 11):
        submit(files, set_command("tau", number, "cli"))
    assert values(inbox.command_files()) == list(range(1, 11))


def test_sending_where_there_is_no_inbox_is_one_clear_line(tmp_path):
    with pytest.raises(RunDirError, match="cannot send a command to"):
        submit(ControlFiles(tmp_path), do_command("sync", "cli"))


def test_a_command_that_cannot_be_written_leaves_nothing_in_the_inbox(files, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunDirError, match="No space left on device"):
        put(files, 1)
    assert list(files.inbox.iterdir()) == []
