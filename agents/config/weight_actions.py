"""Actions on the weights that a config makes by itself, again and again."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, FiniteFloat, model_validator

from targetnet.agents.config.settings import Settings
from targetnet.rl_core.control.commands import ActionArguments, as_value, words_of
from targetnet.rl_core.control.timetable import PlannedAction
from targetnet.rl_core.errors import did_you_mean, quoted

_NUMBERS = {"factor": "perturb", "threshold": "recycle"}


class WeightAction(Settings):
    """An action on the weights at every multiple of so many env steps.

        actions = [{ do = "reset", block = "head", every = 20_000, until = 60_000 }]

    Attributes:
      do: the action, as of `targetnet do`.
      block: name of a block, or "all", which it is by default but for `reset`.
      factor: of `perturb`; threshold: of `recycle`, 0.1 by default.
      every: env steps. It is made at the first safe point at which a multiple is reached.
      until: env step after which it is not made any more; by default never.
    """

    do: Literal["reset", "perturb", "recycle"]
    block: str | None = None
    factor: FiniteFloat | None = None
    threshold: FiniteFloat | None = None
    every: int = Field(ge=1)
    until: int | None = Field(None, ge=1)

    @classmethod
    def require_keys(cls, values: Any) -> None:
        """Checks that a table has no other keys; names the nearest one.

        Raises:
          ValueError: it has.
        """
        for name in values if isinstance(values, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(
                    f"an action has no key {quoted(name)} ({', '.join(cls.model_fields)})"
                    + did_you_mean(name, cls.model_fields)
                )

    @property
    def words(self) -> ActionArguments:
        """The words that follow the action."""
        return words_of(self.do, self.value)

    @property
    def value(self) -> Any:
        """The same, as a command has it."""
        number = self.factor if self.do == "perturb" else self.threshold
        return as_value(number, self.block)

    @property
    def planned(self) -> PlannedAction:
        """The same for the timetable of a run."""
        return PlannedAction(self.do, self.value, self.every, self.until)

    @model_validator(mode="after")
    def _check_words(self) -> WeightAction:
        for name, action in _NUMBERS.items():
            if getattr(self, name) is not None and self.do != action:
                raise ValueError(f"{name} is for {action}, got {self.do}")
        if self.block is not None and len(self.block.split()) != 1:
            raise ValueError(f"block must be one name, got {quoted(self.block)}")
        _ = self.words
        return self
