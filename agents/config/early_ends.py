"""Schedules that end long before the run does, as in a run that was made longer."""

from __future__ import annotations

from agents.config.model import DqnConfig, ExplorationKeys
from rl_core.schedules import Geometric, Linear, Piecewise

_EARLY = 0.5  # share of the run


def early_ends(config: DqnConfig, *, resumed: bool = False) -> str | None:
    """Returns a line about schedules in env steps that end before half of the run; None if all fit.

    Exploration ends early in most runs, so its schedules alone are no reason for a line.

    Args:
      resumed: True if the run has begun, so that its schedules are fixed.
    """
    ends = {name: end for name in _scheduled(config) if (end := _early_end(config, name, resumed))}
    if ends.keys() <= ExplorationKeys.model_fields.keys():
        return None
    places = ", ".join(f"{name} at env step {end:,}" for name, end in ends.items())
    first = next(name for name in ends if name not in ExplorationKeys.model_fields)
    if resumed:
        advice = "its schedules stay as they began; --set or targetnet set gives another value"
    else:
        advice = f"to follow the run's length: {first} = {{ {_in_shares(config, first)} }}"
    return f"schedules end long before the run's {config.env_steps:,} env steps: {places}; {advice}"


def _scheduled(config: DqnConfig) -> list[str]:
    return [
        knob.name
        for knob in config.knobs()
        if isinstance(getattr(config, knob.name), Linear | Geometric | Piecewise)
    ]


def _early_end(config: DqnConfig, name: str, resumed: bool) -> int | None:
    """Returns the env step of the last corner if that is early; None for a share of the run.

    A run that has begun and is made longer keeps the env steps of its shares too.
    """
    schedule = getattr(config, name)
    end: int = max(schedule.corners(), default=0)
    if not resumed and schedule.in_shares() != schedule:
        return None
    return end if end < _EARLY * config.env_steps else None


def _in_shares(config: DqnConfig, name: str) -> str:
    """Returns the schedule's table, stretched so that it ends with the run."""
    schedule = getattr(config, name)
    table = schedule.model_dump()
    if isinstance(schedule, Piecewise):
        del table["points"]
        points = schedule.points or ()
        last = points[-1][0] or 1
        table["fractions"] = [[round(step / last, 3), value] for step, value in points]
    else:
        del table["steps"]
        table["fraction"] = round(1 - schedule.begin / config.env_steps, 3)
    order = ["schedule", "start", "end", "begin", "fraction", "fractions", "between"]
    default = type(schedule).model_fields
    return ", ".join(
        f"{key} = {_toml(table[key])}"
        for key in order
        if key in table and (key == "schedule" or table[key] != default[key].default)
    )


def _toml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)
