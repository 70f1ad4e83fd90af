"""Schedules: env step -> value, in pure Python.

A config writes a schedule as a small table:

epsilon = { schedule = "linear", start = 1.0, end = 0.04, steps = 8_000 }
"""

from __future__ import annotations

import bisect
import itertools
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

_EnvStep = Annotated[int, Field(ge=0, lt=2**63)]


class _Schedule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

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
    steps: Annotated[_EnvStep, Field(ge=1)]  # env steps from start to end
    begin: _EnvStep = 0  # env step up to which the value is `start`

    def __str__(self) -> str:
        name = type(self).__name__.lower()
        return (
            f"{name} from {self.start:g} to {self.end:g} "
            f"over env steps {self.begin:,} to {self.begin + self.steps:,}"
        )

    def extremes(self) -> tuple[float, float]:
        return min(self.start, self.end), max(self.start, self.end)

    def corners(self) -> tuple[int, ...]:
        return tuple(step for step in (self.begin, self.begin + self.steps) if step > 0)

    def _share(self, env_step: int) -> float:
        return min(max((env_step - self.begin) / self.steps, 0.0), 1.0)


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
    """A schedule through `points = [[env_step, value], ...]`, joined by lines or by steps."""

    schedule: Literal["piecewise"] = "piecewise"
    points: tuple[tuple[_EnvStep, FiniteFloat], ...] = Field(min_length=1)
    between: Literal["line", "hold"] = "line"

    @model_validator(mode="after")
    def _steps_rise(self) -> Piecewise:
        steps = [step for step, _ in self.points]
        if any(a >= b for a, b in itertools.pairwise(steps)):
            raise ValueError(f"the env steps of the points must rise, got {steps}")
        return self

    def __str__(self) -> str:
        corners = ", ".join(f"{value:g} at {step:,}" for step, value in self.points)
        return f"piecewise, {self.between}: {corners}"

    def value_at(self, env_step: int) -> float:
        after = bisect.bisect_right(self.points, env_step, key=lambda point: point[0])
        if after == 0:
            return self.points[0][1]
        step, value = self.points[after - 1]
        if after == len(self.points) or self.between == "hold":
            return value
        next_step, next_value = self.points[after]
        share = (env_step - step) / (next_step - step)
        return (1.0 - share) * value + share * next_value

    def extremes(self) -> tuple[float, float]:
        values = [value for _, value in self.points]
        return min(values), max(values)

    def corners(self) -> tuple[int, ...]:
        return tuple(step for step, _ in self.points if step > 0)


Schedule = Annotated[Constant | Linear | Geometric | Piecewise, Field(discriminator="schedule")]
SCHEDULES = (Constant, Linear, Geometric, Piecewise)
