"""Which loop a config trains in.

    plain       one item per time step, exactly the classical order      agents.runner
    concurrent  envs are stepped while updates are made                   agents.concurrent
    compiled    envs in the graph, many time steps in one call            agents.compiled

Imports: agents, envs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agents.compiled import compiled_loop, longest_chunk
from agents.concurrent import concurrent_loop, longest_phase
from agents.dqn import DqnAgent
from agents.runner import LoopState, Tick, training_loop
from envs import Envs

Loop = Callable[[DqnAgent, Envs, LoopState | None], Iterator[Tick]]
LOOPS: dict[str, Loop] = {
    "plain": training_loop,
    "concurrent": concurrent_loop,
    "compiled": compiled_loop,
}


def longest_tick(agent: DqnAgent) -> int:
    """Time steps from one safe point to the next, at most."""
    match agent.config.loop:
        case "concurrent":
            return longest_phase(agent)
        case "compiled":
            return longest_chunk(agent)
    return 1
