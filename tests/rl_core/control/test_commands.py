"""What can be said to a run, and that nothing else can be read out of a file's bytes."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targetnet.rl_core.control.commands import (
    ACTIONS,
    MAX_BYTES,
    BadCommand,
    do_command,
    dump,
    parse_command,
    read_object,
    set_command,
)

IDENT = "0123456789abcdef" * 2


def written(**changes):
    """A good command's bytes with some fields changed; None takes one out."""
    fields = {"id": IDENT, "time": 1.5, "who": "cli", "name": "tau", "value": 0.5} | changes
    return json.dumps({key: field for key, field in fields.items() if field is not None}).encode()


# Made here.


def test_a_command_says_what_who_and_when_under_an_id_of_its_own():
    commands = [set_command("tau", 0.5, "board") for _ in range(100)]
    assert len({command.id for command in commands}) == 100
    command = commands[0]
    assert (command.name, command.value, command.who) == ("tau", 0.5, "board")
    assert len(command.id) == 32 and int(command.id, 16)
    assert [c.time for c in commands] == sorted(c.time for c in commands)


@pytest.mark.parametrize("value", [1, 1.0, -0.0, 5e-324, 2**70, "auto", "", [], ["torso", "head"]])
def test_a_value_comes_back_with_its_type(value):
    got = parse_command(dump(set_command("tau", value, "api"))).value
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_comes_back_as_it_was_sent(action):
    value = {"reset": "head", "perturb": 0.5}.get(action)
    command = do_command(action, "cli", value)
    assert parse_command(dump(command)) == command and command.do == action


@settings(max_examples=200, deadline=None)
@given(
    name=st.text(min_size=1, max_size=100),
    value=st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=1_000)
    | st.lists(st.text(min_size=1, max_size=100), max_size=10),
)
def test_what_can_be_made_can_be_read(name, value):
    command = set_command(name, value, "api")
    assert parse_command(dump(command)) == command


LARGE = {
    "a hundred names of a hundred command files each": ["é" * 100] * 100,
    "as long as a text may be": "\U0001f600" * 1_000,
    "more digits than Python prints": 10**5_000,
    "a lone surrogate": "\ud800",
    "a lone surrogate in a list": ["\ud800"],
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_a_value_that_cannot_be_read_is_refused_when_it_is_made(value):
    """A run refuses it without its id: whoever sent it would wait in vain."""
    try:
        command = set_command("exempt", value, "api")
        data = dump(command)
    except BadCommand:
        return
    assert parse_command(data) == command


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, True, False, None, b"1", 1j, {"a": 1}, object()),
        *(np.array([1.0]), ["torso", 1], [["torso"]], [""], "x" * 1_001, ["x"] * 101, ["x" * 101]),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_number_text_or_list_of_names_cannot_be_sent(value):
    with pytest.raises(BadCommand, match=r"^value: must be a finite number, a text or a list"):
        set_command("tau", value, "api")


@pytest.mark.parametrize("name", ["", "x" * 101, 3, None])
def test_a_name_has_one_to_a_hundred_letters(name):
    with pytest.raises(BadCommand, match=r"^name: "):
        set_command(name, 1, "api")
    assert set_command("x" * 100, 1, "api").name == "x" * 100


def test_an_unknown_action_is_refused_with_the_nearest():
    with pytest.raises(BadCommand, match="did you mean 'resume'"):
        do_command("resum", "cli")


def test_a_command_cannot_be_changed_afterwards():
    command = set_command("tau", 0.5, "cli")
    with pytest.raises(ValueError, match="frozen"):
        command.value = 1.0


# Read from bytes.


def test_the_good_bytes_are_good():
    command = parse_command(written())
    assert (command.id, command.name, command.value) == (IDENT, "tau", 0.5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (written(id=IDENT[:-1]), "^id: "),
        (written(id=IDENT.upper()), "^id: "),
        (written(id=None), "^id: "),
        (written(time="1.5"), "^time: "),
        (written(time=None), "^time: "),
        (written(who="schedule"), "^who: "),
        (written(who=None), "^who: "),
        (written(name=["tau"]), "^name: "),
        (written(name=None), "^name: "),
        (written(value={"a": 1}), "^value: "),
        (written(value=None), "^value: "),
        (written(do="sync"), "^(name|value): "),  # both a set and an action
        (written(do="syncc", name=None, value=None), "^do: "),
        (written(do=["sync"], name=None, value=None), "^do: "),
        (written(later=1), "^later: "),
        (b"", "^not JSON"),
        (b"{", "^not JSON"),
        (b"\xff", "^not JSON"),
        (json.dumps({}).encode("utf-16"), "^not JSON"),
        (b"[1]", "is a JSON object, got list"),
        (b"null", "is a JSON object, got NoneType"),
    ],
)
def test_a_bad_command_is_refused_in_one_line_that_names_the_field(data, reason):
    with pytest.raises(BadCommand, match=reason) as caught:
        parse_command(data)
    assert "\n" not in str(caught.value)


def test_a_file_may_have_exactly_so_many_bytes():
    data = written().ljust(MAX_BYTES)
    assert parse_command(data).value == 0.5
    with pytest.raises(BadCommand, match=f"at most {MAX_BYTES} bytes"):
        parse_command(data + b" ")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"a": [{"b": 1, "b": 2}]}',
        '{"a": 1, "\\u0061": 2}',  # the same key, written otherwise
        '{"a": NaN}',
        '{"a": [-Infinity]}',
        '{"a": ' + "[" * 5_000,
        '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"a": 1} {"a": 1}',
        "{'a': 1}",
        '"a"',
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_plain_small_object_is_refused(text):
    with pytest.raises(BadCommand) as caught:
        read_object(text.encode())
    assert "\n" not in str(caught.value)


def test_an_object_is_read_whatever_it_says():
    """The fields are for whoever asked; here the same as the standard library reads."""
    text = '{"b": [1, 2.5, null, true, "\\u00e9"], "a": {"c": {}}}'
    assert read_object(text.encode()) == json.loads(text)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_do_anything_else_than_be_read_or_refused(data):
    try:
        command = parse_command(data)
    except BadCommand as error:
        assert "\n" not in str(error)
    else:
        assert parse_command(dump(command)) == command
