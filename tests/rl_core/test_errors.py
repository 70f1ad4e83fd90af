"""The exception family: what each refines, and how it reads."""

import inspect

import numpy as np
import pytest

from targetnet.rl_core import errors
from targetnet.rl_core.errors import (
    ArgumentError,
    BoundsError,
    ConfigError,
    ControllerFault,
    Diverged,
    EnvContractError,
    EnvError,
    EnvFailed,
    EnvFault,
    EnvNotFinite,
    EnvWorkerLost,
    Fault,
    FeedError,
    MemoryLimitError,
    RlCoreError,
    RunDirError,
    ScopeMismatch,
    ShapeError,
    StaticHyperparameter,
    UnknownName,
    did_you_mean,
    in_one_line,
    quoted,
)

REFINES = {
    ScopeMismatch: ValueError,
    Diverged: ArithmeticError,
    ShapeError: ValueError,
    FeedError: TypeError,
    ArgumentError: TypeError,
    BoundsError: ValueError,
    UnknownName: KeyError,
    StaticHyperparameter: TypeError,
    ConfigError: ValueError,
    EnvError: ValueError,
    Fault: RuntimeError,
    ControllerFault: Fault,
    EnvFault: Fault,
    EnvContractError: EnvError,
    EnvNotFinite: ArithmeticError,
    EnvFailed: EnvFault,
    EnvWorkerLost: EnvFault,
    RunDirError: OSError,
    MemoryLimitError: MemoryError,
}


def test_every_error_is_ours_and_the_built_in_it_refines():
    for error, built_in in REFINES.items():
        assert issubclass(error, RlCoreError) and issubclass(error, built_in), error


def test_the_table_above_has_every_error_there_is():
    classes = {c for _, c in inspect.getmembers(errors, inspect.isclass)}
    ours = {c for c in classes if issubclass(c, Exception) and c.__module__ == errors.__name__}
    assert ours - {RlCoreError} == set(REFINES)


@pytest.mark.parametrize("error", REFINES, ids=lambda e: e.__name__)
def test_an_error_reads_as_its_message_and_nothing_else(error):
    # KeyError would put quotes around it, and OSError may add a number.
    assert str(error("no block 'tors'")) == "no block 'tors'"


def test_the_nearest_name_is_offered():
    assert did_you_mean("sync_perod", ["sync_period", "tau"]) == "; did you mean 'sync_period'?"


def test_colors_of_another_librarys_text_are_left_out_and_other_codes_escaped():
    assert in_one_line("\x1b[1mUsing\x1b[0m a\n\x1b[38;5;9mtensor\x1b[m") == "Using a tensor"
    assert in_one_line("\x1b[2J\x1b]0;title\x07") == r"\x1b[2J\x1b]0;title\x07"


def test_no_name_is_offered_when_none_is_near():
    assert did_you_mean("zzz", ["sync_period", "tau"]) == ""
    assert did_you_mean("zzz", []) == ""


def test_a_huge_name_is_compared_with_nothing_and_a_huge_known_one_is_never_offered():
    assert did_you_mean("sync_period" * 100_000, ["sync_period"]) == ""
    assert did_you_mean("sync_perod", ["sync_period" * 100_000, "sync_period"]).endswith("'?")


# Values from outside.

DEEP: list = []
for _ in range(100_000):
    DEEP = [DEEP]
HOSTILE = {
    "a huge text": "x" * 10_000_000,
    "a huge name with a newline first": "\n" + "x" * 10_000_000,
    "many words": "x " * 1_000_000,
    "control characters": "".join(map(chr, range(32))) + "\x7f\x9b2J",
    "an escape sequence": "\x1b]0;title\x07\x1b[2J",
    "right to left": "\u202egnp.exe",
    "half a character": "\ud800",
    "a huge integer": 10**5_000,
    "many numbers": list(range(1_000_000)),
    "deep": DEEP,
    "a large dict": {str(i) * 100: "x" * 1_000 for i in range(1_000)},
    "bytes": b"\x00" * 1_000_000,
    "an array": np.arange(1_000_000).reshape(1_000, 1_000),
    "itself": (lambda x: x.append(x) or x)([]),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("show", [quoted, in_one_line])
def test_whatever_is_shown_is_one_short_line_that_no_terminal_obeys(show, value):
    text = show(value)
    assert 0 < len(text) <= 200 and text.isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hubber", "'hubber'"),
        (2.5, "2.5"),
        (True, "True"),
        ([64, 2.5], "[64, 2.5]"),
        ({"a": [1, {"b": 2}]}, "{'a': [1, {'b': 2}]}"),
        ("it's\n\x1b[2J", '"it\'s\\n\\x1b[2J"'),
    ],
)
def test_a_small_value_is_shown_as_python_writes_it(value, text):
    assert quoted(value) == text


def test_the_beginning_of_what_is_cut_is_shown():
    assert quoted("abc" * 1_000).startswith("'abcabc") and quoted("abc" * 1_000).endswith("...")
    assert in_one_line("abc" * 1_000).startswith("abcabc")
    assert in_one_line("two\n lines") == "two lines"


@pytest.mark.parametrize("error", REFINES, ids=lambda e: e.__name__)
def test_no_name_in_an_error_can_break_its_line_or_reach_the_terminal(error):
    assert str(error("no run 'a\nb\x1b[2J\udcff'")) == "no run 'a\\nb\\x1b[2J\\udcff'"


def test_only_what_breaks_a_run_off_is_no_mistake_of_the_command_line():
    broken_off = {error for error in REFINES if error.exit_code == 1}
    assert broken_off == {Diverged, EnvNotFinite, EnvFailed, EnvWorkerLost}
    assert all(error.exit_code == 2 for error in set(REFINES) - broken_off)


def test_who_passes_a_fault_on_adds_what_it_knows():
    fault = EnvNotFinite("the reward is nan")
    fault.add(before="env 3: ", after="; weights saved")
    assert str(fault) == "env 3: the reward is nan; weights saved"
