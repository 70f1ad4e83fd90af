"""Live hyperparameters: name, unit, bounds, meaning; the value now and where it comes from.

A value comes from the config (a number or a schedule) until it is set; setting it overrides
the config, and setting it to "auto" returns to it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from rl_core.errors import (
    BoundsError,
    StaticHyperparameter,
    UnknownName,
    did_you_mean,
    in_one_line,
    shown,
)

AUTO = "auto"
NO_BLOCKS = "none"
# What the graph can be fed.
LARGEST_INT64 = 2**63 - 1
LARGEST_FLOAT32 = 3.4028234663852886e38
ANY = "any number"  # the bounds of what has none
Source = Literal["config", "schedule", "override"]


class HasValue(Protocol):
    """What a hyperparameter may follow: a schedule, or anything with a value at an env step."""

    def value_at(self, env_step: int) -> Any: ...


class Change(NamedTuple):
    """A live value that was set: what it was and what it is."""

    name: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Knob:
    """What a live value is called, counted in, bounded by, means, and when a change is felt.

    `above` and `below` exclude the bound itself, `at_least` and `at_most` include it.
    """

    name: str
    unit: str
    meaning: str
    effect: str = "next update"
    whole: bool = False
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    @property
    def bounds(self) -> str:
        """For people: ">= 1", "in (0, 1]", "any number"."""
        low = self.above if self.above is not None else self.at_least
        high = self.below if self.below is not None else self.at_most
        if low is not None and high is not None:
            left = "(" if self.above is not None else "["
            return f"in {left}{low:g}, {high:g}{')' if self.below is not None else ']'}"
        if low is not None:
            return f"{'>' if self.above is not None else '>='} {low:g}"
        if high is not None:
            return f"{'<' if self.below is not None else '<='} {high:g}"
        return ANY

    def check(self, value: Any) -> Any:
        """The value in its own type, if it is a finite number within bounds.

        Raises:
          BoundsError: with the name, unit, bounds and what came.
        """
        if not _is_finite_number(value) or not self._within(value):
            raise self._refusal(value)
        if self.whole and value != int(value):
            raise self._refusal(value)
        if abs(value) > (LARGEST_INT64 if self.whole else LARGEST_FLOAT32):
            kind = "int64" if self.whole else "float32"
            raise BoundsError(f"{self.name} must fit into {kind}, got {shown(value)}")
        return int(value) if self.whole else float(value)

    def _within(self, value: float) -> bool:
        return not (
            (self.at_least is not None and value < self.at_least)
            or (self.above is not None and value <= self.above)
            or (self.at_most is not None and value > self.at_most)
            or (self.below is not None and value >= self.below)
        )

    def _refusal(self, value: Any) -> BoundsError:
        kind = "a whole number" if self.whole else "a number"
        unit = "" if self.unit == "1" else f" of {self.unit}"
        bounds = "" if self.bounds == ANY else f" {self.bounds}"
        return BoundsError(f"{self.name} must be {kind}{unit}{bounds}, got {shown(value)}")


def _is_finite_number(value: Any) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


@dataclass(frozen=True)
class BlocksKnob:
    """A live set of blocks that updates leave alone.

    `check_blocks` returns the set if it can be used, and raises otherwise; `blocks` are all.
    """

    name: str
    check_blocks: Callable[[Iterable[str]], frozenset[str]]
    blocks: tuple[str, ...]
    unit: str = "blocks"
    meaning: str = "blocks that updates leave alone"
    effect: str = "next update"
    bounds: str = "some of the blocks, not all"
    whole: bool = False

    def check(self, value: Any) -> frozenset[str]:
        """The set, from any collection of names, or from one string of names and commas."""
        if isinstance(value, str):
            value = [] if value == NO_BLOCKS else value.split(",")
            value = [name.strip() for name in value if name.strip()]
        if not isinstance(value, Iterable) or not all(isinstance(name, str) for name in value):
            raise BoundsError(f"{self.name} must be names of blocks, got {shown(value)}")
        return self.check_blocks(value)


class Hyperparameters:
    """The live values of one agent, by name.

        hyperparameters["sync_period"]         # the value at the present env step
        hyperparameters["sync_period"] = 50    # override; takes effect at the next update
        hyperparameters["epsilon"] = "auto"    # back to the config's value or schedule

    Args:
      knobs: what there is.
      configured: name -> number or schedule, for every knob.
      static: names that exist but are fixed once the graph is built, for a helpful refusal.
      without_effect: live values that this agent does not have -> what they would need.

    Attributes:
      env_step: the present one; the loop keeps it.
      revision: how often a value was set.
      door: what setting by name goes through: `set`, unless a run that logs its changes has put
        its own before it.
    """

    def __init__(
        self,
        knobs: Iterable[Knob | BlocksKnob],
        configured: Mapping[str, Any],
        static: Iterable[str] = (),
        without_effect: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.knobs = {knob.name: knob for knob in knobs}
        self.env_step = self.revision = 0
        self._static = frozenset(static)
        self._without_effect = without_effect
        self._configured = {name: configured[name] for name in self.knobs}
        self._schedules = {n: v for n, v in self._configured.items() if hasattr(v, "value_at")}
        self._overrides: dict[str, Any] = {}
        self.door: Callable[[str, Any], object] = self.set

    def __getitem__(self, name: str) -> Any:
        # Read at every env step, so the common cases come first and nothing is raised.
        if name in self._overrides:
            return self._overrides[name]
        if name in self._schedules:
            value = self._schedules[name].value_at(self.env_step)
            return round(value) if self.knobs[name].whole else value
        if name not in self._configured:
            self.knob(name)
        return self._configured[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.door(name, value)

    def set(self, name: str, value: Any) -> Change:
        """Overrides a value, or with "auto" returns it to the config.

        Raises:
          UnknownName, StaticHyperparameter: no live value has this name.
          BoundsError: the value is none it can have.
        """
        knob = self.knob(name)
        old = self[name]
        if isinstance(value, str) and value == AUTO:
            self._overrides.pop(name, None)
        else:
            self._overrides[name] = knob.check(value)
        self.revision += 1
        return Change(name, old, self[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.knobs)

    def __len__(self) -> int:
        return len(self.knobs)

    def __contains__(self, name: object) -> bool:
        return name in self.knobs

    def knob(self, name: str) -> Knob | BlocksKnob:
        """Raises: UnknownName or StaticHyperparameter where `name` is not a live value."""
        if name in self.knobs:
            return self.knobs[name]
        if name in self._without_effect:
            raise StaticHyperparameter(
                f"{name} has no effect in this run: that needs {self._without_effect[name]}"
            )
        if name in self._static:
            raise StaticHyperparameter(
                f"{name} is fixed when the graph is built; start a new run with --set {name}=..."
            )
        raise UnknownName(f"no live value {shown(name)}" + did_you_mean(name, self.knobs))

    def source(self, name: str) -> Source:
        """Where the present value comes from."""
        self.knob(name)
        if name in self._overrides:
            return "override"
        return "schedule" if self.is_scheduled(name) else "config"

    def is_scheduled(self, name: str) -> bool:
        """Whether the config has a schedule for it, overridden or not."""
        return name in self._schedules

    def values(self) -> dict[str, Any]:
        """All present values."""
        return {name: self[name] for name in self.knobs}

    def overrides(self) -> dict[str, Any]:
        """Those that were set and not returned to the config."""
        return dict(self._overrides)

    def configured(self, name: str) -> Any:
        """What "auto" returns to: a number, or the schedule itself."""
        self.knob(name)
        return self._configured[name]


def plain(value: Any) -> Any:
    """A live value as JSON has it: a set of blocks is a sorted list."""
    return sorted(value) if isinstance(value, frozenset) else value


def as_text(value: Any) -> str:
    """A live value or its schedule for people: 0.0005, 12,500, head+torso, none.

    Anything else, as somebody may have asked for it, in at most 200 characters.
    """
    if isinstance(value, list | tuple | set | frozenset):
        if all(isinstance(name, str) for name in value):
            return in_one_line("+".join(sorted(value)), 200) or NO_BLOCKS
        return shown(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and abs(value) <= LARGEST_INT64:
        return f"{value:,}"
    return str(value) if hasattr(value, "value_at") else in_one_line(value, 200)
