"""Live values of the user's own: tables `[live.NAME]` of a config."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import FiniteFloat, field_validator, model_validator

from targetnet.agents.config.settings import LiveFloat, Settings, schedule_in_shares
from targetnet.rl_core.errors import in_one_line, quoted
from targetnet.rl_core.hyperparameters import Knob
from targetnet.rl_core.schedules import SCHEDULES

MOST = 64  # own live values of one config
_LONGEST_UNIT, _LONGEST_MEANING = 20, 200
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Names of live values that are no keys of a config.
_TAKEN = re.compile(r"exempt|arm|arm_\d+_updates")  # live/arm is a curve


class OwnLive(Settings):
    """A live value of the user's own.

        [live.dropout]
        default = 0.1
        ge = 0
        lt = 1
        unit = "share"
        meaning = "share of the features that an update leaves out"

    A network function that has a parameter `live` reads it as `live["dropout"]`, a float32 scalar.
    Like any other live value it is set, scheduled, logged, saved and replayed.

    Attributes:
      default: a number or a schedule.
      ge, gt, le, lt: bounds (at least, above, at most, below).
      unit: unit of the value; "1" for a plain number.
      meaning: one phrase for the Steer tab.
    """

    default: LiveFloat
    ge: FiniteFloat | None = None
    gt: FiniteFloat | None = None
    le: FiniteFloat | None = None
    lt: FiniteFloat | None = None
    unit: str = "1"
    meaning: str = ""

    def knob(self, name: str) -> Knob:
        """Returns the description of this live value under its name."""
        return Knob(
            name, self.unit, self.meaning or "a live value of this config's own",
            at_least=self.ge, above=self.gt, at_most=self.le, below=self.lt,
        )  # fmt: skip

    def over(self, env_steps: int) -> OwnLive:
        """Returns it with its schedule's shares in env steps of a run of that length."""
        value = self.default
        if not isinstance(value, SCHEDULES):
            return self
        return self.model_copy(update={"default": value.over(env_steps)})

    @staticmethod
    def table_in_shares(own: Any) -> Any:
        """Returns an own live value, or its table in a file, as a run begins with it."""
        if isinstance(own, OwnLive):
            return own.model_copy(update={"default": schedule_in_shares(own.default)})
        if isinstance(own, Mapping) and "default" in own:
            return {**own, "default": schedule_in_shares(own["default"])}
        return own

    @field_validator("unit", "meaning")
    @classmethod
    def _check_text(cls, text: str) -> str:
        if text != in_one_line(text, _LONGEST_MEANING):
            raise ValueError(f"must be one line of at most {_LONGEST_MEANING} characters")
        return text

    @field_validator("unit")
    @classmethod
    def _check_unit(cls, text: str) -> str:
        if not 1 <= len(text) <= _LONGEST_UNIT:
            raise ValueError(f"must have 1 to {_LONGEST_UNIT} characters, got {quoted(text)}")
        return text

    @model_validator(mode="after")
    def _check_bounds(self) -> OwnLive:
        for one, other in (("ge", "gt"), ("le", "lt")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} are two bounds of one side; leave one out")
        low = self.ge if self.ge is not None else self.gt
        high = self.le if self.le is not None else self.lt
        if low is not None and high is not None and low >= high:
            raise ValueError(f"its bounds {low:g} and {high:g} leave no value between them")
        value = self.default
        for extreme in value.extremes() if isinstance(value, SCHEDULES) else [value]:
            self.knob("default").check(extreme)
        return self


def check_names(names: Iterable[str], taken: Iterable[str]) -> None:
    """Checks names of own live values.

    Args:
      names: of the own live values.
      taken: keys of the config.

    Raises:
      ValueError: a name is malformed or taken, or there are too many; says which.
    """
    names, taken = list(names), frozenset(taken)
    if len(names) > MOST:
        raise ValueError(f"there may be at most {MOST} live values of your own, got {len(names):,}")
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{quoted(name)} cannot name a live value: a name has lower-case letters, digits "
                "and _, begins with a letter, and has at most 40 characters"
            )
        if name in taken or _TAKEN.fullmatch(name):
            raise ValueError(f"{name} is a name of targetnet's own; take another")
