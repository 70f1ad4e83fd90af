"""Agents that tests lend to one another.

Building an agent and its calls takes seconds of work, and resetting it some thousandths. So a test
borrows an idle agent of the form that it needs, which `DqnAgent.reset` makes the one of its config,
or else a new one. Two agents in one test are always two, and the agent of a run is free again when
the run has ended: a resume or a repeat in the same test builds none.

A test that replaces something that builds, or is about building, asks for `own_agents`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from targetnet.agents.config.files import MAY_CHANGE
from targetnet.agents.config.live_values import live_knobs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.agent_factory import arguments_for
from targetnet.agents.run.outcome import RunOutcome
from targetnet.agents.run.run import Run
from targetnet.envs import Envs

_AT_MOST = 40  # idle agents; the one that waited longest is closed first
_BYTES_AT_MOST = 2_000_000  # of variables: a larger agent is not kept


class Pool:
    """Lends agents while it is open.

    Attributes:
      built, lent_again: how many new agents it lent, and how many that were reset.
    """

    def __init__(self) -> None:
        self.built = self.lent_again = 0
        self._idle: list[tuple[str, DqnAgent]] = []
        self._lent: list[tuple[str, DqnAgent]] = []
        self._open = False

    @contextlib.contextmanager
    def open(self, is_open: bool = True) -> Iterator[None]:
        """Lends; or, closed, builds agents that stay whose they are."""
        before, self._open = self._open, is_open
        try:
            yield
        finally:
            self._open = before

    def agent(self, config: DqnConfig, *args: Any, **how: Any) -> DqnAgent:
        """Returns an agent as `DqnAgent` would be built."""
        # A network of one's own may be another one next time.
        if not self._open or ":" in config.network:
            return DqnAgent(config, *args, **how)
        rules = type(how.get("rules"))
        key = _form(config) + repr((args, rules, sorted((how | {"rules": None}).items())))
        idle = next((of for of in self._idle if of[0] == key), None)
        if idle is not None:
            self._idle.remove(idle)
            idle[1].reset(config)
            self.lent_again += 1
        else:
            idle = key, DqnAgent(config, *args, **how)
            # Later resets copy the parts that it was built with: no test may have changed them.
            idle[1].reset()
            self.built += 1
        self._lent.append(idle)
        return idle[1]

    def take_back(self, agent: DqnAgent | None = None) -> None:
        """Takes back an agent, or all that were lent."""
        back = [of for of in self._lent if agent is None or of[1] is agent]
        self._lent = [of for of in self._lent if of not in back]
        self._idle += [of for of in back if _nbytes(of[1]) <= _BYTES_AT_MOST]
        while len(self._idle) > _AT_MOST:
            self._idle.pop(0)[1].close()


def _form(config: DqnConfig) -> str:
    """Returns all of a config that a reset may not change."""
    free = {"seed", *MAY_CHANGE, *(knob.name for knob in live_knobs(config))}
    return repr((config.longest_step, [(name, of) for name, of in config if name not in free]))


def _nbytes(agent: DqnAgent) -> int:
    variables = agent.engine.graph.get_collection("variables")
    return sum(v.shape.num_elements() * v.dtype.size for v in variables)


POOL = Pool()


def lent_for(config: DqnConfig, envs: Envs) -> DqnAgent:
    """Returns an agent as `agent_for` would build it."""
    return POOL.agent(config, **arguments_for(config, envs))


class PooledRun(Run):
    """A run that gives its agent back when it has ended."""

    def __init__(self, agent: DqnAgent, *args: Any, **how: Any) -> None:
        self._agent = agent
        super().__init__(agent, *args, **how)

    def go(self) -> RunOutcome:
        try:
            return super().go()
        finally:
            POOL.take_back(self._agent)
