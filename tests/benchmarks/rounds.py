"""From workers to numbers: the best setting of each, rounds of A B C A B C ..., ratios."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.benchmarks.scenarios import LESS_IS_BETTER, Scenario
from tests.benchmarks.workers import Process, Round

_PROBES = 2


class Spread(NamedTuple):
    """Over the rounds."""

    median: float
    low: float
    high: float


def value(quantity: str, of: Mapping[str, Any]) -> float:
    """What a round's counts come to."""
    match quantity:
        case "env steps/s":
            return of["env_steps"] / of["seconds"]
        case "updates/s":
            return of["updates"] / of["seconds"]
        case "us/update":
            return 1e6 * of["seconds"] / of["updates"]
        case "us":
            return 1e6 * of["seconds"] / (of["env_steps"] or of["updates"])
        case "s":
            return of["seconds"]
    raise ValueError(f"no quantity {quantity!r}")


def spread(quantity: str, of: Sequence[Round], to: Sequence[Round] | None = None) -> Spread:
    """Of the rounds' values, or of their ratios to those of the same rounds of another."""
    values = [value(quantity, r) for r in of]
    if to is not None:
        values = [a / value(quantity, r) for a, r in zip(values, to, strict=True)]
    return Spread(statistics.median(values), min(values), max(values))


def total(turns: Sequence[Round]) -> Round:
    """One round of several turns."""
    return {name: sum(turn[name] for turn in turns) for name in turns[0]}


def measure(
    scenario: Scenario,
    groups: Mapping[str, Sequence[Process]],
    rounds: int,
    seconds: float,
) -> dict[str, dict[str, Any]]:
    """Every worker's numbers, as JSON has them.

    Args:
      groups: label -> a process for each of its settings, ready.
      seconds: of a worker's turn.
    """
    result: dict[str, dict[str, Any]] = {}
    chosen: dict[str, Process] = {}
    for label, processes in groups.items():
        chosen[label], result[label] = _best(scenario.quantity, processes, seconds)
    counts = {label: process.count_for(seconds) for label, process in chosen.items()}
    for _ in range(rounds):
        turns: dict[str, list[Round]] = {label: [] for label in chosen}
        for _ in range(scenario.turns):
            for label, process in chosen.items():
                turns[label].append(process.run(counts[label]))
        for label, of_round in turns.items():
            result[label]["rounds"].append(total(of_round))
    for label, process in chosen.items():
        result[label] |= {"peak_rss_bytes": process.peak_rss_bytes, "versions": process.versions}
    return result


def _best(
    quantity: str, processes: Sequence[Process], seconds: float
) -> tuple[Process, dict[str, Any]]:
    """The fastest, tried in turn; the others are closed."""
    tried: list[list[Round]] = [[] for _ in processes]
    if len(processes) > 1:
        counts = [process.count_for(seconds / 2) for process in processes]
        for _ in range(_PROBES):
            for process, count, found in zip(processes, counts, tried, strict=True):
                found.append(process.run(count))
    speeds = [spread(quantity, found).median if found else 0.0 for found in tried]
    choose = min if quantity in LESS_IS_BETTER else max
    best = speeds.index(choose(speeds))
    for process in processes:
        if process is not processes[best]:
            process.close()
    listed = [
        {"setting": process.setting, "median": speed}
        for process, speed in zip(processes, speeds, strict=True)
        if len(processes) > 1
    ]
    return processes[best], {"setting": processes[best].setting, "tried": listed, "rounds": []}


@contextlib.contextmanager
def closing_all(groups: Mapping[str, Sequence[Process]]) -> Any:
    try:
        yield
    finally:
        for processes in groups.values():
            for process in processes:
                process.close()
