"""The N-th system call fails, for every N: the last good checkpoint is always there."""

import contextlib
import errno
import itertools
import os

import numpy as np
import pytest

from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore

CALLS = ("write", "fsync", "rename", "unlink", "mkdir", "open", "rmdir")


class Fault:
    """Lets the N-th call of some of `os` fail."""

    def __init__(self, monkeypatch, code, countdown):
        self.left, self.code = countdown, code
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrapped(getattr(os, name)))

    def wrapped(self, real):
        def call(*arguments, **settings):
            self.left -= 1
            if self.left == 0:
                raise OSError(self.code, os.strerror(self.code))
            return real(*arguments, **settings)

        return call


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_whichever_call_fails_the_last_good_one_loads_and_the_next_is_written(
    history, monkeypatch, code
):
    for _ in range(3):
        history.write()
    failures = 0
    for countdown in itertools.count(1):
        with monkeypatch.context() as patch:
            fault = Fault(patch, code, countdown)
            try:
                history.write()
                written = True
            except CheckpointError as error:
                written = False
                assert str(error).startswith("cannot write ") and os.strerror(code) in str(error)
                history.count -= 1  # its rows are still to be written
        passed = fault.left > 0
        failures += not passed
        checkpoint = history.store.latest()
        assert checkpoint.damaged == ()
        if not written and checkpoint.tick > 10 * history.count:
            history.count += 1  # it has its name; only the syncing of the name failed
            history.chunks = checkpoint.chunks
        history.assert_is(checkpoint, history.count)
        if passed:
            break
        history.write()
        history.assert_is(history.store.latest(), history.count)
    assert failures > 20


def test_nothing_is_left_of_one_that_failed_once_another_is_written(history, monkeypatch):
    history.write()
    for countdown in range(1, 25):
        with monkeypatch.context() as patch:
            Fault(patch, errno.ENOSPC, countdown)
            with contextlib.suppress(CheckpointError):
                history.store.write(99, {}, {}, history.chunks, [(10, 20, history.rows(2))])
    for _ in range(2):
        history.write()
    left = sorted(p.name for p in history.store.directory.rglob("*") if p.name.startswith("."))
    assert left == []


def test_a_full_disk_is_said_with_path_and_bytes_and_goes_on_when_there_is_room(small_disk):
    disk, give_room = small_disk
    store = CheckpointStore(disk / "run" / "checkpoints")
    (disk / "run").mkdir()
    small = {"w": np.ones(50_000, np.float32)}
    store.write(1, small, {}, {})
    big = {"w": np.ones(500_000, np.float32)}
    with pytest.raises(CheckpointError) as error:
        store.write(2, big, {}, {})
    assert "variables.safetensors: No space left on device (2,000," in str(error.value)
    assert store.latest().tick == 1
    with pytest.raises(CheckpointError):
        store.write(2, big, {}, {})
    assert store.latest().tick == 1
    assert give_room()
    store.write(2, big, {}, {})
    assert store.latest().tick == 2 and store.latest().variables["w"].size == 500_000
