"""The table of a population's members at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.table import Table

from agents.population.directory import PopulationDir
from rl_core.errors import in_one_line

if TYPE_CHECKING:
    from agents.population.going import PopulationOutcome


def members_table(outcome: PopulationOutcome) -> Table:
    """Returns a row for each member: what it has of its own, and how it plays."""
    own = PopulationDir.open(outcome.population).members().own
    keys = [*dict.fromkeys(key for values in own.values() for key in values)]
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("member", *keys, "env steps", "greedy return"):
        table.add_column(column, justify="left" if column == "member" else "right")
    for name, values in own.items():
        if name in outcome.members or name in outcome.failed:
            of_keys = [in_one_line(values[key], 40) if key in values else "" for key in keys]
            table.add_row(name, *of_keys, *_ended(outcome, name))
    return table


def _ended(outcome: PopulationOutcome, name: str) -> tuple[str, str]:
    if name in outcome.failed:
        return "", "failed"
    member = outcome.members[name]
    mean = f"{np.mean(member.returns):,.1f}" if member.returns else "stopped"
    return f"{member.env_steps:,}", mean
