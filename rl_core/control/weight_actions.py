"""Actions on the weights of a network: the words that follow them, and their bounds.

reset BLOCK                  perturb FACTOR [BLOCK]               recycle [THRESHOLD] [BLOCK]
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from targetnet.rl_core.errors import BoundsError, quoted

WEIGHT_ACTIONS = ("reset", "perturb", "recycle")
ALL_BLOCKS = "all"
THRESHOLD = 0.1  # score up to which `recycle` takes a unit for dormant, if no other is given
_WANTED = {
    "reset": "the name of a block, as in `reset head`, or `reset all`",
    "perturb": "a factor above 0 and below 1, then perhaps a block, as in `perturb 0.8` or "
    "`perturb 0.8 torso`",
    "recycle": "perhaps a threshold >= 0, then perhaps a block, as in `recycle`, `recycle 0.1` or "
    "`recycle 0.1 torso`",
}


class ActionArguments(NamedTuple):
    """The words after an action on the weights.

    Attributes:
      number: factor of `perturb`, threshold of `recycle`; None for `reset`.
      block: name of a block; `all` for all blocks.
    """

    number: float | None
    block: str


def words_of(action: str, value: Any) -> ActionArguments:
    """Parses what follows one of WEIGHT_ACTIONS; whether the block exists only its agent knows.

    Args:
      value: a number, a text such as "0.8 torso", or None.

    Raises:
      BoundsError: a word is missing, out of bounds, or too many; says what is wanted.
    """
    words = [] if value is None else value.split() if isinstance(value, str) else [value]
    number = _number(words[0]) if words and action != "reset" else None
    blocks = words if number is None else words[1:]
    if action == "recycle" and number is None:
        number = THRESHOLD
    block = blocks[0] if blocks else None if action == "reset" else ALL_BLOCKS
    if len(blocks) > 1 or not isinstance(block, str) or not _is_within(action, number):
        raise BoundsError(f"{action} takes {_WANTED[action]}, got {_given(value)}")
    return ActionArguments(number, block)


def as_value(number: float | None, block: str | None) -> Any:
    """Returns the value of a command with this number and this block, each of which may be None."""
    if block is None:
        return number
    return block if number is None else f"{number!r} {block}"


def _is_within(action: str, number: float | None) -> bool:
    if action == "reset":
        return True
    return number is not None and (0 < number < 1 if action == "perturb" else number >= 0)


def _number(word: Any) -> float | None:
    """Returns the finite number that a word is; None for another word."""
    try:
        number = float(word)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and not isinstance(word, bool) else None


def _given(value: Any) -> str:
    return "nothing" if value is None else quoted(value)
