"""Checks of what a program hands over: one line for a mistake, and next to nothing without one."""

import numpy as np
import pytest

import targetnet.rl_core.arguments
from targetnet.rl_core.arguments import require_whole
from targetnet.rl_core.errors import ArgumentError, BoundsError


@pytest.mark.parametrize("value", [1, 2**31 - 1, np.int64(7), np.uint8(255)])
def test_what_is_right_costs_no_text(monkeypatch, value):
    """An update asks this each time."""
    monkeypatch.setattr(
        targetnet.rl_core.arguments, "quoted", lambda value: pytest.fail("text of no error")
    )
    require_whole("updates", value, 1, bits=32)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, BoundsError),
        (2**31, BoundsError),
        (np.int64(-1), BoundsError),
        (True, ArgumentError),
        (2.0, ArgumentError),
        ("3", ArgumentError),
        (None, ArgumentError),
    ],
)
def test_what_is_wrong_is_one_line(value, error):
    wanted = "updates must be a whole number >= 1 that fits into int32, got "
    with pytest.raises(error) as caught:
        require_whole("updates", value, 1, bits=32)
    assert str(caught.value).startswith(wanted)
