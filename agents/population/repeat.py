"""Runs a recorded population again: all members together, with the exchanges between them."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from targetnet.agents.config.members import Members
from targetnet.agents.dqn.population import Population
from targetnet.agents.population.directory import PopulationDir, require_free_for
from targetnet.agents.population.runner import PopulationRunner, envs_of, population_of
from targetnet.agents.population.scheduler import ExchangeBarrier, MemberExchanges
from targetnet.agents.run.agent_factory import give_weights, load_initial
from targetnet.agents.run.display import ConsoleChoice, Screen, console_for, shows_progress
from targetnet.agents.run.process import StopRequest
from targetnet.agents.run.repeat import NothingRecorded, Recording, Verdict
from targetnet.agents.saved.copies import require_copies
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.arguments import path_of
from targetnet.rl_core.control.files import is_alive
from targetnet.rl_core.control.population import ExchangeRecord, number_in
from targetnet.rl_core.control.steering import Due
from targetnet.rl_core.errors import RunDirError


@shows_progress
def repeat_population(
    run: Path | str, to: Path | str | None = None, *, console: ConsoleChoice = "auto"
) -> dict[str, Verdict]:
    """Trains all members again together, each with the changes that its log has.

    Members copy one another in the graph, as they did.

    Args:
      run: directory of a population, all of whose members have ended.
      to: a directory for the repeat; None keeps nothing of it.
      console: shows progress, as for `train`.

    Returns:
      Name -> comparison, of the members that have recorded anything.

    Raises:
      RunDirError: a member is alive, files are damaged, nobody recorded anything, or `to` already
        holds a run.
    """
    original = PopulationDir.open(path_of("run", run))
    members, screen = original.members(), Screen(console_for(console))
    recordings = _recordings(original, members)
    # All of them, because a member's name is its number.
    members = _as_they_are(original, members)
    configs = {name: members.configs[name] for name in recordings}
    record = ExchangeRecord(original.path)
    if to is not None:
        require_free_for(path_of("to", to), members)
    with contextlib.ExitStack() as last:
        temporary = last.enter_context(tempfile.TemporaryDirectory(prefix="targetnet-replay-"))
        envs = envs_of(configs, last)
        population = population_of(configs, envs, last)
        agents = dict(zip(configs, population.members, strict=True))
        first = {name: load_initial(RunDir(original.path / name)) for name in members.configs}
        for name, agent in agents.items():
            give_weights(agent, first[name])
        place = Path(temporary) / original.path.name if to is None else path_of("to", to)
        directory = PopulationDir.create(place, "run", members, first)
        kept = ExchangeRecord(directory.path)
        for exchange in record.all:
            kept.append(exchange)
        note = f"repeats {original.path}"
        runner = PopulationRunner(directory, screen, population, agents, envs, None, None, note)
        repeated = RepeatedExchanges(population, recordings)
        outcome = runner.all({name: {"repeat": of} for name, of in recordings.items()}, repeated)
        for error in outcome.failed.values():
            raise error
    return {
        name: recordings[name].verdict(of).with_cause(configs[name])
        for name, of in outcome.members.items()
    }


def _recordings(original: PopulationDir, members: Members) -> dict[str, Recording]:
    """Reads what the members have recorded.

    Raises:
      RunDirError: one is alive, damaged or not the member that it was, or nobody recorded anything.
    """
    found: dict[str, Recording] = {}
    for name in members.configs:
        run = RunDir(original.path / name)
        if is_alive(run.control):
            raise RunDirError(f"{run.path} is still running: stop it before it is replayed")
        with contextlib.suppress(NothingRecorded):
            found[name] = Recording(original.made(name, members))
            require_copies(run, found[name].script)
    if not found:
        raise NothingRecorded(f"{original.path} recorded no step, so there is nothing to replay")
    return found


def _as_they_are(original: PopulationDir, members: Members) -> Members:
    """Returns the members with the configs of their own directories, and reported nowhere."""
    nowhere = {"log_to": ()}
    configs = {
        name: RunDir.open(original.path / name).config().model_copy(update=nowhere)
        for name in members.configs
    }
    return members._replace(base=members.base.model_copy(update=nowhere), configs=configs)


class _PastExchange(NamedTuple):
    """A recorded exchange of one member: its number, and the tick at which it was made."""

    number: int
    tick: int
    copies: bool  # another member; else it is copied


class RepeatedExchanges:
    """The exchanges of a population that is run again: its `Exchanges`.

    Args:
      population: the agents.
      recordings: of the members, by name.

    Attributes:
      barrier: where the members wait.
      left: name -> its exchanges that are still to come.

    Raises:
      RunDirError: the exchanges in a log are not in order.
    """

    def __init__(self, population: Population, recordings: Mapping[str, Recording]) -> None:
        self.barrier = ExchangeBarrier(population, recordings)
        self.left = {name: list(_met(of)) for name, of in recordings.items()}
        self._sources = {name: of.directory for name, of in recordings.items()}

    def of(self, name: str, stop: StopRequest) -> MemberExchanges:
        """Returns the side of one member; `stop` is true once Ctrl-C was pressed."""
        return MemberExchanges(self, name, stop)

    def due(self, name: str) -> Due:
        left = self.left[name]
        return Due(left[0].tick if left else math.inf, math.inf, math.inf)

    def source(self, name: str) -> RunDir:
        return self._sources[name]

    def make_if_all_are_here(self, name: str) -> None:
        """Makes an exchange if all that took part in it wait for it, or come no more."""
        barrier, number = self.barrier, self.left[name][0].number
        taking_part = {
            name for name in barrier.active if any(met.number == number for met in self.left[name])
        }
        waiting = {n for n in barrier.waiting if self.left[n][0].number == number}
        if taking_part - waiting:
            return
        with barrier.together(waiting):
            # Those that copy first: the others may go on with changes of the same time step.
            for name in sorted(waiting, key=lambda name: not self.left[name][0].copies):
                self.left[name].pop(0)
                barrier.runs[name].steering.exchange()


def _met(recording: Recording) -> Iterator[_PastExchange]:
    """Yields the exchanges in a log, each once.

    Raises:
      RunDirError: they are not in order.
    """
    before = _PastExchange(0, -1, False)
    for entry in recording.script:
        number = number_in(entry)
        if number is None or number == before.number:
            continue
        if number < before.number or entry.tick <= before.tick:
            log = recording.directory.control.log
            raise RunDirError(f"{log} is damaged: exchange {number:,} is not where it was made")
        before = _PastExchange(number, entry.tick, entry.name == "copy")
        yield before
