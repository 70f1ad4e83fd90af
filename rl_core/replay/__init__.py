"""Replay: rows as variables in the graph."""

from rl_core.replay.memory import check_memory, format_bytes
from rl_core.replay.uniform import Transitions, UniformReplay

__all__ = ["Transitions", "UniformReplay", "check_memory", "format_bytes"]
