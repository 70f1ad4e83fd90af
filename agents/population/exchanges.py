"""Population-based training: at every period the worst members copy the best.

All members that still train stop at their first safe point of the period. Then an exchange is
decided, what is copied is kept in files, the decision is written, and only then it is carried out:
by copies in the graph, and by entries of the members' logs. A member that is resumed from before an
exchange finds it in the record, and takes what it copied from its file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from targetnet.agents.config.members import Members
from targetnet.agents.config.pbt import PbtKeys, knobs_of
from targetnet.agents.dqn.population import Population
from targetnet.agents.population.directory import PopulationDir
from targetnet.agents.population.scheduler import ExchangeBarrier, MemberExchanges
from targetnet.agents.population.truncation import MemberCopy, MemberScore, decided
from targetnet.agents.run.display import Screen
from targetnet.agents.run.exchanges import score_of
from targetnet.agents.run.process import StopRequest
from targetnet.agents.run.run import RunParts
from targetnet.agents.saved.copies import clear_copies, require_copies, save_copy
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.log import Entry, read_log
from targetnet.rl_core.control.population import (
    CopyOf,
    Exchange,
    ExchangeRecord,
    LentTo,
    MemberRecord,
    number_in,
)
from targetnet.rl_core.control.steering import Due
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.files import RetryLater
from targetnet.rl_core.hyperparameters import as_text

_LOOK_SECONDS = 0.2  # between two looks at who is missing, and two attempts on a full disk


class PastExchanges:
    """The exchanges that were made before, by a population's record and its members' logs.

    Args:
      directory: of the population.
      ticks: name -> the tick where the member goes on, of those that go on.

    Attributes:
      record: of the exchanges.
      missing: member -> what the record changes in it, and its log lacks.

    Raises:
      RunDirError: the record is damaged, or lacks an exchange that a member's log has; or a file
        is missing or damaged with what a member has to copy again.
    """

    def __init__(self, directory: PopulationDir, ticks: Mapping[str, int]) -> None:
        self.record = ExchangeRecord(directory.path)
        self.missing: dict[str, list[Entry]] = {}
        for name, tick in ticks.items():
            run = RunDir(directory.path / name)
            logged = read_log(run.control.log)
            latest = max((number_in(entry) or 0 for entry in logged), default=0)
            if latest > len(self.record.all):
                raise RunDirError(
                    f"{directory.path} is damaged: {name} took part in exchange {latest:,}, and "
                    f"there are {len(self.record.all):,}"
                )
            entries = [entry for of in self.record.all for entry in of.entries(name)]
            require_copies(run, [entry for entry in entries if entry.tick >= tick])
            ids = {entry.id for entry in logged}
            self.missing[name] = [entry for entry in entries if entry.id not in ids]
        self._directory = directory

    def clear_leftovers(self) -> None:
        """Removes what a killed process has not finished, or has not decided after all."""
        self.record.clear_leftovers()
        for name in self.missing:
            kept = {
                copied.file for of in self.record.all for by, copied in of.copies() if by == name
            }
            clear_copies(RunDir(self._directory.path / name), kept)


class PopulationExchanges:
    """The exchanges of a population.

    Args:
      members: its configs, with `pbt`.
      population: the agents.
      recorded: earlier exchanges.
      screen: shows each exchange in a line.

    Attributes:
      barrier: where the members wait.
      record: of the exchanges.
    """

    def __init__(
        self,
        members: Members,
        population: Population,
        recorded: PastExchanges,
        screen: Screen,
    ) -> None:
        assert members.pbt is not None
        self.pbt: PbtKeys = members.pbt
        self._seed, self._recorded, self.record = members.base.seed, recorded, recorded.record
        self.barrier = ExchangeBarrier(population, recorded.missing)
        self._screen = screen
        self._writing, self._next_look = RetryLater(screen.line), 0.0
        self._told: Sequence[str] = ()  # who was said to be paused

    def of(self, name: str, stop: StopRequest) -> MemberExchanges:
        """Returns the side of one member; `stop` is true once Ctrl-C was pressed."""
        taken = self.record.of(name)
        last_tick = taken[-1].members[name].tick if taken else -1
        return MemberExchanges(self, name, stop, self._recorded.missing[name], last_tick)

    @property
    def number(self) -> int:
        """The number of the next exchange."""
        return len(self.record.all) + 1

    @property
    def env_step(self) -> int:
        """The env step from which on it is due."""
        return self.number * self.pbt.period

    def due(self, name: str) -> Due:
        end = self.barrier.runs[name].agent.config.env_steps
        at = self.env_step if self.env_step < end else math.inf
        return Due(math.inf, at, math.inf)

    def source(self, name: str) -> RunDir:
        return self.barrier.runs[name].directory

    def make_if_all_are_here(self, name: str) -> None:
        """Makes the next exchange if nobody is missing."""
        barrier = self.barrier
        if barrier.waiting != barrier.active:
            if self._is_time_to_look():
                self._tell_who_is_missing()
        elif self._writing.failing and not self._is_time_to_look():
            return
        elif barrier.are_still(barrier.waiting):
            runs = {name: barrier.runs[name] for name in sorted(barrier.waiting)}
            made: Exchange | None = None
            with self._writing.attempt():  # on a full disk all wait
                made = self._decide(runs)
            if made is not None:
                self._carry_out(made, runs)

    def _decide(self, runs: Mapping[str, RunParts]) -> Exchange:
        """Decides the exchange of these members; nothing of it can be lost after that.

        Raises:
          RunDirError: it cannot be written.
        """
        first = next(iter(runs.values()))
        knobs = knobs_of(first.agent.config, self.pbt.perturb or ())
        standings = {
            name: MemberScore(
                score_of(run, self.pbt.score),
                {knob: run.agent.hyperparameters[knob] for knob in knobs},
            )
            for name, run in runs.items()
        }
        chosen = decided(self.pbt, self._seed, self.number, standings, knobs)
        exchange = self._as_exchange(runs, standings, chosen, _kept(chosen, runs))
        self.record.append(exchange)
        self._screen.line(_described(exchange, standings))
        return exchange

    def _carry_out(self, exchange: Exchange, runs: Mapping[str, RunParts]) -> None:
        with self.barrier.together(runs):
            for name, run in runs.items():
                run.steering.exchange(exchange.entries(name))

    def _as_exchange(
        self,
        runs: Mapping[str, RunParts],
        standings: Mapping[str, MemberScore],
        chosen: Mapping[str, MemberCopy],
        files: Mapping[str, str],
    ) -> Exchange:
        number, parts = self.number, {}
        for name, run in runs.items():
            copies, values = None, {}
            if name in chosen:
                giver, wanted = chosen[name]
                update = runs[giver].control.position.update
                copies = CopyOf(exchange=number, member=giver, update=update, file=files[giver])
                now = standings[name].values
                values = {knob: value for knob, value in wanted.items() if value != now[knob]}
            takers = [taker for taker, of in chosen.items() if of.giver == name]
            parts[name] = MemberRecord(
                **run.control.position._asdict(), score=standings[name].score, copies=copies,
                values=values, lent=LentTo(exchange=number, members=takers) if takers else None,
            )  # fmt: skip
        return Exchange(number=number, time=time.time(), members=parts)

    def _is_time_to_look(self) -> bool:
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK_SECONDS
        return True

    def _tell_who_is_missing(self) -> None:
        paused = self.barrier.tell(self.number)
        told, self._told = self._told, paused
        if paused and paused != told:
            are = "is" if len(paused) == 1 else "are"
            self._screen.line(
                f"exchange {self.number:,} waits for {', '.join(paused)}, which {are} paused"
            )


def _kept(chosen: Mapping[str, MemberCopy], runs: Mapping[str, RunParts]) -> dict[str, str]:
    """Keeps what each giver has learned for those that copy it; giver -> digest of the file."""
    files = {}
    for giver in dict.fromkeys(of.giver for of in chosen.values()):
        takers = [runs[name].directory for name, of in chosen.items() if of.giver == giver]
        files[giver] = save_copy(takers, runs[giver].agent.state.learned.read())
    return files


def _described(exchange: Exchange, standings: Mapping[str, MemberScore]) -> str:
    """Returns the line about an exchange that is about to be carried out."""
    where = max(part.env_step for part in exchange.members.values())
    begin = f"exchange {exchange.number:,} at env step {where:,}: "
    made = []
    for name, copied in exchange.copies():
        part, giver = exchange.members[name], exchange.members[copied.member]
        changes = [
            f", {knob} {as_text(standings[name].values[knob])} -> {as_text(value)}"
            for knob, value in part.values.items()
        ]
        scores = f"{part.score:,.1f} -> {giver.score:,.1f}"
        made.append(f"{name} copies {copied.member} ({scores}){''.join(changes)}")
    if made:
        return begin + "; ".join(made)
    without = sum(part.score is None for part in exchange.members.values())
    why = "no copy: no best member scores higher than the one that would copy it"
    return begin + (f"{without} members have no score yet" if without else why)
