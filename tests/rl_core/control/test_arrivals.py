"""The file of arrivals: what is written is read, and damage is noticed."""

import pytest

from targetnet.rl_core.control.records import (
    Arrival,
    ArrivalsFile,
    read_arrivals,
    require_arrivals,
)
from targetnet.rl_core.errors import RunDirError

SOME = [Arrival(0, 0, 11), Arrival(2, 5, 2**32 - 1), Arrival(1, 2**40, 0)]
RECORD = 20  # bytes


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "arrivals.bin"
    write(ArrivalsFile(path), SOME)
    return path


def write(file, arrivals):
    for arrival in arrivals:
        file.append(arrival)
        file.write()
    file.close()


def test_what_was_written_is_read(path):
    assert read_arrivals(path, 3) == SOME and path.stat().st_size == 3 * RECORD
    assert read_arrivals(path.with_name("none"), 0) == []


def test_a_file_that_goes_on_has_what_the_run_did_after_its_checkpoint(path):
    file = ArrivalsFile(path, 1, require_arrivals(path, 1))
    assert file.ahead == SOME[1:] and file.length == 1
    before = path.read_bytes()
    assert file.append(SOME[1])
    file.write()
    assert path.read_bytes() == before  # killed here, the file still has the third
    assert file.append(SOME[2]) and file.append(Arrival(9, 9, 9))
    file.close()
    assert read_arrivals(path, 4) == [*SOME, Arrival(9, 9, 9)]


def test_another_arrival_than_the_recorded_one_voids_what_followed(path):
    file = ArrivalsFile(path, 1)
    assert not file.append(Arrival(2, 5, 7))
    file.close()
    assert read_arrivals(path, 2) == [SOME[0], Arrival(2, 5, 7)]


def test_half_a_record_is_none(path):
    path.write_bytes(path.read_bytes()[:-1])
    assert read_arrivals(path, 2) == SOME[:2]
    file = ArrivalsFile(path, 2)
    assert file.ahead == []
    write(file, SOME[2:])
    assert read_arrivals(path, 3) == SOME


@pytest.mark.parametrize("byte", range(3 * RECORD))
def test_every_damaged_byte_is_noticed(path, byte):
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunDirError, match=r"damaged: it has \d whole records and had 3"):
        read_arrivals(path, 3)
    assert read_arrivals(path, 0) == SOME[: byte // RECORD]


def test_records_of_another_run_are_not_taken_for_these(path, tmp_path):
    write(ArrivalsFile(tmp_path / "other"), [Arrival(1, 0, 11), *SOME[1:]])
    with pytest.raises(RunDirError, match="not what was written"):
        require_arrivals(tmp_path / "other", 3, require_arrivals(path, 3))


def test_a_link_is_refused(path):
    link = path.with_name("link")
    link.symlink_to(path)
    with pytest.raises(RunDirError, match="symbolic link"):
        read_arrivals(link, 0)
