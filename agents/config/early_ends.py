"""Schedules that end long before the run does, and actions that come at its very end."""

from __future__ import annotations

from targetnet.agents.config.live_values import configured_values
from targetnet.agents.config.model import DqnConfig, ExplorationKeys
from targetnet.rl_core.schedules import Geometric, Linear, Piecewise

_WithEnd = Linear | Geometric | Piecewise
_EARLY = 0.5  # share of the run


def early_ends(config: DqnConfig, *, resumed: bool = False) -> str | None:
    """Returns a line about schedules in env steps that end before half of the run; None if all fit.

    Exploration ends early in most runs, so its schedules alone are no reason for a line.

    Args:
      resumed: True if the run has begun, so that its schedules are fixed.
    """
    schedules = _schedules(config)
    ends = {n: end for n, s in schedules.items() if (end := _early_end(config, s, resumed))}
    if ends.keys() <= ExplorationKeys.model_fields.keys():
        return None
    places = ", ".join(f"{name} at env step {end:,}" for name, end in ends.items())
    first = next(name for name in ends if name not in ExplorationKeys.model_fields)
    if resumed:
        advice = "its schedules stay as they began; --set or targetnet set gives another value"
    else:
        key = f"live.{first}.default" if first in config.live else first
        table = _in_shares(schedules[first], config.env_steps)
        advice = f"to follow the run's length: {key} = {{ {table} }}"
    return f"schedules end long before the run's {config.env_steps:,} env steps: {places}; {advice}"


def actions_at_the_end(config: DqnConfig) -> str | None:
    """Returns a line about planned actions that change the weights after the last update."""
    last = [of.do for of in config.actions if of.planned.last(config.env_steps) == config.env_steps]
    if not last:
        return None
    return (
        f"actions: {', '.join(last)} is due at env step {config.env_steps:,}, where the run ends: "
        f"its weights are saved after it; to leave that out: until = {config.env_steps - 1}"
    )


def _schedules(config: DqnConfig) -> dict[str, _WithEnd]:
    values = configured_values(config)
    return {n: v for n, v in values.items() if isinstance(v, _WithEnd)}


def _early_end(config: DqnConfig, schedule: _WithEnd, resumed: bool) -> int | None:
    """Returns the env step of the last corner if that is early; None for a share of the run.

    A run that has begun and is made longer keeps the env steps of its shares too.
    """
    end: int = max(schedule.corners(), default=0)
    if not resumed and schedule.in_shares() != schedule:
        return None
    return end if end < _EARLY * config.env_steps else None


def _in_shares(schedule: _WithEnd, env_steps: int) -> str:
    """Returns the schedule's table, stretched so that it ends with the run."""
    table = schedule.model_dump()
    if isinstance(schedule, Piecewise):
        del table["points"]
        points = schedule.points or ()
        last = points[-1][0] or 1
        table["fractions"] = [[round(step / last, 3), value] for step, value in points]
    else:
        del table["steps"]
        table["fraction"] = round(1 - schedule.begin / env_steps, 3)
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
