"""What is written comes back; how much is written; what is kept; in which order it is synced."""

import os
import shutil

import numpy as np
import pytest

from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from tests.rl_core.checkpoint.conftest import History, same


def files(directory):
    return {
        str(path.relative_to(directory)): path.stat().st_size
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_no_directory_is_no_checkpoint(directory):
    store = CheckpointStore(directory)
    assert store.latest() is None and store.best() is None
    assert not directory.exists()


def test_the_reason_of_rows_that_cannot_be_given_is_told(directory):
    def rows():
        raise CheckpointError("the disk is slower than the replay")
        yield

    with pytest.raises(CheckpointError, match=r"^the disk is slower than the replay$"):
        CheckpointStore(directory).write(1, {}, {}, {}, rows())


def test_a_checkpoint_comes_back_as_it_was_written(history):
    history.write()
    checkpoint = history.store.latest()
    history.assert_is(checkpoint, 1)
    assert checkpoint.number == 1 and checkpoint.score is None and checkpoint.damaged == ()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_every_kind_of_array_comes_back_with_its_bits(directory, dtype):
    directory.parent.mkdir()
    arrays = {
        "a scalar": np.array(1).astype(dtype),
        "none": np.zeros((0, 4), dtype),
        "many": np.random.default_rng(0).integers(0, 2, (3, 5, 7)).astype(dtype),
    }
    if dtype.startswith("float"):
        arrays["odd"] = np.array([np.nan, -0.0, np.inf, 5e-324], dtype)
    store = CheckpointStore(directory)
    store.write(0, arrays, {}, {})
    got = store.latest().variables
    same(got, arrays)
    assert all(got[name].tobytes() == array.tobytes() for name, array in arrays.items())


def test_rows_are_written_once_however_many_checkpoints_have_them(history):
    """A 200,000-row replay is not written anew for every checkpoint."""
    store = history.store
    rows = {"observation": np.zeros((200_000, 4), np.float32)}
    chunks = store.write(1, {}, {}, {}, [(0, 200_000, rows)])
    before = files(store.directory)
    new = {"observation": np.zeros((1_000, 4), np.float32)}
    store.write(2, {}, {}, chunks, [(200_000, 201_000, new)])
    after = files(store.directory)
    written = sum(size for name, size in after.items() if name not in before)
    assert 1_000 * 16 < written < 1_000 * 16 + 2_000
    assert {name: after[name] for name in before} == before
    spans = [store.rows(*item)[:2] for item in store.latest().chunks.items()]
    assert spans == [(0, 200_000), (200_000, 201_000)]


def test_rows_that_left_the_ring_leave_the_disk_with_the_last_checkpoint_that_had_them(history):
    for _ in range(5):
        history.write()
        history.chunks = dict(list(history.chunks.items())[-3:])  # a ring of 30 rows
    kept = [name for name in files(history.store.directory) if name.startswith("rows/")]
    # Numbers 4 and 5 are kept; they have rows 10 to 40 and 20 to 50.
    assert sorted(int(name.split("/")[1][:15]) for name in kept) == [0, 10, 20, 30, 40]
    history.write()
    kept = [name for name in files(history.store.directory) if name.startswith("rows/")]
    assert sorted(int(name.split("/")[1][:15]) for name in kept) == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_last_few_are_kept(directory, keep):
    directory.parent.mkdir()
    history = History(directory, keep)
    for _ in range(5):
        history.write()
    assert sorted(path.name for path in directory.glob("0*")) == [
        f"{number:08d}" for number in range(6 - keep, 6)
    ]
    history.assert_is(history.store.latest(), 5)


def test_the_best_is_kept_beside_the_last_few(history):
    for score in (1.0, 7.0, None, 3.0, 7.0, 2.0, None, -9.0):
        history.write(score=score)
    history.assert_is(history.store.best(), 5)  # of two that are equal the later one
    assert history.store.best().score == 7.0
    history.assert_is(history.store.latest(), 8)
    names = {path.name for path in history.store.directory.glob("0*")}
    assert names == {"00000005", "00000007", "00000008"}


def test_what_a_crash_left_behind_is_gone_after_the_next_start(history):
    history.write()
    directory = history.store.directory
    before = files(directory)
    for half in (".making-2", ".trash-1"):
        (directory / half).mkdir()
        (directory / half / "variables.safetensors").write_bytes(b"x")
    (directory / "rows" / f".{20:015d}-{30:015d}.safetensors.tmp").write_bytes(b"x")
    (directory / "rows" / f"{10:015d}-{20:015d}.safetensors").write_bytes(b"nobody's")
    history.store.prune()
    assert files(directory) == before
    history.assert_is(history.store.latest(), 1)


def test_nothing_is_removed_that_no_store_has_made(history):
    history.write()
    directory = history.store.directory
    (directory / ".ssh").mkdir()
    for theirs in (".ssh/id", ".hidden", "notes", "rows/notes", "rows/.nfs1"):
        (directory / theirs).write_bytes(b"theirs")
    before = files(directory)
    history.store.prune()
    assert files(directory) == before


@pytest.mark.parametrize("linked", ["", "rows"])
def test_a_link_is_not_followed_to_files_that_are_not_of_the_run(history, tmp_path, linked):
    history.write()
    place = history.store.directory / linked
    theirs = tmp_path / "theirs"
    shutil.move(place, theirs)
    place.symlink_to(theirs)
    before = files(theirs)
    for call in (history.store.prune, history.store.latest, history.store.best, history.write):
        with pytest.raises(CheckpointError, match=f"^{place} is a link"):
            call()
    assert files(theirs) == before


def test_one_that_is_only_half_removed_does_not_bear_its_number_any_more(history, monkeypatch):
    for _ in range(2):
        history.write()
    real, calls = os.unlink, []

    def fails_later(path, *arguments, **settings):
        calls.append(path)
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        real(path, *arguments, **settings)

    monkeypatch.setattr(os, "unlink", fails_later)
    history.write()
    assert calls
    for directory in history.store.directory.glob("0*"):
        assert len(list(directory.iterdir())) == 3, directory


def test_pruning_where_nothing_is_does_nothing(directory):
    CheckpointStore(directory).prune()
    assert not directory.exists()


# The order of what reaches the disk.


@pytest.fixture
def tape(monkeypatch):
    """(call, path) of everything that touches the disk, as the system sees it."""
    calls = []

    def record(name, real):
        def call(first, *rest, **settings):
            fd = isinstance(first, int)
            path = os.readlink(f"/proc/self/fd/{first}") if fd else os.fspath(first)  # noqa: PTH115
            target = os.fspath(rest[0]) if name == "rename" else None
            result = real(first, *rest, **settings)
            calls.append((name, path, target))
            return result

        return call

    for name in ("write", "fsync", "rename", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, record(name, getattr(os, name)))
    return calls


def test_everything_is_on_disk_before_it_gets_its_name_and_before_an_older_one_goes(history, tape):
    for _ in range(2):
        history.write()
    del tape[:]
    history.write()
    synced, dirty = set(), set()
    places = {"renamed": 0, "removed": 0}
    final = str(history.store.directory / "00000003")
    for call, path, target in tape:
        if call == "write":
            dirty.add(path)
        elif call == "fsync":
            dirty.discard(path)
            synced.add(path)
        elif call == "rename" and target == final:
            # All it consists of is on disk, and so are the directories' entries.
            assert not dirty and path in synced
            assert str(history.store.directory / "rows") in synced
            places["renamed"] += 1
            synced.clear()
        elif call == "rename" and ".trash" not in target:
            assert path in synced and path not in dirty
        else:
            # The new one's name is on disk before anything of an older one goes.
            assert str(history.store.directory) in synced, (call, path, target)
            places["removed"] += 1
    assert places["renamed"] == 1 and places["removed"] > 0
