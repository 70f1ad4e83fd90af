"""The history in a W&B run's own file, which a kill has cut or somebody else has written."""

import json
import os
import struct

import pytest

pytest.importorskip("wandb", reason="wandb is not installed: pip install 'targetnet[wandb]'")

from wandb.proto import wandb_internal_pb2

from targetnet.agents.sinks.wandb_store import read_history

BLOCK = 1 << 15
HEADER = b":W&B\xe1\xbe\x00"
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def record(**row):
    made = wandb_internal_pb2.Record()
    for key, value in row.items():
        made.history.item.add(key=key, value_json=json.dumps(value))
    return made.SerializeToString()


def piece(kind, data):
    return struct.pack("<IHB", 0, len(data), kind) + data


def log(records):
    """The file of records, as LevelDB writes it: in pieces that fit into the blocks."""
    data = HEADER
    for whole in records:
        rest, begun = whole, False
        while rest or not begun:
            room = BLOCK - len(data) % BLOCK
            if room < 7:
                data += b"\0" * room
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = (MIDDLE if rest else LAST) if begun else (FIRST if rest else WHOLE)
            data += piece(kind, part)
            begun = True
    return data


def rows(tmp_path, data):
    (tmp_path / "run.wandb").write_bytes(data)
    return list(read_history(tmp_path / "run.wandb"))


ROWS = [
    {"_step": i, "env_step": 10 * i, "learn/loss": 0.5, "pad": "x" * (37 * i % 1_000)}
    for i in range(300)
]


@pytest.fixture(scope="module")
def data():
    other = wandb_internal_pb2.Record()
    other.exit.exit_code = 1
    whole = log([other.SerializeToString(), *(record(**row) for row in ROWS)])
    assert len(whole) > 3 * BLOCK
    return whole


def test_rows_come_back_over_the_edges_of_blocks(tmp_path, data):
    assert rows(tmp_path, data) == ROWS


@pytest.mark.parametrize("size", [7, 8, 20, 500, BLOCK - 1, BLOCK, BLOCK + 3, 2 * BLOCK, 3 * BLOCK])
def test_a_file_that_was_cut_gives_the_whole_rows_before(tmp_path, data, size):
    found = rows(tmp_path, data[:size])
    assert found == ROWS[: len(found)] and (len(found) > 30) == (size >= BLOCK - 1)


@pytest.mark.parametrize(
    "bad",
    [
        piece(9, b"x"),
        piece(WHOLE, b"\xff\xff\xff"),
        piece(WHOLE, record(a=1).replace(b"1", b"[")),
        struct.pack("<IHB", 0, 65_535, WHOLE),
        b"\0" * 100,
    ],
)
def test_reading_stops_at_what_is_no_record(tmp_path, bad):
    good = log([record(_step=1)])
    assert rows(tmp_path, good + bad + piece(WHOLE, record(_step=2))) == [{"_step": 1}]


def test_json_that_is_too_deep_ends_the_file(tmp_path):
    made = wandb_internal_pb2.Record()
    made.history.item.add(key="a", value_json="[" * 20_000)
    assert rows(tmp_path, log([record(_step=1), made.SerializeToString()])) == [{"_step": 1}]


def test_an_endless_record_is_not_kept_in_memory(tmp_path):
    part = b"\0" * (BLOCK - 7)
    first = piece(FIRST, part[: BLOCK - 14])  # behind the header
    (tmp_path / "run.wandb").write_bytes(HEADER + first + 600 * piece(MIDDLE, part))
    assert list(read_history(tmp_path / "run.wandb")) == []


def test_what_is_no_file_of_wandb_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no file of W&B"):
        rows(tmp_path, b"something else")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        list(read_history(tmp_path / "pipe"))
