"""Lets the runs of a population's members go on in turns."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from targetnet.agents.config.envs import training_envs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.population import Population
from targetnet.agents.loops.evaluation import EvaluationEnvs
from targetnet.agents.population.directory import PopulationDir
from targetnet.agents.population.scheduler import AllExchanges, CooperativeScheduler
from targetnet.agents.run.agent_factory import arguments_for
from targetnet.agents.run.display import Display, Screen
from targetnet.agents.run.exchanges import Exchanges
from targetnet.agents.run.loop_runner import OnTick
from targetnet.agents.run.outcome import RunOutcome
from targetnet.agents.run.process import Startup, StopRequest, stop_on_interrupt
from targetnet.agents.run.run import Run
from targetnet.agents.saved.directory import RunDir
from targetnet.envs import Envs
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.machine import make_room_for_files
from targetnet.rl_core.replay import format_bytes

_FILES_OF_A_RUN = 4  # curves, log, trace, lock


class MembersFailed(RlCoreError):
    """Members of a population that an error ended; the others went on."""

    exit_code = 1


@dataclass(frozen=True)
class PopulationOutcome:
    """The result of a population.

    Attributes:
      population: its directory.
      members: name, such as m03 -> the member's result; of those that went on this time.
      failed: name -> the error that ended the member; `resume` tries it again.
      signal: the one that ended it early, SIGINT, SIGTERM or SIGHUP; 0 if none did.
    """

    population: Path
    members: dict[str, RunOutcome]
    failed: dict[str, RlCoreError]
    signal: int

    def require_all(self) -> None:
        """Checks that no member failed.

        Raises:
          MembersFailed: some did; says which.
        """
        if self.failed:
            names, all_of_them = ", ".join(self.failed), len(self.failed) + len(self.members)
            raise MembersFailed(
                f"{len(self.failed)} of {all_of_them} members failed: {names}; targetnet resume "
                f"{self.population} tries them again"
            )


@dataclass
class PopulationRunner:
    """Lets the members' runs go on in turns.

    Attributes:
      note: begins the line about them; by default it is the directory.
    """

    directory: PopulationDir
    screen: Screen
    population: Population
    agents: Mapping[str, DqnAgent]
    envs: Mapping[str, Envs]
    on_tick: OnTick | None
    startup: Startup | None
    note: str = ""

    def all(
        self, how: Mapping[str, Mapping[str, Any]], exchanges: AllExchanges | None = None
    ) -> PopulationOutcome:
        """Trains all members.

        Args:
          how: name -> further arguments of its `Run`.
          exchanges: the exchanges between them; None: there are none.
        """
        first = next(iter(self.agents.values()))
        rows, config, count = first.replay, first.config, len(self.agents)
        self.screen.line(
            f"{self.note or self.directory.path}: {count} members, {config.env_id}, replay of "
            f"{rows.capacity:,} rows each ({format_bytes(count * rows.nbytes)} once all are full)"
        )
        scheduler: CooperativeScheduler[RunOutcome | RlCoreError] = CooperativeScheduler()
        if first.batched is not None:
            first.batched.batcher = scheduler
        if line := self.envs[next(iter(self.agents))].not_repeated:
            self.screen.line(line)
        # No member's are closed while others go on.
        with contextlib.ExitStack() as last, stop_on_interrupt() as stop, self.screen:
            sides: dict[str, Exchanges | None] = dict.fromkeys(how)
            if exchanges is not None:
                sides = {name: exchanges.of(name, stop) for name in how}
            calls = [
                partial(self._one, name, stop, last, scheduler, sides[name], more)
                for name, more in how.items()
            ]
            ended = dict(zip(how, scheduler.all(calls), strict=True))
        return PopulationOutcome(
            self.directory.path,
            {name: of for name, of in ended.items() if isinstance(of, RunOutcome)},
            {name: of for name, of in ended.items() if isinstance(of, RlCoreError)},
            stop.signal,
        )

    def _one(
        self,
        name: str,
        stop: StopRequest,
        last: contextlib.ExitStack,
        scheduler: CooperativeScheduler[Any],
        exchanges: Exchanges | None,
        more: Mapping[str, Any],
    ) -> RunOutcome | RlCoreError:
        """Trains one member; an error that ends it leaves the others alone."""
        agent, (first, *_) = self.agents[name], self.agents
        startup = self.startup if name == first else None
        display = Display(agent, self.screen, startup, name)
        directory = RunDir.open(self.directory.path / name)
        evaluation_envs = EvaluationEnvs(agent.config)
        last.callback(evaluation_envs.close)
        try:
            return Run(
                agent, self.envs[name], directory, display, stop, evaluation_envs, self.on_tick,
                scheduler=scheduler, exchanges=exchanges, **more,
            ).go()  # fmt: skip
        except RlCoreError as error:
            display.line(f"failed: {error}")
            return error
        finally:
            if exchanges is not None:
                exchanges.leave()


def envs_of(configs: Mapping[str, DqnConfig], last: contextlib.ExitStack) -> dict[str, Envs]:
    """Makes the envs of these members; the stack closes them. Only the first one's are checked.

    Raises:
      RlCoreError: this process may not open as many files as the members need.
    """
    each = sum(_FILES_OF_A_RUN + _connections(config) for config in configs.values())
    make_room_for_files(each, f"a population of {len(configs):,} members")
    made: dict[str, Envs] = {}
    for name, config in configs.items():
        made[name] = training_envs(config, check=config.check_env and not made)
        last.callback(made[name].close)
    return made


def _connections(config: DqnConfig) -> int:
    return config.num_envs if config.vectorization != "sync" else 0


def population_of(
    configs: Mapping[str, DqnConfig], envs: Mapping[str, Envs], last: contextlib.ExitStack
) -> Population:
    """Makes the agents of these members; the stack closes them."""
    first = next(iter(configs))
    arguments = arguments_for(configs[first], envs[first])
    population = Population([*configs.values()], **arguments)
    last.callback(population.close)
    return population
