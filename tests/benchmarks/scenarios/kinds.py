"""What a comparison is: its workers, what is counted, what is wanted of the ratios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALL = "all"  # of the cores that are given
Setting = Mapping[str, Any]

# What is compared, from what a round counts.
QUANTITIES = ("env steps/s", "updates/s", "us/update", "us", "s", "MB")
LESS_IS_BETTER = ("us/update", "us", "s", "MB")


@dataclass(frozen=True)
class Worker:
    """One side of a comparison.

    Attributes:
      program: its script is peers/<program>_worker.py.
      setup: what the script is told.
      venv: its environment; "" is ours.
      tried: settings over `setup`, of which the fastest is kept. Its "threads" are also the
        cores that it is pinned to; "with" "oneDNN" has TensorFlow use it; "flags" are XLA's: "ours"
        or "XLA's own".
      cores: how many it may use, if not as many as threads.
      updates: that it must make for each env step, or, without env steps, for each that is
        asked for.
      slack: updates by which the number may differ, where a phase hangs over a round's end.
      count: asked for in each round; None: as many as take the round's seconds.
      arguments: that the script is started with.
    """

    program: str
    setup: Mapping[str, Any]
    venv: str = ""
    tried: tuple[Setting, ...] = ({"threads": 1},)
    cores: int | None = None
    updates: float = 0.0
    slack: int = 0
    count: int | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bar:
    """What is wanted: the median over rounds of quantity(of) / quantity(to); `to` "" is 1."""

    of: str
    to: str = ""
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Scenario:
    """A comparison.

    Attributes:
      seconds: of a turn of one worker.
      turns: of each in a round, which is their sum. More than one where the difference is small:
        how fast a machine is changes within seconds.
      fresh: whether each round has processes of its own: two of the same kind differ by a percent
        or two, by where things happen to lie in their memory.
    """

    name: str
    title: str
    quantity: str
    workers: Mapping[str, Worker]
    bars: tuple[Bar, ...] = ()
    seconds: float = 2.0
    turns: int = 1
    fresh: bool = False
    note: str = ""


PEER: tuple[Setting, ...] = ({"threads": 1}, {"threads": 2}, {"threads": ALL})
_FLAGS = ("XLA's own", "ours")
JAX = tuple({"flags": flags, **setting} for flags in _FLAGS for setting in PEER)

# A worker of ours whose work is not equal, and what its page says of it.
BFLOAT16 = "ours, in bfloat16"
NOT_EQUAL = " In bfloat16 our convolutions round to 8 bits, and those of the other side do not."
