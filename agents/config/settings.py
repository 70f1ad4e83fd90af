"""Base of all settings: strict models, live fields, one-line errors."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from rl_core.errors import BoundsError, ConfigError, did_you_mean, in_one_line, shown
from rl_core.hyperparameters import LARGEST_FLOAT32, LARGEST_INT64, Knob
from rl_core.schedules import SCHEDULES, Constant, Geometric, Linear, Piecewise, Schedule

_MAX_CHARACTERS = 400  # characters of an error's reason, which may quote a value of 200
_SCHEDULE: TypeAdapter[Schedule] = TypeAdapter(Schedule)
_SCHEDULE_NAMES = [s.model_fields["schedule"].default for s in SCHEDULES]


def _number_or_schedule(value: Any) -> Any:
    """Parses a table as a schedule; the field's own type parses everything else."""
    if not isinstance(value, dict):
        return value
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
) -> Any:
    """Declares a field that may change during a run.

    Args:
      default: a number or a schedule.
      unit: unit of the value; "1" for a plain number.
      meaning: one phrase for the docs and the Steer tab.
      effect: the moment from which a change is in force.
      ge, gt, le, lt: bounds; every value of a schedule must obey them too.
    """
    bounds = {"at_least": ge, "above": gt, "at_most": le, "below": lt}
    knob: dict[str, Any] = {"unit": unit, "effect": effect, **bounds}
    return Field(default, description=meaning, json_schema_extra={"live": knob})


class Settings(BaseModel):
    """Frozen model that forbids unknown keys and converts no types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def knobs(cls) -> list[Knob]:
        """Returns the live fields, in the order of the model's fields."""
        return [
            Knob(
                name=name,
                meaning=field.description or "",
                whole=int in getattr(field.annotation, "__args__", ()),
                **field.json_schema_extra["live"],  # type: ignore[arg-type]
            )
            for name, field in cls.model_fields.items()
            if isinstance(field.json_schema_extra, dict) and "live" in field.json_schema_extra
        ]

    @model_validator(mode="after")
    def _check_number_ranges(self) -> Settings:
        for name, value in self:
            if isinstance(value, int) and abs(value) > LARGEST_INT64:
                raise BoundsError(f"{name} must fit into int64, got {shown(value)}")
            if isinstance(value, float) and not abs(value) <= LARGEST_FLOAT32:
                raise BoundsError(f"{name} must be finite and fit into float32, got {value!r}")
        return self

    @model_validator(mode="after")
    def _check_live_bounds(self) -> Settings:
        for knob in self.knobs():
            value = getattr(self, knob.name)
            for extreme in value.extremes() if isinstance(value, SCHEDULES) else [value]:
                knob.check(extreme)
        return self


def first_error(error: ValidationError) -> str:
    """Returns the first error in one line: the key, the wanted value, the given value."""
    found = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in found["loc"] if part not in _UNION_TAGS)
    if found["type"] == "missing":
        return f"{where} is missing"
    if found["type"] == "extra_forbidden":
        return f"unknown key {shown(where)}"
    where, message = in_one_line(where, 200), found["msg"].removeprefix("Value error, ")
    if found["type"] == "value_error":
        message = in_one_line(message, _MAX_CHARACTERS)
        return f"{where}: {message}" if where else message
    wanted = message.removeprefix("Input should be ")
    wanted = wanted.replace("a valid integer", "a whole number").replace("a valid ", "a ")
    wanted = _A_TABLE.sub("a table", wanted)
    return f"{where} should be {wanted}, got {shown(found['input'])}"


_A_TABLE = re.compile(r"a dictionary or instance of \w+")
_UNION_TAGS = {"int", "float", "finite-float", "constrained-float", *_SCHEDULE_NAMES}
_UNION_TAGS |= {s.__name__ for s in SCHEDULES}


def parse(model: type[Settings], values: dict[str, Any], source: str) -> Any:
    """Builds a model from values of a file or a user.

    Args:
      source: where the values come from; error messages begin with it.

    Raises:
      ConfigError: a key is unknown or a value is wrong.
    """
    for key in values:
        if key not in model.model_fields:
            raise ConfigError(
                f"{in_one_line(source, 200)}: unknown key {shown(key)}"
                + did_you_mean(key, model.model_fields)
            )
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{in_one_line(source, 200)}: {first_error(error)}") from None
