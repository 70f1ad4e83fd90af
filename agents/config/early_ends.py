"""Lines at a run's start: it cannot learn, its schedules end early, actions come at its end."""

from __future__ import annotations

import math

from targetnet.agents.config.learning_keys import ExplorationKeys
from targetnet.agents.config.live_values import configured_values
from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.schedules import Constant, Geometric, Linear, Piecewise

_WithEnd = Linear | Geometric | Piecewise
_EARLY = 0.5  # share of the run


def no_learning(config: DqnConfig) -> str | None:
    """Returns a line about a run that makes no update, or none that moves a weight; None if it may.

    Only what is certain is told. With several envs, and with rollouts, it depends on the env.
    """
    first, last = _first_update(config), config.env_steps
    if config.loop == "remote" and config.actor_pace == "free":
        last += config.actor_steps * config.num_envs  # the last delivery is learned from too
    if first >= last:
        keys = ("rollout",) if config.rollout else ("learn_start", "learn_period")
        named = ", ".join(f"{name} = {_shown(getattr(config, name))}" for name in keys)
        return (
            f"this run makes no update: its first one would come at env step {first:,} at the "
            f"earliest ({named}), and the run ends at {config.env_steps:,}; lower "
            f"{' or '.join(keys)}, or raise env_steps"
        )
    if _extremes(config.learning_rate)[1] == 0:
        return "this run moves no weight while learning_rate is 0"
    return None


def _first_update(config: DqnConfig) -> int:
    """Returns the env step before which no update can be made."""
    if config.rollout:
        # At most every second time step of an env is the reset after an episode of one.
        return -(-config.rollout // 2) * config.num_envs
    least = math.floor(_extremes(config.learn_period)[0])
    if not isinstance(config.learn_period, int):
        return max(config.learn_start, least)
    return max(1, -(-config.learn_start // least)) * least


def _extremes(value: float | _WithEnd | Constant) -> tuple[float, float]:
    return (value, value) if isinstance(value, int | float) else value.extremes()


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


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
        f"actions: {', '.join(last)} is due at env step {config.env_steps:,}, the end of the run, "
        f"so the weights are saved right after it; to avoid that: until = {config.env_steps - 1}"
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
