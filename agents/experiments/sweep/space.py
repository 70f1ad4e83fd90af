"""The space of a sweep: keys of a config, each with a range or a list of values.

sync_period=10..1000:log    learning_rate.start=1e-4..1e-2:log    batch_size=32,64,128
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from targetnet.agents.config.files import MAY_CHANGE, change_value, config_of, load_toml
from targetnet.agents.config.live_values import live_knobs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.synonyms import near_key
from targetnet.rl_core.errors import ConfigError, did_you_mean, in_one_line, quoted

# What Optuna stores of a value: a number, a truth value or a text.
Param = bool | int | float | str
_NUMBER = r"[+-]?[\d_]*\.?\d[\d_]*(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?::(\w+))?")
_SCALES = ("linear", "log")
# A score is one of an env, and of so many episodes.
_OF_ENV = {"env_id", "env_kwargs", "env_wrapper", "env_wrapper_kwargs"}
_SAME_FOR_ALL = {"seed", *_OF_ENV, *MAY_CHANGE} - {"env_steps"}
_WHOLE_IN_SCHEDULES = ("steps", "begin")
_SHARE_OF = {"steps": "fraction", "points": "fractions"}  # it would replace them
_WANTED = "NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=VALUE,VALUE,..."


@dataclass(frozen=True)
class Range:
    """All numbers between two, ends included."""

    low: float
    high: float
    log: bool
    whole: bool


@dataclass(frozen=True)
class Categories:
    """Some values, by what Optuna stores of each."""

    values: dict[Param, Any]


Axis = Range | Categories


class Space:
    """The keys in which trials differ.

    Args:
      base: has all other values, and is the config that the keys belong to.
      texts: such as "sync_period=10..1000:log" or "batch_size=32,64".

    Attributes:
      axes: key -> its range or values.

    Raises:
      ConfigError: a text cannot be used, or a config with one of its values.
    """

    def __init__(self, base: DqnConfig, texts: Iterable[str]) -> None:
        self._base = base
        self.axes: dict[str, Axis] = {}
        for text in texts:
            name, axis = self._parsed(text)
            if name in self.axes:
                raise ConfigError(f"--over has {quoted(name)} twice: name all its values at once")
            self.axes[name] = axis
        if not self.axes:
            raise ConfigError(f"a sweep needs at least one key to search: --over {_WANTED}")
        for name in self.axes:
            if name.partition(".")[0] in self.axes.keys() - {name}:
                above = name.partition(".")[0]
                raise ConfigError(f"--over has both {name} and {above}, which replaces it")
        for name, axis in self.axes.items():
            for param in _some(axis):
                self.config({name: param}, where=f"--over {name}={param}")

    def config(
        self,
        params: Mapping[str, Param],
        more: Mapping[str, Any] | None = None,
        where: str = "sweep",
    ) -> DqnConfig:
        """Returns the config of a trial.

        Args:
          params: key -> what Optuna stores of its value.
          more: further keys and values.
          where: what messages begin with.

        Raises:
          ConfigError: no config can have these values together.
        """
        values = self._base.model_dump(exclude_none=True)
        for name, value in (self.values(params) | dict(more or {})).items():
            key, dot, inner = name.partition(".")
            if dot:
                schedule = dict(values[key])
                schedule.pop(_SHARE_OF.get(inner, ""), None)
                values[key] = schedule | {inner: value}
            else:
                change_value(values, key, value)
        return config_of(values, (), where)

    def values(self, params: Mapping[str, Param]) -> dict[str, Any]:
        """Returns key -> value, as in a config."""
        return {name: self._value(self.axes[name], param) for name, param in params.items()}

    @staticmethod
    def _value(axis: Axis, param: Param) -> Any:
        return axis.values[param] if isinstance(axis, Categories) else param

    # Reading axes from texts.

    def _parsed(self, text: str) -> tuple[str, Axis]:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name or not values:
            raise ConfigError(f"--over wants {_WANTED}, got {quoted(text)}")
        whole = self._is_whole(name)
        found = _RANGE.fullmatch(values)
        if found is None and ".." in values and "," not in values:
            raise ConfigError(f"--over {in_one_line(name, 100)}: a range is LOW..HIGH or "
                              f"LOW..HIGH:log, got {quoted(values)}")  # fmt: skip
        return name, _range(name, found, whole) if found else _choices(name, values)

    def _is_whole(self, name: str) -> bool:
        """Returns whether a key has whole numbers.

        Raises:
          ConfigError: there is no such key, or it cannot differ between trials.
        """
        key, dot, inner = name.partition(".")
        fields, own = DqnConfig.model_fields, self._base.live
        where = f"--over {in_one_line(name, 100)}"
        if key in _SAME_FOR_ALL:
            why = "the sweep chooses the seeds" if key == "seed" else "scores would not compare"
            raise ConfigError(f"{where}: {key} must be the same for all trials: {why}")
        if key not in fields and key not in own:
            raise ConfigError(f"{where}: no such key of a config{near_key(key, [*fields, *own])}")
        if key in self._base.without_effect():
            raise ConfigError(
                f"{where}: it has no effect here: it needs {self._base.without_effect()[key]}"
            )
        knobs = {knob.name: knob.whole for knob in live_knobs(self._base)}
        whole = knobs.get(key, key in fields and fields[key].annotation is int)
        if not dot:
            return whole
        schedule = self._base.model_dump(exclude_none=True).get(key)
        if not isinstance(schedule, dict):
            raise ConfigError(f"{where}: {key} is no schedule in this config")
        if inner not in schedule or inner == "schedule":
            parts = [part for part in schedule if part != "schedule"]
            raise ConfigError(
                f"{where}: its schedule has {', '.join(parts)}, and no such part"
                f"{did_you_mean(inner, parts)}"
            )
        return inner in _WHOLE_IN_SCHEDULES or (whole and inner != "fraction")


def _range(name: str, found: re.Match[str], whole: bool) -> Range:
    where = f"--over {name}"
    scale = found[3] or "linear"
    if scale not in _SCALES:
        raise ConfigError(
            f"{where}: a range is linear or log, got {quoted(scale)}{did_you_mean(scale, _SCALES)}"
        )
    try:
        low, high = (int(end) if whole else float(end) for end in found.group(1, 2))
    except ValueError:
        raise ConfigError(f"{where}: both ends must be whole numbers, got {found[0]}") from None
    if not low < high:
        raise ConfigError(f"{where}: the range is empty: {found[1]} must be below {found[2]}")
    if scale == "log" and low <= 0:
        raise ConfigError(f"{where}: a log range must begin above 0, got {found[1]}")
    return Range(low, high, scale == "log", whole)


def _choices(name: str, text: str) -> Categories:
    try:
        parsed = load_toml(f"values = [{text}]", f"--over {name}")
    except tomllib.TOMLDecodeError:
        parsed = {"values": [value.strip() for value in text.split(",")]}  # bare words
    if parsed.keys() != {"values"}:
        raise ConfigError(f"--over {name}: the values of one key are wanted, got {quoted(text)}")
    values = parsed["values"]
    stored = [value if isinstance(value, Param) else json.dumps(value) for value in values]
    if len(set(stored)) < len(stored):
        raise ConfigError(f"--over {name}: a value is there twice: {in_one_line(text, 200)}")
    if len(stored) < 2:
        raise ConfigError(
            f"--over {name}: one value leaves nothing to search: --set {name}={in_one_line(text)}"
        )
    return Categories(dict(zip(stored, values, strict=True)))


def _some(axis: Axis) -> list[Param]:
    """Returns the values with which a config is tried: the ends of a range, or all."""
    return [axis.low, axis.high] if isinstance(axis, Range) else list(axis.values)
