"""The loop of a config, by its key `loop`, or without envs if it names a dataset.

plain       one tick per time step, exactly the classical order    targetnet.agents.loops.plain
concurrent  one thread steps the envs, another makes the updates   targetnet.agents.loops.concurrent
compiled    envs in the graph, many time steps in one call         targetnet.agents.loops.compiled
remote      actors step the envs, perhaps on other machines        targetnet.agents.remote.loop
            (run_actors.py beside it registers it here)
offline     updates from a dataset, without envs                   targetnet.agents.loops.plain
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.compiled import compiled_loop, longest_chunk
from targetnet.agents.loops.concurrent import concurrent_loop, longest_phase
from targetnet.agents.loops.plain import LoopState, Tick, offline_loop, training_loop
from targetnet.envs import Envs

Loop = Callable[[DqnAgent, Envs, LoopState | None], Iterator[Tick]]
LOOPS: dict[str, Loop] = {
    "plain": training_loop,
    "concurrent": concurrent_loop,
    "compiled": compiled_loop,
}


def loop_of(config: DqnConfig) -> Loop:
    """Returns the loop that trains an agent of this config."""
    return offline_loop if config.offline else LOOPS[config.loop]


def longest_tick(agent: DqnAgent) -> int:
    """Returns the largest number of time steps between two safe points."""
    match agent.config.loop:
        case "concurrent":
            return longest_phase(agent)
        case "compiled":
            return longest_chunk(agent)
        case "remote":
            return agent.config.delivered_at_once
    return 1
