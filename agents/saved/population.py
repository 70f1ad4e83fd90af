"""A message about a population's directory, which `rl_core.control.population` describes."""

from __future__ import annotations

from pathlib import Path

from rl_core.control.population import POPULATION, is_population, member_dirs

__all__ = ["POPULATION", "is_population", "member_dirs", "name_a_member"]


def name_a_member(path: Path) -> str:
    """Returns the end of a message about a population where a run is wanted."""
    first = next(iter(member_dirs(path)), path / "m00")
    return f"{path} is a population: name one of its members, such as {first}"
