"""Live hyperparameters: name, unit, bounds and meaning; the present value and its source.

A value comes from the config (a number or a schedule) until it is set; setting it overrides
the config, and setting it to "auto" returns to it.
"""

from __future__ import annotations

import math
import numbers
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from targetnet.rl_core.errors import (
    ArgumentError,
    BoundsError,
    RlCoreError,
    StaticHyperparameter,
    UnknownName,
    did_you_mean,
    in_one_line,
    quoted,
)

AUTO = "auto"
NO_BLOCKS = "none"
# Largest values that a feed of the graph can hold.
LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1
LARGEST_FLOAT32 = 3.4028234663852886e38
_LEAST_NORMAL = 1.1754943508222875e-38  # of float32; XLA takes smaller numbers for 0
ANY = "any number"  # the text for a value without bounds
Source = Literal["config", "schedule", "override"]


class Change(NamedTuple):
    """A change of a live value: its name, old value and new value."""

    name: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Knob:
    """A live value's name, unit, bounds and meaning, and when a change takes effect.

    `above` and `below` exclude the bound, `at_least` and `at_most` include it.
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
        """The bounds as text: ">= 1", "in (0, 1]" or "any number"."""
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
        """Returns the value as int or float.

        Raises:
          BoundsError: the value is not a finite number within the bounds.
        """
        if not _is_finite_number(value) or not self._within(value):
            raise self._refusal(value)
        if self.whole and value != int(value):
            raise self._refusal(value)
        if abs(value) > (LARGEST_INT64 if self.whole else LARGEST_FLOAT32):
            kind = "int64" if self.whole else "float32"
            raise BoundsError(f"{self.name} must fit into {kind}, got {quoted(value)}")
        if not self.whole and (rounded := _as_fed(float(value))) in (self.above, self.below):
            raise BoundsError(
                f"{self.name} must be {self.bounds} in float32 too, got {quoted(value)}, which is "
                f"{rounded:g} there"
            )
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
        return BoundsError(f"{self.name} must be {kind}{unit}{bounds}, got {quoted(value)}")


def _as_fed(value: float) -> float:
    """Returns a value as the graph has it: in float32, where the smallest numbers are 0."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded if abs(rounded) >= _LEAST_NORMAL else 0.0


def _is_finite_number(value: Any) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


@dataclass(frozen=True)
class BlocksKnob:
    """A live value that is the set of blocks that updates leave alone.

    `check_blocks` returns the set if it is valid and raises otherwise. `blocks` names all blocks.
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
        """Returns the set from a collection of names or from a string with commas.

        Raises:
          BoundsError: the value is no collection of names.
        """
        if isinstance(value, str):
            value = [] if value == NO_BLOCKS else value.split(",")
            value = [name.strip() for name in value if name.strip()]
        if not isinstance(value, Iterable) or not all(isinstance(name, str) for name in value):
            raise BoundsError(f"{self.name} must be names of blocks, got {quoted(value)}")
        return self.check_blocks(value)


class Hyperparameters(MutableMapping[str, Any]):
    """The live values of one agent, by name: a mapping whose names are fixed.

        hyperparameters["sync_period"]         # the value at the present env step
        hyperparameters["sync_period"] = 50    # override, from the next phase or chunk on
        hyperparameters["epsilon"] = "auto"    # back to the config's value or schedule
        hyperparameters.update(sync_period=50, learning_rate=1e-4)  # both, or none

    Args:
      knobs: the live values of this agent.
      configured: name -> number or schedule, for every knob.
      static: names of values fixed when the graph is built, for a clear error message.
      without_effect: name of a live value that this agent does not have -> what it would need.
      near: (unknown name, known names) -> the end of the message about it.

    Attributes:
      env_step: the present env step; the loop updates it.
      revision: how often a value was set.
      setter: the function that `hyperparameters[name] = value` calls: `set`, or the function of a
        run that logs its changes.
    """

    def __init__(
        self,
        knobs: Iterable[Knob | BlocksKnob],
        configured: Mapping[str, Any],
        static: Iterable[str] = (),
        without_effect: Mapping[str, str] = MappingProxyType({}),
        near: Callable[[str, Iterable[str]], str] = did_you_mean,
    ) -> None:
        self.knobs = {knob.name: knob for knob in knobs}
        self.env_step = self.revision = 0
        self._static = frozenset(static)
        self._without_effect, self._near = without_effect, near
        self._configured = {name: configured[name] for name in self.knobs}
        self._schedules = {n: v for n, v in self._configured.items() if hasattr(v, "value_at")}
        self._overrides: dict[str, Any] = {}
        self.setter: Callable[[str, Any], object] = self.set

    def __getitem__(self, name: str) -> Any:
        # Read at every env step, so the common cases come first and no exception is used.
        if name in self._overrides:
            return self._overrides[name]
        if name in self._schedules:
            value = self._schedules[name].value_at(self.env_step)
            return round(value) if self.knobs[name].whole else value
        if name not in self._configured:
            self.knob(name)
        return self._configured[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.setter(name, value)

    def __delitem__(self, name: str) -> None:
        self.knob(name)
        raise StaticHyperparameter(
            f"live value {name!r} cannot be deleted; set it to {AUTO!r} to return to the config's"
        )

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the present value, or `default` if this agent has no such live value."""
        return self[name] if name in self.knobs else default

    def update(self, *changes: Any, **more: Any) -> None:
        """Sets several values, given as for `dict.update`; all are checked before the first is set.

        Raises:
          ArgumentError: these are no names with values.
          UnknownName, StaticHyperparameter, BoundsError: as `set`; then none was set.
        """
        try:
            wanted = dict(*changes, **more)
        except (TypeError, ValueError):
            raise ArgumentError(
                f"update needs a dictionary of live values, got {quoted(changes)}"
            ) from None
        for name, value in wanted.items():
            try:
                self.check(name, value)
            except RlCoreError:
                self.setter(name, value)  # which refuses it too: a run logs what was refused
                raise
        for name, value in wanted.items():
            self[name] = value

    def set(self, name: str, value: Any) -> Change:
        """Overrides a value; "auto" returns it to the config.

        Raises:
          UnknownName: no value has this name.
          StaticHyperparameter: the value is fixed or has no effect in this run.
          BoundsError: the value is outside the bounds.
        """
        checked, old = self.check(name, value), self[name]
        if _is_auto(checked):
            self._overrides.pop(name, None)
        else:
            self._overrides[name] = checked
        self.revision += 1
        return Change(name, old, self[name])

    def check(self, name: str, value: Any) -> Any:
        """Returns the value as `set` would keep it, without setting it; raises its errors."""
        knob = self.knob(name)
        return value if _is_auto(value) else knob.check(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.knobs)

    def __len__(self) -> int:
        return len(self.knobs)

    def __contains__(self, name: object) -> bool:
        return name in self.knobs

    def knob(self, name: str) -> Knob | BlocksKnob:
        """Returns the knob with this name.

        Raises:
          UnknownName: no value has this name.
          StaticHyperparameter: the value is fixed or has no effect in this run.
        """
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
        raise UnknownName(f"no live value {quoted(name)}" + self._near(name, self.knobs))

    def source(self, name: str) -> Source:
        """Returns the source of the present value."""
        self.knob(name)
        if name in self._overrides:
            return "override"
        return "schedule" if self.is_scheduled(name) else "config"

    def is_scheduled(self, name: str) -> bool:
        """Returns True if the config has a schedule for this value, even an overridden one."""
        return name in self._schedules

    def overrides(self) -> dict[str, Any]:
        """Returns the values that override the config."""
        return dict(self._overrides)

    def configured(self, name: str) -> Any:
        """Returns the config's number or schedule, which "auto" restores."""
        self.knob(name)
        return self._configured[name]


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def plain(value: Any) -> Any:
    """Returns a live value for JSON: a set of blocks becomes a sorted list."""
    return sorted(value) if isinstance(value, frozenset) else value


def as_text(value: Any) -> str:
    """Returns a live value or schedule as text for people: 0.0005, 12,500, head+torso, none.

    Any other value, from an invalid request, is shown in at most 200 characters.
    """
    if isinstance(value, list | tuple | set | frozenset):
        if all(isinstance(name, str) for name in value):
            return in_one_line("+".join(sorted(value)), 200) or NO_BLOCKS
        return quoted(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and abs(value) <= LARGEST_INT64:
        return f"{value:,}"
    return str(value) if hasattr(value, "value_at") else in_one_line(value, 200)
