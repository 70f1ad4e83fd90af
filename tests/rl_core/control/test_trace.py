"""The trace as a file: whole again after a full disk, and damage is not taken for a difference."""

import os
from zlib import crc32

import numpy as np
import pytest

from targetnet.rl_core.control.records import TraceFile, read_trace, require_trace
from targetnet.rl_core.errors import RunDirError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.bin"


def numbers(*values):
    return np.array(values, np.uint32)


def written(path, *values):
    trace = TraceFile(path)
    trace.append(numbers(*values))
    trace.write()
    trace.close()
    return trace.crc


def test_its_crc_is_that_of_the_bytes_of_the_file(path):
    assert written(path, 1, 2, 3) == crc32(path.read_bytes())


def test_opened_again_it_goes_on_after_what_is_kept(path):
    written(path, 1, 2, 3)
    trace = TraceFile(path, 2)
    trace.append(numbers(9))
    trace.write()
    assert read_trace(path).tolist() == [1, 2, 9]
    assert trace.crc == crc32(path.read_bytes())


def test_what_a_full_disk_refused_is_written_later_and_in_its_place(path, monkeypatch):
    trace, pwrite = TraceFile(path), os.pwrite
    trace.append(numbers(1, 2))
    trace.write()
    with monkeypatch.context() as patch:
        # Six bytes fit: one entry and half of the next.
        room = [6]

        def fills_up(file, data, at):
            if not room[0]:
                raise OSError(28, "No space left on device")
            size, room[0] = room[0], 0
            return pwrite(file, data[:size], at)

        patch.setattr(os, "pwrite", fills_up)
        trace.append(numbers(3, 4))
        with pytest.raises(RunDirError, match="No space left"):
            trace.write()
    trace.append(numbers(5))
    trace.write()
    assert read_trace(path).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("length", [4, 100])
def test_a_shorter_trace_is_refused_and_left_as_it_is(path, length):
    written(path, 1, 2, 3)
    for use in (require_trace, TraceFile):
        with pytest.raises(RunDirError, match=f"has 3 time steps and had {length}"):
            use(path, length)
    assert read_trace(path).tolist() == [1, 2, 3]


def test_a_missing_trace_is_refused_where_there_was_one(path):
    with pytest.raises(RunDirError, match="has 0 time steps and had 3"):
        require_trace(path, 3)
    assert not path.exists()


def test_every_flipped_bit_of_what_is_kept_is_noticed(path):
    crc = written(path, 1, 2, 3)
    data = path.read_bytes()
    for place in range(12):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(RunDirError, match="is damaged: not what was written"):
                require_trace(path, 3, crc)


def test_what_comes_after_the_part_that_is_kept_does_not_matter(path):
    crc = written(path, 1, 2)
    path.write_bytes(path.read_bytes() + b"anything")
    assert require_trace(path, 2, crc) == crc


def test_a_trace_that_would_be_waited_for_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(RunDirError, match="it is not a regular file"):
        require_trace(path, 1)
