"""Replay: rows as variables in the graph.

Imports: rl_core.errors, rl_core.graph, rl_core.memory, rl_core.random.
"""

from rl_core.memory import check_memory, format_bytes
from rl_core.replay.contents import ReplayContents
from rl_core.replay.prioritized import PrioritizedReplay
from rl_core.replay.rows import Rows
from rl_core.replay.uniform import Transitions, UniformReplay

__all__ = [
    "PrioritizedReplay",
    "ReplayContents",
    "Rows",
    "Transitions",
    "UniformReplay",
    "check_memory",
    "format_bytes",
]
