"""Scalars read back from event files, which may be damaged or somebody else's."""

import os
import struct

import pytest

from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.board.read_events import read_curve, read_scalars
from targetnet.rl_core.board.records import checksum, records


@pytest.fixture
def file(tmp_path):
    with EventWriter(tmp_path) as events:
        events.text("run/config", "a", 0)
        events.scalars({"learn/loss": 0.5, "learn/q_max": 2.0}, 10)
        events.histogram("learn/td_error", [1.0, 2.0], 10)
        events.scalar("learn/loss", float("inf"), 20)
        events.flush()
    (path,) = tmp_path.glob("events.*")
    return path


def rows(path, **options):
    return [(row.env_step, row.values) for row in read_scalars(path, **options)]


BOTH = [(10, {"learn/loss": 0.5, "learn/q_max": 2.0}), (20, {"learn/loss": float("inf")})]


def test_scalars_come_back_and_nothing_else(file):
    assert rows(file) == BOTH


def test_only_events_with_a_tag_are_read_if_it_is_named(file):
    assert rows(file, tag="learn/q_max") == BOTH[:1]


def test_the_first_bytes_alone_can_be_read(file):
    sizes = [n for n in range(file.stat().st_size) if len(rows(file, most=n)) == 1]
    assert sizes and rows(file, most=sizes[0]) == BOTH[:1]


def test_a_file_that_was_cut_anywhere_gives_the_whole_events_before(file):
    data = file.read_bytes()
    for size in range(len(data)):
        file.write_bytes(data[:size])
        found = rows(file)
        assert found == BOTH[: len(found)] and len(found) < 2


def test_reading_stops_at_a_flipped_bit(file):
    data = bytearray(file.read_bytes())
    data[data.index(b"learn/q_max")] ^= 1
    file.write_bytes(data)
    assert rows(file) == []


def test_a_record_of_a_huge_length_is_not_read(tmp_path):
    length = struct.pack("<Q", 1 << 62)
    (tmp_path / "huge").write_bytes(length + checksum(length) + b"x" * 100)
    assert rows(tmp_path / "huge") == []


def test_a_record_that_is_no_event_ends_the_file(tmp_path):
    (tmp_path / "other").write_bytes(records([b"\xff\xff\xff"]))
    assert rows(tmp_path / "other") == []


def test_what_is_no_regular_file_is_refused(file, tmp_path):
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic link"):
        rows(tmp_path / "link")
    with pytest.raises(ValueError, match="not a regular file"):
        rows(tmp_path / "pipe")


@pytest.fixture
def run(tmp_path):
    """Two sessions with the env steps 0 to 999 and 1,000 to 1,999."""
    for begin in (0, 1_000):
        with EventWriter(tmp_path, after=begin - 1) as events:
            for env_step in range(begin, begin + 1_000):
                events.scalar("learn/loss", env_step / 2, env_step)
    return tmp_path


@pytest.mark.cases(2)
@pytest.mark.parametrize("most", [2, 3, 7, 100, 1_000, 1_999, 2_000, 5_000])
def test_a_curve_has_its_ends_and_no_more_points_than_asked_for(run, most):
    curve = read_curve(run, "learn/loss", most=most)
    assert min(most, 1_000) <= len(curve.points) <= most
    assert curve.points[0] == (0, 0.0) and curve.points[-1] == (1_999, 999.5)
    assert curve.points == sorted(set(curve.points))
    assert (curve.found, curve.low, curve.high, curve.whole) == (2_000, 0.0, 999.5, True)


def test_a_curve_that_is_not_there_has_no_points(run):
    assert read_curve(run, "learn/q_max", most=5) == ([], 0, None, None, True)


def test_only_so_many_bytes_are_read_and_that_is_told(run):
    first, second = sorted(path.stat().st_size for path in run.glob("events.*"))
    part = read_curve(run, "learn/loss", most=10, most_bytes=first + second // 2)
    assert 1_000 < part.found < 2_000 and not part.whole
    assert read_curve(run, "learn/loss", most=10, most_bytes=first + second).whole
    assert read_curve(run, "learn/loss", most=10, most_bytes=100).found < 5


def test_bounds_are_of_finite_values(tmp_path):
    with EventWriter(tmp_path) as events:
        for env_step, value in enumerate([float("nan"), float("-inf"), 3.0, 4.0]):
            events.scalar("learn/loss", value, env_step)
    curve = read_curve(tmp_path, "learn/loss", most=10)
    assert (curve.found, curve.low, curve.high) == (4, 3.0, 4.0)
