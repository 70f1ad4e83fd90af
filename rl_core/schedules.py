"""Schedules: env step -> value, in pure Python.

A config writes a schedule as a small table:

epsilon = { schedule = "linear", start = 1.0, end = 0.04, steps = 8_000 }
learning_rate = { schedule = "linear", start = 1e-3, end = 1e-5, fraction = 0.8 }

`fraction` is a share of the run. It is turned into env steps once, when the config of a new run is
made; a run that is made longer later keeps these env steps, or its past could not be repeated. The
config in a run directory therefore has both.
"""

from __future__ import annotations

import bisect
import itertools
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import (
    ConfigDict,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.validation import Model

_EnvStep = Annotated[int, Field(ge=0, lt=2**63)]
_Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
# Lists may be given for tuples, as in TOML; numbers are not made of texts, true or false.
_Point = Annotated[tuple[_EnvStep, FiniteFloat], Field(strict=False)]
_SharePoint = Annotated[tuple[_Share, FiniteFloat], Field(strict=False)]


def next_multiple(count: int, period: int) -> int:
    """Returns the first multiple of `period` after `count`."""
    return (count // period + 1) * period


class _Schedule(Model):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_serializer(mode="wrap")
    def _without_absent_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # TOML has no null.
        return {name: value for name, value in serialize(self).items() if value is not None}

    def over(self, env_steps: int) -> Self:
        """Returns the schedule with its shares in env steps of a run of that length.

        A schedule that has its env steps already, or no shares, is returned as it is.
        """
        return self

    def in_shares(self) -> Self:
        """Returns the schedule without the env steps that `over` gave it."""
        return self

    def value_at(self, env_step: int) -> float:
        """Returns the value at an env step; constant before the first and after the last corner."""
        raise NotImplementedError

    def extremes(self) -> tuple[float, float]:
        """Returns the smallest and the largest value of the schedule."""
        raise NotImplementedError

    def corners(self) -> tuple[int, ...]:
        """Returns the env steps > 0 at which the slope or the value jumps, in rising order."""
        raise NotImplementedError


class Constant(_Schedule):
    """A schedule with one value at all env steps."""

    schedule: Literal["constant"] = "constant"
    value: FiniteFloat

    def __str__(self) -> str:
        return f"constant {self.value:g}"

    def value_at(self, env_step: int) -> float:
        return self.value

    def extremes(self) -> tuple[float, float]:
        return self.value, self.value

    def corners(self) -> tuple[int, ...]:
        return ()


class _Ramp(_Schedule):
    start: FiniteFloat
    end: FiniteFloat
    steps: Annotated[_EnvStep, Field(ge=1)] | None = None  # env steps from start to end
    begin: _EnvStep = 0  # env step up to which the value is `start`
    fraction: Annotated[_Share, Field(gt=0)] | None = None  # `steps` as a share of the run

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.steps is None and self.fraction is None:
            raise ValueError("steps is missing, or fraction, a share of the run")
        return self

    def __str__(self) -> str:
        ramp = f"{type(self).__name__.lower()} from {self.start:g} to {self.end:g}"
        if self.steps is None:
            return f"{ramp} over {self.fraction:g} of the run"
        return f"{ramp} over env steps {self.begin:,} to {self.begin + self.steps:,}"

    def over(self, env_steps: int) -> Self:
        if self.steps is not None or self.fraction is None:
            return self
        steps = min(max(_share(self.fraction, env_steps), 1), env_steps)
        return self.model_copy(update={"steps": steps})

    def in_shares(self) -> Self:
        return self if self.fraction is None else self.model_copy(update={"steps": None})

    def extremes(self) -> tuple[float, float]:
        return min(self.start, self.end), max(self.start, self.end)

    def corners(self) -> tuple[int, ...]:
        end = self.begin + (_in_env_steps(self) if self.steps is None else self.steps)
        return tuple(step for step in (self.begin, end) if step > 0)

    def _share(self, env_step: int) -> float:
        steps = _in_env_steps(self) if self.steps is None else self.steps
        return min(max((env_step - self.begin) / steps, 0.0), 1.0)


class Linear(_Ramp):
    """A schedule from `start` to `end` in equal differences over `steps` env steps."""

    schedule: Literal["linear"] = "linear"

    def value_at(self, env_step: int) -> float:
        share = self._share(env_step)
        # This form gives exactly `end` at the end; start + share * (end - start) would round.
        return (1.0 - share) * self.start + share * self.end


class Geometric(_Ramp):
    """A schedule from `start` to `end`, both > 0, in equal ratios over `steps` env steps."""

    schedule: Literal["geometric"] = "geometric"
    start: FiniteFloat = Field(gt=0)
    end: FiniteFloat = Field(gt=0)

    def value_at(self, env_step: int) -> float:
        share = self._share(env_step)
        return self.start ** (1.0 - share) * self.end**share


class Piecewise(_Schedule):
    """A schedule through points, joined by lines or by steps.

    The points are `points = [[env_step, value], ...]`, or `fractions = [[share of the run, value],
    ...]`; of several shares that are one and the same env step the last one counts.
    """

    schedule: Literal["piecewise"] = "piecewise"
    points: Annotated[tuple[_Point, ...], Field(min_length=1, strict=False)] | None = None
    between: Literal["line", "hold"] = "line"
    fractions: Annotated[tuple[_SharePoint, ...], Field(min_length=1, strict=False)] | None = None

    @model_validator(mode="after")
    def _points_rise(self) -> Self:
        if self.points is None and self.fractions is None:
            raise ValueError("points is missing, or fractions, with shares of the run")
        for name, points in (("env steps", self.points), ("shares", self.fractions)):
            places = [place for place, _ in points or ()]
            if any(a >= b for a, b in itertools.pairwise(places)):
                raise ValueError(f"the {name} of the points must rise, got {places}")
        return self

    def __str__(self) -> str:
        if self.points is None:
            corners = ", ".join(f"{value:g} at {at:g} of the run" for at, value in self._pairs())
        else:
            corners = ", ".join(f"{value:g} at {step:,}" for step, value in self.points)
        return f"piecewise, {self.between}: {corners}"

    def over(self, env_steps: int) -> Self:
        if self.points is not None or self.fractions is None:
            return self
        at = {min(_share(share, env_steps), env_steps): value for share, value in self.fractions}
        return self.model_copy(update={"points": tuple(at.items())})

    def in_shares(self) -> Self:
        return self if self.fractions is None else self.model_copy(update={"points": None})

    def value_at(self, env_step: int) -> float:
        points = _in_env_steps(self) if self.points is None else self.points
        after = bisect.bisect_right(points, env_step, key=lambda point: point[0])
        if after == 0:
            return points[0][1]
        step, value = points[after - 1]
        if after == len(points) or self.between == "hold":
            return value
        next_step, next_value = points[after]
        share = (env_step - step) / (next_step - step)
        return (1.0 - share) * value + share * next_value

    def extremes(self) -> tuple[float, float]:
        values = [value for _, value in self._pairs()]
        return min(values), max(values)

    def corners(self) -> tuple[int, ...]:
        points = _in_env_steps(self) if self.points is None else self.points
        return tuple(step for step, _ in points if step > 0)

    def _pairs(self) -> tuple[tuple[float, float], ...]:
        return self.points or self.fractions or ()


def _share(share: float, env_steps: int) -> int:
    # A length beyond int64 is refused as such, after this; a float may not hold it.
    return round(share * env_steps) if env_steps < 2**63 else env_steps


def _in_env_steps(schedule: _Schedule) -> NoReturn:
    raise ConfigError(
        f"a schedule in shares has no value before the length of the run is known: {schedule}; "
        "schedule.over(env_steps) gives it that"
    )


Schedule = Annotated[Constant | Linear | Geometric | Piecewise, Field(discriminator="schedule")]
SCHEDULES = (Constant, Linear, Geometric, Piecewise)
