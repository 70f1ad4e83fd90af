"""Base of all settings: strict models, live fields, one-line errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, time
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from targetnet.rl_core.errors import BoundsError, ConfigError, did_you_mean, in_one_line, quoted
from targetnet.rl_core.hyperparameters import LARGEST_FLOAT32, LARGEST_INT64, Knob
from targetnet.rl_core.schedules import SCHEDULES, Constant, Geometric, Linear, Piecewise, Schedule
from targetnet.rl_core.validation import Model, first_error, require_known

_SCHEDULE: TypeAdapter[Schedule] = TypeAdapter(Schedule)
_SCHEDULE_NAMES = [s.model_fields["schedule"].default for s in SCHEDULES]


def _number_or_schedule(value: Any, info: ValidationInfo) -> Any:
    """Parses a table as a schedule; the field's own type parses everything else.

    Shares of the run become env steps; the model has its length in the key `env_steps`.
    """
    schedule = _schedule_of(value) if isinstance(value, dict) else value
    env_steps = (info.data or {}).get("env_steps")
    if isinstance(schedule, SCHEDULES) and env_steps is not None:
        return schedule.over(env_steps)
    return schedule


def _schedule_of(value: dict[str, Any]) -> Any:
    name = value.get("schedule")
    if name not in _SCHEDULE_NAMES:
        raise ValueError(
            f"a schedule needs schedule = one of {', '.join(_SCHEDULE_NAMES)}"
            + (did_you_mean(name, _SCHEDULE_NAMES) if isinstance(name, str) else "")
        )
    try:
        return _SCHEDULE.validate_python(value)
    except ValidationError as error:
        raise ValueError(f"in the {name} schedule: {first_error(error)}") from None


_Schedules = Constant | Linear | Geometric | Piecewise
LiveFloat = Annotated[FiniteFloat | _Schedules, BeforeValidator(_number_or_schedule)]
LiveInt = Annotated[int | _Schedules, BeforeValidator(_number_or_schedule)]


# True if a value has an effect in a run of a config; else the setting that it needs, in words.
Needs = Callable[[Any], bool | str]
_SWITCHES = ("value", "sync", "penalty")


class KeyFacts(NamedTuple):
    """All that is known of a key beside its type, its bounds and its meaning.

    Attributes:
      unit: of the value; "" if it has none, "1" for a plain number.
      papers: names of those that it comes from, of targetnet.agents.config.keys.PAPERS.
      values: words for the docs, if its type does not tell them.
      of_replay: it needs a replay or a target network, which rollouts do without.
      knob: of a live key, the fields of its `Knob`; None: the key is fixed when the run begins.
      needs: of a live key that does nothing in some runs.
      switch: of a live key that is 0 where it is off, and then not built, unless it is `prepared`:
        "value" if it changes the values that are learned, "sync" if it rules when the target is
        copied, "penalty" if it is one on what the data do not show.
      acts: the choice of actions reads it.
    """

    unit: str
    papers: tuple[str, ...] = ()
    values: str = ""
    of_replay: bool = False
    knob: Mapping[str, Any] | None = None
    needs: Needs | None = None
    switch: str = ""
    acts: bool = False


def key(
    default: Any,
    meaning: str,
    unit: str = "",
    *,
    ge: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    strict: bool | None = None,
    **facts: Any,
) -> Any:
    """Declares a field that is fixed when the run begins.

    Args:
      default: of the field.
      meaning: one phrase for the docs.
      unit: unit of the value; "" if it has none.
      ge, le, lt: bounds.
      strict: False takes a list for a tuple.
      facts: further ones, see `KeyFacts`.
    """
    extra: Any = {"facts": KeyFacts(unit, **facts)}
    return Field(
        default, description=meaning, json_schema_extra=extra, ge=ge, le=le, lt=lt, strict=strict
    )


def live(
    default: Any,
    *,
    unit: str,
    meaning: str,
    effect: str = "next update",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    **facts: Any,
) -> Any:
    """Declares a field that may change during a run.

    Args:
      default: a number or a schedule.
      unit: unit of the value; "1" for a plain number.
      meaning: one phrase for the docs and the Steer tab.
      effect: the moment from which a change is in force.
      ge, gt, le, lt: bounds; every value of a schedule must obey them too.
      facts: further ones, see `KeyFacts`.
    """
    knob = {"effect": effect, "at_least": ge, "above": gt, "at_most": le, "below": lt}
    extra: Any = {"facts": KeyFacts(unit, knob=knob, **facts)}
    # Validated too, so that a default in shares of the run gets its env steps.
    return Field(default, description=meaning, json_schema_extra=extra, validate_default=True)


def known_or_own(what: str, name: str, known: Sequence[str]) -> str:
    """Returns `name` if it is known or has the form "module:function".

    Raises:
      ValueError: it is neither; names the nearest one.
    """
    if name not in known and not all(name.partition(":")):
        raise ValueError(
            f"there is no {what} {quoted(name)} ({', '.join(known)}, or your own as "
            f"'module:function'){did_you_mean(name, known)}"
        )
    return name


class Settings(Model):
    """Frozen model that forbids unknown keys and converts no types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy with some values changed; the new values are checked.

        Defaults that depend on other keys are found anew, and so are schedules in shares of the
        run, if its length changes.

        Raises:
          ConfigError: a key is unknown or a value is wrong.
        """
        if not update:
            return super().model_copy(deep=deep)
        values = {name: getattr(self, name) for name in self.model_fields_set} | dict(update)
        if "env_steps" in update:
            values = type(self).in_shares(values)
        copy: Self = parse(type(self), values, type(self).__name__)
        return copy

    @classmethod
    @functools.cache
    def facts(cls) -> Mapping[str, KeyFacts]:
        """Returns the facts of each key, in the order of the model's fields."""
        declared = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {name: of["facts"] for name, of in declared.items() if of}  # type: ignore[misc, index]

    @classmethod
    def knobs(cls) -> list[Knob]:
        """Returns the live fields, in the order of the model's fields."""
        return [
            Knob(
                name=name,
                unit=facts.unit,
                meaning=cls.model_fields[name].description or "",
                whole=int in getattr(cls.model_fields[name].annotation, "__args__", ()),
                **facts.knob,
            )
            for name, facts in cls.facts().items()
            if facts.knob
        ]

    @classmethod
    def switches(cls, kind: str = "") -> tuple[str, ...]:
        """Returns the live keys that are 0 where they are off, of one kind or of all."""
        kinds = (kind,) if kind else _SWITCHES
        return tuple(
            name for kind in kinds for name, facts in cls.facts().items() if facts.switch == kind
        )

    @classmethod
    def in_shares(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of a run that begins: schedules in shares have no env steps yet.

        Other fields stay as they are, also tables whose keys read like those of a schedule.
        """
        live = {knob.name for knob in cls.knobs()}
        return {k: schedule_in_shares(v) if k in live else v for k, v in values.items()}

    @model_validator(mode="after")
    def _check_number_ranges(self) -> Settings:
        for name, value in self:
            if isinstance(value, int) and abs(value) > LARGEST_INT64:
                raise BoundsError(f"{name} must fit into int64, got {quoted(value)}")
            if isinstance(value, float) and not abs(value) <= LARGEST_FLOAT32:
                raise BoundsError(f"{name} must be finite and fit into float32, got {value!r}")
            for inner in _numbers_in(value):
                if isinstance(inner, int) and abs(inner) > LARGEST_INT64:
                    raise BoundsError(f"{name} has {quoted(inner)}, which does not fit into int64")
                if inner != inner:  # it would not equal itself on resume
                    raise BoundsError(f"{name} must not contain nan")
        return self

    @model_validator(mode="after")
    def _check_live_bounds(self) -> Settings:
        for knob in self.knobs():
            value = getattr(self, knob.name)
            for extreme in value.extremes() if isinstance(value, SCHEDULES) else [value]:
                knob.check(extreme)
        return self


def _numbers_in(value: Any) -> Iterator[int | float]:
    """Yields the numbers inside of a table or list."""
    inside = value.values() if isinstance(value, dict) else value
    for inner in inside if isinstance(value, dict | list | tuple) else ():
        if isinstance(inner, int | float):
            yield inner
        else:
            yield from _numbers_in(inner)


def schedule_in_shares(value: Any) -> Any:
    """Returns a live field's value as a run begins with it: a share has no env steps yet."""
    if isinstance(value, SCHEDULES):
        return value.in_shares()
    if not isinstance(value, dict):
        return value
    env_steps = {
        of for share, of in (("fraction", "steps"), ("fractions", "points")) if share in value
    }
    return {key: inner for key, inner in value.items() if key not in env_steps}


def parse(model: type[Settings], values: dict[str, Any], source: str) -> Any:
    """Builds a model from values of a file or a user.

    Args:
      source: where the values come from; error messages begin with it.

    Raises:
      ConfigError: a key is unknown or a value is wrong.
    """
    require_known(model, values, source)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{in_one_line(source, 200)}: {first_error(error)}") from None


def require_toml(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns `arguments` as they read back from a config file: a run writes its config.

    Raises:
      ValueError: a file cannot hold one of them.
    """
    for name, value in arguments.items():
        if not _is_toml(value):
            raise ValueError(f"{quoted(name)} is {quoted(value)}, which a TOML file cannot hold")
    return {name: _read_back(value) for name, value in arguments.items()}


def _read_back(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _read_back(of) for key, of in value.items()}
    return [*map(_read_back, value)] if isinstance(value, list | tuple) else value


def _is_toml(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_toml(of) for key, of in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_toml, value))
    return isinstance(value, str | bool | int | float | date | time)  # a datetime is a date too
