"""A population's directory: population.toml, and a run directory for each member.

    runs/cartpole-1/population.toml
    runs/cartpole-1/m00/config.toml ...
    runs/cartpole-1/exchanges/0001.json ...   see targetnet.rl_core.control.exchanges
    runs/cartpole-1/change.json               while a resume changes its members

`population.toml` is written before any member's config, and after the weights that members begin
with, so that a population that was killed at any moment can go on.
"""

from __future__ import annotations

import re
from pathlib import Path

POPULATION = "population.toml"
CHANGE = "change.json"
MEMBER = r"^m[0-9]{2,4}$"


def is_population(path: Path) -> bool:
    """Says whether a population lies there."""
    return (path / POPULATION).is_file()


def is_member_name(name: str) -> bool:
    """Says whether a member's directory may have this name, such as m00."""
    return re.fullmatch(MEMBER, name) is not None


def member_dirs(path: Path) -> list[Path]:
    """Returns the directories of a population's members, by number."""
    return sorted(of for of in path.iterdir() if is_member_name(of.name) and of.is_dir())


def name_a_member(path: Path) -> str:
    """Returns the end of a message about a population where a run is wanted."""
    first = next(iter(member_dirs(path)), path / "m00")
    return f"{path} is a population: name one of its members, such as {first}"
