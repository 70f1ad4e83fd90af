"""The table of a population's members at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.table import Table

from targetnet.agents.population.directory import PopulationDir
from targetnet.rl_core.control.population import ExchangeRecord
from targetnet.rl_core.errors import in_one_line
from targetnet.rl_core.hyperparameters import as_text

if TYPE_CHECKING:
    from targetnet.agents.population.runner import PopulationOutcome


def members_table(outcome: PopulationOutcome) -> Table:
    """Returns a row for each member: what it has of its own, and how it plays."""
    own, changed = PopulationDir.open(outcome.population).members().own, _changed(outcome)
    of_all = [*own.values(), *changed.values()]
    keys = [*dict.fromkeys(key for values in of_all for key in values)]
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("member", *keys, "env steps", "greedy return"):
        table.add_column(column, justify="left" if column == "member" else "right")
    for name, values in own.items():
        if name in outcome.members or name in outcome.failed:
            of_keys = [_value(key, values, changed.get(name, {})) for key in keys]
            table.add_row(name, *of_keys, *_ended(outcome, name))
    return table


def _changed(outcome: PopulationOutcome) -> dict[str, dict[str, float]]:
    """Returns the live values that exchanges have given the members: name -> values."""
    changed: dict[str, dict[str, float]] = {}
    for exchange in ExchangeRecord(outcome.population).all:
        for name, part in exchange.members.items():
            changed.setdefault(name, {}).update(part.values)
    return changed


def _value(key: str, own: Mapping[str, Any], changed: Mapping[str, float]) -> str:
    """Returns a member's value; after exchanges as "0.001 -> 0.0008"."""
    before = in_one_line(own[key], 40) if key in own else ""
    return f"{before} -> {as_text(changed[key])}" if key in changed else before


def _ended(outcome: PopulationOutcome, name: str) -> tuple[str, str]:
    if name in outcome.failed:
        return "", "failed"
    member = outcome.members[name]
    mean = f"{np.mean(member.returns):,.1f}" if member.returns else "stopped"
    return f"{member.env_steps:,}", mean
