"""Exchanges between the members of a population, as the run of one member sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from targetnet.agents.config.members import read_members
from targetnet.agents.saved.copies import load_copy, save_copy
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.population import POPULATION, CopyOf, is_member_name, is_population
from targetnet.rl_core.control.steering import Due
from targetnet.rl_core.errors import RunDirError

if TYPE_CHECKING:
    from targetnet.agents.run.run import RunParts


def score_of(run: RunParts, kind: Literal["evaluation", "training"]) -> float | None:
    """Returns what a run is compared by; None if there is nothing yet."""
    if kind == "training":
        score = run.display.mean_return
    else:
        _, score = run.reporter.recent.get("evaluation/return", (0, None))
    return score if score is not None and math.isfinite(score) else None


class Exchanges(Protocol):
    """The exchanges in which one run takes part.

    Attributes:
      missing: what recorded exchanges change in the run, and its log lacks.
    """

    missing: Sequence[Entry]

    @property
    def due(self) -> Due:
        """The moment of the next one."""

    def begin(self, run: RunParts) -> None:
        """Takes in the run; called once, before its loop."""

    def arrive(self) -> bool:
        """Says that the run has come to a safe point; returns True if an exchange is due there."""

    def waits(self) -> bool:
        """Returns True until the exchange is made, for which the others have to arrive."""

    def copy(self, copied: CopyOf) -> None:
        """Gives the run's agent what another member has learned."""

    def leave(self) -> None:
        """Says that the run takes part in no more exchanges; a second call does nothing."""


class NoExchanges:
    """The exchanges of a run that goes on without the others: those of the record are repeated.

    Args:
      source: directory of the run whose record it is.
    """

    due = Due(math.inf, math.inf, math.inf)

    def __init__(self, source: RunDir) -> None:
        self.missing: Sequence[Entry] = ()
        self._source = source
        self._run: RunParts | None = None

    def begin(self, run: RunParts) -> None:
        self._run = run

    def arrive(self) -> bool:
        return False

    def waits(self) -> bool:
        return False

    def copy(self, copied: CopyOf) -> None:
        assert self._run is not None
        copy_from_file(self._run, self._source, copied)

    def leave(self) -> None:
        pass


def copy_from_file(run: RunParts, source: RunDir, copied: CopyOf) -> None:
    """Gives a run what it, or the run that it repeats, has copied from another member.

    Raises:
      RunDirError: the file is missing or damaged.
      ScopeMismatch: it is of another network.
    """
    learned = load_copy(source, copied)
    keep_copy(run, source, copied)
    run.agent.state.learned.replace(learned)


def keep_copy(run: RunParts, source: RunDir, copied: CopyOf) -> None:
    """Keeps the file of a run that is repeated in the repeat's own directory too.

    Raises:
      RunDirError: it is missing or damaged, or cannot be written.
    """
    if run.directory.path != source.path:
        save_copy([run.directory], load_copy(source, copied))


def require_alone(run: RunDir) -> None:
    """Checks that a run may go on without others.

    Raises:
      RunDirError: it is a member of a population whose members copy one another.
    """
    path = run.path.resolve()
    if not is_member_name(path.name) or not is_population(path.parent):
        return
    if read_members(path.parent / POPULATION).pbt is not None:
        population = run.path.parent if run.path.name else path.parent
        raise RunDirError(
            f"{run.path} exchanges weights with the other members, so it cannot go on alone: "
            f"targetnet resume {population}"
        )
