"""Meetings of a population's members: an exchange is made when all have arrived.

Between an arrival and the exchange a member stands still, so whoever arrives last may read and
change all of them. Members that have ended are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from targetnet.agents.dqn.population import Population
from targetnet.agents.run.exchanges import ExchangeContext, copy_from_file, keep_copy
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.exchanges import CopyOf


class ExchangeBarrier:
    """The members that are here, and those that may come.

    Args:
      population: whose members they are.
      names: of all members.

    Attributes:
      active: names of those that may come.
      runs: name -> parts of its run, of those that have begun.
      waiting: names of those that wait.
    """

    def __init__(self, population: Population, names: Iterable[str]) -> None:
        self._population = population
        self.active = set(names)
        self.runs: dict[str, ExchangeContext] = {}
        self.waiting: set[str] = set()
        self._here: frozenset[str] = frozenset()  # while an exchange is made

    def arrive(self, name: str) -> None:
        """Has a member wait."""
        self.waiting.add(name)

    def leave(self, name: str) -> None:
        """Lets the others go on without a member."""
        self.active.discard(name)
        self.waiting.discard(name)
        if name in self.runs:
            self.runs[name].control.waits_for = None

    def are_still(self, names: Iterable[str]) -> bool:
        """Returns True if members that wait have nothing else to do, such as an evaluation."""
        runs = [self.runs[name] for name in names]
        for run in runs:
            run.steering.poll()  # a command may have come while nobody looked
        controls = [run.control for run in runs]
        return not any(of.stopped or of.evaluating or of.evaluations_asked for of in controls)

    @contextmanager
    def together(self, names: Iterable[str]) -> Iterator[None]:
        """Makes the exchange of members that wait; afterwards they go on."""
        self._here = frozenset(names)
        try:
            yield
        finally:
            self.waiting -= self._here
            for name in self._here:
                self.runs[name].control.waits_for = None
            self._here = frozenset()

    def copy(self, name: str, copied: CopyOf, source: RunDir) -> None:
        """Copies a member in the graph if it is here; else what was kept of it.

        Args:
          name: the member that copies.
          source: directory that has the file.

        Raises:
          RunDirError: the file is missing or damaged.
        """
        if copied.member in self._here:
            giver, taker = self.runs[copied.member], self.runs[name]
            keep_copy(taker, source, copied)
            self._population.copy(giver.agent, taker.agent)
        else:
            copy_from_file(self.runs[name], source, copied)

    def tell(self, number: int) -> Sequence[str]:
        """Says in the members' states for whom they wait; returns those that are paused."""
        missing = sorted(self.active - self.waiting)
        of = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if missing[3:] else "")
        for name in self.waiting:
            self.runs[name].control.waits_for = f"waits for {of} (exchange {number})"
        runs = [self.runs.get(name) for name in missing]
        return [n for n, run in zip(missing, runs, strict=True) if run and run.control.paused]
