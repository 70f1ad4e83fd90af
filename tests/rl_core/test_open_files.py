"""Room for open files: the soft limit is raised, and what cannot fit is refused."""

import os
import resource

import pytest

from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.machine import make_room_for_files


@pytest.fixture
def limits(monkeypatch):
    """(soft, hard) as they are, and as they were set."""
    found = [(1_024, 4_096)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, both: found.append(both))
    monkeypatch.setattr(os, "listdir", lambda path: ["0", "1", "2"])
    return found


@pytest.mark.parametrize(
    ("count", "soft"),
    [(921, None), (922, 1_025), (3_993, 4_096)],  # 3 are open, and 100 are to spare
)
def test_the_soft_limit_is_raised_as_far_as_is_needed(limits, count, soft):
    make_room_for_files(count, "a crowd")
    assert limits[1:] == ([] if soft is None else [(soft, 4_096)])


def test_more_than_the_hard_limit_is_refused_with_both_numbers(limits):
    with pytest.raises(RlCoreError, match=r"a crowd needs 4,097 open files.* have 4,096"):
        make_room_for_files(3_994, "a crowd")
    assert len(limits) == 1


@pytest.mark.parametrize("unlimited", [(-1, -1), (1_024, -1)])
def test_without_a_hard_limit_nothing_is_refused(limits, unlimited):
    limits.append(unlimited)
    make_room_for_files(10_000, "a crowd")
    assert limits[2:] == ([] if unlimited[0] < 0 else [(10_103, -1)])
