"""Several members' loops in one thread: each goes on until it gives its turn to the next.

Every loop is a greenlet, so what it calls need not know that others go on meanwhile. Nothing runs
at the same time, and a turn ends only where a member gives it up: between two time steps, or
where it asks for an action or an update that is made together with those of others.

An exchange is made when all members have arrived. Between an arrival and the exchange a member
stands still, so whoever arrives last may read and change all of them. Members that have ended are
not waited for.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from greenlet import getcurrent, greenlet

from targetnet.agents.dqn.population import Population
from targetnet.agents.run.exchanges import copy_from_file, keep_copy
from targetnet.agents.run.process import StopRequest
from targetnet.agents.run.run import RunParts
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.population import CopyOf
from targetnet.rl_core.control.steering import Due

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
_Serve: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]

# A turn's least length. Each one begins with copies of a member's variables, about 30 us.
_SLICE_SECONDS = 0.005


class CooperativeScheduler(Generic[T]):
    """Gives the members turns, one after the other.

    Args:
      slice_seconds: a member that gives its turn up earlier keeps it.
    """

    def __init__(self, slice_seconds: float = _SLICE_SECONDS) -> None:
        self._slice, self._ends = slice_seconds, 0.0
        self._between = getcurrent()
        # Every member is in one of these, but for the one whose turn it is.
        self._waiting: deque[greenlet] = deque()  # for a turn
        self._resting: dict[greenlet, float] = {}  # until a time
        self._asking: dict[_Serve, list[tuple[greenlet, Any]]] = {}  # until it is served
        self._last: dict[_Serve, list[tuple[greenlet, Any]]] = {}  # the same, after all others
        self._answers: dict[greenlet, Any] = {}
        self._is_ending = False

    def all(self, members: Sequence[Callable[[], T]]) -> list[T]:
        """Calls all members and returns what they return.

        If one of them raises, the others end at their next turn, and their `finally` blocks run.
        """
        self._between = getcurrent()
        lets = [greenlet(member) for member in members]
        self._waiting.extend(lets)
        returned: dict[greenlet, T] = {}
        try:
            while len(returned) < len(lets):
                # Who asks waits until everyone else has had a turn.
                for _ in range(len(self._waiting)):
                    member = self._waiting.popleft()
                    self._ends = time.monotonic() + self._slice
                    result = member.switch()
                    if member.dead:
                        returned[member] = result
                if self._resting:
                    self._wake()
                if self._asking:
                    self._answer(self._asking)
                elif self._last:
                    self._answer(self._last)
                elif not self._waiting:
                    self._sleep()
        finally:
            self._end(lets)
        return [returned[member] for member in lets]

    def give(self) -> None:
        """Gives the turn to the next member, once it has lasted long enough."""
        if time.monotonic() >= self._ends and not self._is_ending:
            self._waiting.append(getcurrent())
            self._between.switch()

    def rest(self, seconds: float) -> None:
        """Gives the turns of so many seconds to the others."""
        if not self._is_ending:
            self._resting[getcurrent()] = time.monotonic() + seconds
            self._between.switch()

    def ask(
        self, serve: Callable[[Sequence[R]], Sequence[A]], request: R, *, last: bool = False
    ) -> A:
        """Has a request served together with those of the others; returns what it is answered.

        Args:
          serve: answers several requests; one function for all requests of a kind.
          last: have it served once nobody asks for anything else, so that many of its kind come
            together.
        """
        if self._is_ending:
            return serve([request])[0]
        member = getcurrent()
        (self._last if last else self._asking).setdefault(serve, []).append((member, request))
        self._between.switch()
        answer: A = self._answers.pop(member)
        return answer

    def _answer(self, asking: dict[_Serve, list[tuple[greenlet, Any]]]) -> None:
        """Serves those who ask, and gives them a turn again."""
        for serve, of_kind in asking.items():
            members, requests = zip(*of_kind, strict=True)
            self._answers.update(zip(members, serve(requests), strict=True))
            self._waiting.extend(members)
        asking.clear()

    def _wake(self) -> None:
        """Gives those a turn again who have rested."""
        now = time.monotonic()
        for member in [member for member, until in self._resting.items() if until <= now]:
            del self._resting[member]
            self._waiting.append(member)

    def _sleep(self) -> None:
        """Waits for the first of those who rest, as nobody else is there."""
        if self._resting:
            time.sleep(max(0.0, min(self._resting.values()) - time.monotonic()))
            self._wake()

    def _end(self, members: Sequence[greenlet]) -> None:
        self._is_ending = True
        with contextlib.ExitStack() as last:
            for member in members:
                if member:  # it has begun and not ended: GreenletExit comes where it waits
                    last.callback(member.throw)


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
        self.runs: dict[str, RunParts] = {}
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


class AllExchanges(Protocol):
    """The exchanges of a population: made now, or repeated.

    Attributes:
      barrier: where the members wait.
    """

    barrier: ExchangeBarrier

    def of(self, name: str, stop: StopRequest) -> MemberExchanges:
        """Returns the side of one member; `stop` is true once Ctrl-C was pressed."""

    def due(self, name: str) -> Due:
        """Returns the moment of a member's next one."""

    def source(self, name: str) -> RunDir:
        """Returns the directory that has the files of what a member has copied."""

    def make_if_all_are_here(self, name: str) -> None:
        """Makes the exchange for which a member waits, if nobody is missing."""


class MemberExchanges:
    """The exchanges as the run of one member sees them: its `Exchanges`.

    Args:
      of_all: the exchanges of the population.
      name: of the member.
      stop: true once Ctrl-C was pressed: then the others leave, and one would be made without them.
      missing: what recorded exchanges change in the run, and its log lacks.
      last_tick: of its latest exchange.
    """

    def __init__(
        self,
        of_all: AllExchanges,
        name: str,
        stop: StopRequest,
        missing: Sequence[Entry] = (),
        last_tick: int = -1,
    ) -> None:
        self._of_all, self._name, self._stop, self.missing = of_all, name, stop, missing
        self._last_tick = last_tick
        self._run: RunParts | None = None

    def begin(self, run: RunParts) -> None:
        self._run = self._of_all.barrier.runs[self._name] = run

    @property
    def due(self) -> Due:
        return self._of_all.due(self._name)

    def arrive(self) -> bool:
        assert self._run is not None
        (tick, env_step, _), due = self._run.control.position, self.due
        # A phase or chunk may be longer than the period, and makes one exchange then.
        if (env_step < due.env_step and tick < due.tick) or tick <= self._last_tick:
            return False
        self._last_tick = tick
        self._of_all.barrier.arrive(self._name)
        return True

    def waits(self) -> bool:
        waiting = self._of_all.barrier.waiting
        if not self._stop and self._name in waiting:
            self._of_all.make_if_all_are_here(self._name)
        return self._name in waiting

    def copy(self, copied: CopyOf) -> None:
        self._of_all.barrier.copy(self._name, copied, self._of_all.source(self._name))

    def leave(self) -> None:
        self._of_all.barrier.leave(self._name)
