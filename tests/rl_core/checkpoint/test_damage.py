"""Bytes that changed, files that are gone or foreign: always named, never believed."""

import hashlib
import json
import os
import shutil
import tracemalloc

import numpy as np
import pytest

from targetnet.rl_core.checkpoint.store import CheckpointError
from tests.rl_core.checkpoint.conftest import History


@pytest.fixture
def three(history):
    """Checkpoints 1 to 3, of which 2 and 3 are there."""
    for _ in range(3):
        history.write()
    return history


def own_files(history, number):
    """What only this checkpoint has: its directory and its newest rows."""
    directory = history.store.directory
    rows = directory / "rows" / f"{10 * (number - 1):015d}-{10 * number:015d}.safetensors"
    return [*sorted((directory / f"{number:08d}").iterdir()), rows]


def damaged(data, kind, rng):
    """The bytes with one thing wrong."""
    place = int(rng.integers(len(data)))
    if kind == "flip":
        return data[:place] + bytes([data[place] ^ (1 << rng.integers(8))]) + data[place + 1 :]
    if kind == "cut":
        return data[:place]
    if kind == "zeros":
        end = min(len(data), place + int(rng.integers(1, 64)))
        return data[:place] + bytes(end - place) + data[end:]
    return data[:place] + bytes(rng.integers(0, 256, 8, np.uint8)) + data[place:]


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", ["flip", "cut", "zeros", "longer"])
def test_five_hundred_random_damages_are_each_found_and_the_one_before_is_used(three, kind):
    rng = np.random.default_rng(len(kind))
    paths = own_files(three, 3)
    for _ in range(500):
        path = paths[rng.integers(len(paths))]
        good = path.read_bytes()
        bad = damaged(good, kind, rng)
        if bad == good:
            continue
        path.write_bytes(bad)
        checkpoint = three.store.latest()
        path.write_bytes(good)
        three.assert_is(checkpoint, 2)
        (reason,) = checkpoint.damaged
        assert str(path) in reason and "\n" not in reason
    three.assert_is(three.store.latest(), 3)


def test_files_of_two_checkpoints_that_were_swapped_are_found(three):
    for name in ("variables.safetensors", "host.json"):
        new, old = (three.store.directory / f"{number:08d}" / name for number in (3, 2))
        swapped = new.read_bytes(), old.read_bytes()
        new.write_bytes(swapped[1])
        three.assert_is(three.store.latest(), 2)
        new.write_bytes(swapped[0])
    a, b = own_files(three, 3)[-1], own_files(three, 2)[-1]
    rows = a.read_bytes(), b.read_bytes()
    a.write_bytes(rows[1])
    three.assert_is(three.store.latest(), 2)


@pytest.mark.parametrize("index", range(4))
def test_a_missing_file_is_found(three, index):
    path = own_files(three, 3)[index]
    path.unlink()
    checkpoint = three.store.latest()
    three.assert_is(checkpoint, 2)
    assert str(path) in checkpoint.damaged[0] and "No such file" in checkpoint.damaged[0]


def test_if_none_is_whole_every_one_is_named(three):
    for number in (2, 3):
        (three.store.directory / f"{number:08d}" / "host.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"no checkpoint is whole: .*0003.*; .*0002") as error:
        three.store.latest()
    assert "\n" not in str(error.value)


def test_a_directory_that_is_none_is_told_in_a_line(three):
    shutil.rmtree(three.store.directory)
    three.store.directory.write_text("")
    for look in (three.store.latest, three.store.best, lambda: three.store.numbered(1)):
        with pytest.raises(CheckpointError, match=r"cannot read .*: Not a directory"):
            look()


def test_rows_that_both_have_cannot_be_replaced_by_older_ones(three):
    """They are written once; what they were is known, so at least nobody learns from others."""
    first = min((three.store.directory / "rows").iterdir())
    first.write_bytes(first.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="no checkpoint is whole"):
        three.store.latest()


def test_rows_that_changed_after_the_look_are_found_when_they_are_read(three):
    checkpoint = three.store.latest()
    name, record = next(iter(checkpoint.chunks.items()))
    path = three.store.directory / "rows" / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="not what was written"):
        three.store.rows(name, record)


def test_a_damaged_checkpoint_does_not_take_rows_of_a_whole_one_with_it(three):
    (three.store.directory / "00000003" / "manifest.json").write_text("x")
    three.store.prune()
    three.assert_is(three.store.latest(), 2)


def test_after_a_damaged_one_the_next_is_written_and_read(three):
    (three.store.directory / "00000003" / "host.json").write_text("x")
    three.write()
    three.assert_is(three.store.latest(), 4)


# Made by somebody who wishes ill.


def sealed(manifest):
    text = json.dumps(manifest)
    return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n"


def rewrite(history, change=lambda manifest: None, variables=None, host=None):
    """A manifest and seal as an attacker would make them: consistent."""
    directory = history.store.directory / "00000003"
    manifest = json.loads((directory / "manifest.json").read_text().split("\n")[0])
    for name, data in {"variables.safetensors": variables, "host.json": host}.items():
        if data is not None:
            (directory / name).write_bytes(data)
            record = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            manifest["files"][name] = record
    change(manifest)
    (directory / "manifest.json").write_text(sealed(manifest))


def chunk(name):
    record = {"bytes": 4, "sha256": hashlib.sha256(b"evil").hexdigest()}
    return lambda manifest: manifest["chunks"].update({name: record})


@pytest.mark.parametrize(
    "name", ["../../outside", "/etc/passwd", "a/b.safetensors", "..", "", "\0", "x.safetensors"]
)
def test_a_chunk_is_only_ever_a_file_among_the_rows(three, tmp_path, name):
    (three.store.directory.parent / "outside").write_bytes(b"evil")
    rewrite(three, chunk(name))
    checkpoint = three.store.latest()
    three.assert_is(checkpoint, 2)
    assert "is no name of a chunk" in checkpoint.damaged[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(format=2),
        lambda m: m.update(extra=1),
        lambda m: m.update(tick=-1),
        lambda m: m.update(tick="30"),
        lambda m: m["files"].update({"../x": m["files"]["host.json"]}),
        lambda m: m["files"].pop("host.json"),
        lambda m: m["files"]["host.json"].update(bytes=-1),
        lambda m: m["files"]["host.json"].update(sha256="../" * 21 + "x"),
        lambda m: m.update(chunks=[]),
    ],
)
def test_a_manifest_of_another_kind_is_refused(three, change):
    rewrite(three, change)
    checkpoint = three.store.latest()
    three.assert_is(checkpoint, 2)
    assert "manifest.json is damaged" in checkpoint.damaged[0]


@pytest.mark.parametrize(
    "host",
    [b"", b"{", b"[]", b"5", b"null", b"\xff", b"[" * 100_000, b'{"k": ' + b"9" * 10_000 + b"}"],
    ids=lambda host: host[:8].decode(errors="replace"),
)
def test_a_host_state_that_is_no_json_object_is_refused(three, host):
    rewrite(three, host=host)
    checkpoint = three.store.latest()
    three.assert_is(checkpoint, 2)
    assert "host.json is damaged" in checkpoint.damaged[0] and "\n" not in checkpoint.damaged[0]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("how", ["link", "pipe", "directory", "device"])
def test_nothing_but_regular_files_is_read(three, tmp_path, index, how):
    path = own_files(three, 3)[index]
    shutil.copy(path, tmp_path / "elsewhere")
    path.unlink()
    match how:
        case "link":
            path.symlink_to(tmp_path / "elsewhere")
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
    three.assert_is(three.store.latest(), 2)


@pytest.mark.parametrize(
    "header",
    [
        (1 << 62).to_bytes(8, "little"),
        (1 << 20).to_bytes(8, "little") + b"{",
        (2).to_bytes(8, "little") + b"[]",
        (80).to_bytes(8, "little")
        + b'{"w":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'.ljust(
            80
        ),
        (70).to_bytes(8, "little")
        + b'{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'.ljust(70)
        + b"1234",
        (70).to_bytes(8, "little")
        + b'{"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}'.ljust(70)
        + b"1234",
        (70).to_bytes(8, "little")
        + b'{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'.ljust(70)
        + b"1234",
    ],
    ids=[
        "longer than the file",
        "cut",
        "no object",
        "terabytes",
        "negative",
        "unknown kind",
        "a kind that NumPy has not",
    ],
)
def test_a_header_that_lies_is_refused_without_the_memory_it_asks_for(three, header):
    rewrite(three, lambda _: None, variables=header)
    tracemalloc.start()
    checkpoint = three.store.latest()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    three.assert_is(checkpoint, 2)
    assert "variables.safetensors is damaged" in checkpoint.damaged[0]
    assert peak < 2_000_000


def test_a_file_longer_than_its_record_is_not_read_at_all(three):
    path = three.store.directory / "00000003" / "variables.safetensors"
    with path.open("ab") as file:
        file.truncate(1 << 36)  # 64 GiB of nothing
    tracemalloc.start()
    three.assert_is(three.store.latest(), 2)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_memory_stays_below_twice_the_file(directory):
    directory.parent.mkdir()
    history = History(directory)
    rows = {"observation": np.ones((4_000_000,), np.float32)}
    chunks = history.store.write(1, {}, {}, {}, [(0, 4_000_000, rows)])
    ((name, record),) = chunks.items()
    tracemalloc.start()
    history.store.latest()
    assert tracemalloc.get_traced_memory()[1] < 2_000_000  # hashed piece by piece
    tracemalloc.reset_peak()
    _, _, columns = history.store.rows(name, record)
    assert tracemalloc.get_traced_memory()[1] < 2.1 * record.bytes
    tracemalloc.stop()
    assert columns["observation"].nbytes == 16_000_000
