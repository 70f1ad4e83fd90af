"""Replay: rows as variables in the graph.

    rows.py         a ring of declared columns
    valid_rows.py   the ring, and a queue of the rows that may be sampled
    samplers.py     which rows a batch begins at: uniform, or passes over all in random order
    prioritized.py  the prioritized one, on a sum_tree.py
    items.py        what a batch consists of: n-step transitions
    sequences.py    items of a recurrent network: rows one after the other
    memory.py       all three as one
    contents.py     rows as arrays, for checkpoints and digests

Imports: rl_core.digest, rl_core.errors, rl_core.graph, rl_core.machine, rl_core.random.
"""

from targetnet.rl_core.machine import check_memory, format_bytes
from targetnet.rl_core.replay.contents import ReplayContents
from targetnet.rl_core.replay.items import Items, NStepTransitions, Transitions
from targetnet.rl_core.replay.memory import ReplayMemory
from targetnet.rl_core.replay.prioritized import PrioritizedSampler
from targetnet.rl_core.replay.rows import (
    Column,
    RowChecksum,
    Rows,
    joined_frames,
    newest_frame,
    transition_columns,
)
from targetnet.rl_core.replay.samplers import DrawnRows, EpochSampler, Sampler, UniformSampler
from targetnet.rl_core.replay.sequences import STATE, Sequences, StoredSequences
from targetnet.rl_core.replay.valid_rows import ValidRows

__all__ = [
    "STATE",
    "Column",
    "DrawnRows",
    "EpochSampler",
    "Items",
    "NStepTransitions",
    "PrioritizedSampler",
    "ReplayContents",
    "ReplayMemory",
    "RowChecksum",
    "Rows",
    "Sampler",
    "Sequences",
    "StoredSequences",
    "Transitions",
    "UniformSampler",
    "ValidRows",
    "check_memory",
    "format_bytes",
    "joined_frames",
    "newest_frame",
    "transition_columns",
]
