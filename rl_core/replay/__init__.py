"""Replay: rows as variables in the graph."""

from rl_core.replay.contents import ReplayContents
from rl_core.replay.memory import check_memory, format_bytes
from rl_core.replay.uniform import Rows, Transitions, UniformReplay

__all__ = [
    "ReplayContents",
    "Rows",
    "Transitions",
    "UniformReplay",
    "check_memory",
    "format_bytes",
]
