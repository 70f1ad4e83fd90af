"""Seals: whatever bit of a sealed file is another one, and wherever it is cut, it is noticed."""

import json
import re

import pytest

from targetnet.rl_core.seal import (
    SealError,
    is_sealed_text,
    sealed_json,
    sealed_line,
    sealed_row,
    sealed_text,
    unsealed_json,
    unsealed_line,
    unsealed_row,
)

FIELDS = {"digest": "ab12", "tick": 1_000, "returns": [1.5, 500.0], "who": {"a": None}}


def test_what_was_sealed_comes_back():
    assert unsealed_json(sealed_json(FIELDS)) == FIELDS
    assert is_sealed_text(sealed_text("seed = 0\n"))


def test_every_flipped_bit_of_a_value_is_noticed():
    data = sealed_json(FIELDS)
    for place in range(data.index(b"ab12"), data.index(b'"seal"')):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            try:
                fields = unsealed_json(bytes(flipped))
            except ValueError:
                continue
            assert fields == FIELDS, flipped  # white space between the fields


def test_a_flipped_seal_is_noticed():
    data = sealed_json(FIELDS)
    place = data.rindex(b'"') - 1
    flipped = data[:place] + (b"0" if data[place : place + 1] != b"0" else b"1") + b'"\n}\n'
    with pytest.raises(ValueError, match="damaged"):
        unsealed_json(flipped)


def test_a_text_that_was_cut_anywhere_after_its_first_line_is_noticed():
    text = sealed_text("seed = 0\ndiscount = 0.99\nloss = 'huber'\n")
    for end in range(text.index("\n") + 1, len(text)):
        with pytest.raises(ValueError, match="damaged"):
            is_sealed_text(text[:end])


def test_a_digit_of_a_text_that_turned_is_noticed():
    with pytest.raises(ValueError, match="damaged"):
        is_sealed_text(sealed_text("discount = 0.99\n").replace("0.99", "0.91"))


def test_a_line_is_what_was_written_where_it_was_written():
    line = sealed_line(b'{"value": 1.5}', 40)
    assert unsealed_line(line[:-1], 40) == b'{"value": 1.5}'
    for other, position in ((line[:-1], 41), (line[:-1].replace(b"1.5", b"1.7"), 40)):
        with pytest.raises(ValueError, match="damaged"):
            unsealed_line(other, position)
    assert unsealed_line(b'{"value": 1.5}', 40) is None


def test_a_seal_that_was_taken_out_is_missed():
    data = sealed_json(FIELDS)
    with pytest.raises(SealError, match="its seal is missing"):
        unsealed_json(re.sub(rb',\s*"seal": "\w+"', b"", data))
    with pytest.raises(SealError, match="damaged"):
        unsealed_json(re.sub(rb'"seal": "\w+"', b'"seal": null', data))
    line = sealed_line(b'{"value": 1.5}', 40)
    with pytest.raises(SealError, match="its seal is missing"):
        unsealed_line(re.sub(rb', "seal": "\w+"\}\n', b"}", line), 40)


def test_a_row_has_a_seal_whoever_wrote_it():
    fields = {"env_id": "CartPole-v1", "seeds": {999: {"mean": 1.5}, 1_000: {"mean": 2.5}}}
    row = sealed_row(fields)
    # The bytes before the seal are those of the fields alone.
    assert row.startswith(json.dumps(fields).encode()[:-1] + b', "seal": "')
    assert unsealed_row(row) == json.loads(json.dumps(fields))
    with pytest.raises(SealError, match="damaged"):
        unsealed_row(row.replace(b"2.5", b"9.5"))
    with pytest.raises(SealError, match="no seal"):
        unsealed_row(json.dumps(fields).encode())


def test_what_has_no_seal_is_taken_as_it_is():
    assert unsealed_json(b'{"tick": 3}') == {"tick": 3}
    assert not is_sealed_text("seed = 0\n") and not is_sealed_text("")


@pytest.mark.parametrize("data", [b"", b"[1]", b"3", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_a_value_error(data):
    with pytest.raises(ValueError):
        unsealed_json(data)
