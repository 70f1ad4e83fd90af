"""Orders that stand when a run is moved: as its log and `control/moved` have them."""

import pytest

from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import ControlLog, Entry
from targetnet.rl_core.control.timetable import (
    PersistentOrders,
    note_of_move,
    standing_orders,
)
from targetnet.rl_core.errors import RunDirError

# orders since the move      paused  time steps of stops
ROWS = [
    ([], False, []),
    (["pause"], True, []),
    (["pause", "resume"], False, []),
    (["pause", "resume", "pause"], True, []),
    (["pause", "stop"], False, [1]),  # a stop ends a pause
    (["stop", "pause"], True, [0]),  # the run was on its way to the stop again, and paused there
    (["stop", "stop"], False, [0, 1]),
    (["pause", "sync", "checkpoint"], True, []),
]


@pytest.fixture
def files(tmp_path):
    files = ControlFiles(tmp_path)
    files.make()
    return files


def write(files, names, *, first=0, taken=True):
    log = ControlLog(files.log)
    log.append(
        Entry(
            id=f"{first + tick}", asked=0, time=0, who="cli", kind="do", name=name, taken=taken,
            tick=tick, env_step=tick, update=0,
        )
        for tick, name in enumerate(names)
    )  # fmt: skip
    log.close()


@pytest.mark.parametrize(("names", "paused", "stops"), ROWS)
def test_orders_since_the_move_hold(files, names, paused, stops):
    files.moved.write_bytes(note_of_move(files.log))
    write(files, names)
    standing = standing_orders(files)
    assert standing.paused == paused
    assert [(e.name, e.tick) for e in standing.stops] == [("stop", tick) for tick in stops]


def test_orders_of_before_do_not_hold(files):
    write(files, ["stop", "pause"])
    with files.log.open("ab") as log:
        log.write(b"half a line")  # which the run drops when it goes on
    files.moved.write_bytes(note_of_move(files.log))
    assert files.moved.read_bytes() == b"2"
    assert standing_orders(files) == PersistentOrders()
    write(files, ["stop"], first=2)
    assert len(standing_orders(files).stops) == 1


def test_refused_orders_do_not_hold(files):
    files.moved.write_bytes(b"0")
    write(files, ["pause", "stop"], taken=False)
    assert standing_orders(files) == PersistentOrders()


def test_no_order_holds_in_a_run_that_somebody_resumes(files):
    write(files, ["stop", "pause"])
    assert standing_orders(files) == PersistentOrders()


@pytest.mark.parametrize("text", [b"", b"-1", b"x", b"1" * 21])
def test_a_damaged_note_is_one_line(files, text):
    files.moved.write_bytes(text)
    with pytest.raises(RunDirError, match=r"moved"):
        standing_orders(files)
