"""The exception family: what each refines, and how it reads."""

import inspect

import pytest

from rl_core import errors
from rl_core.errors import (
    BoundsError,
    ConfigError,
    EnvError,
    FeedError,
    MemoryLimitError,
    RlCoreError,
    RunDirError,
    ScopeMismatch,
    ShapeError,
    StaticHyperparameter,
    UnknownName,
    did_you_mean,
)

REFINES = {
    ScopeMismatch: ValueError,
    ShapeError: ValueError,
    FeedError: TypeError,
    BoundsError: ValueError,
    UnknownName: KeyError,
    StaticHyperparameter: TypeError,
    ConfigError: ValueError,
    EnvError: ValueError,
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


def test_no_name_is_offered_when_none_is_near():
    assert did_you_mean("zzz", ["sync_period", "tau"]) == ""
    assert did_you_mean("zzz", []) == ""
