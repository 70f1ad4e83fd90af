"""From workers to numbers: the best setting of each, rounds of pairs side by side, ratios."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.benchmarks.scenarios.kinds import LESS_IS_BETTER, Scenario
from tests.benchmarks.workers import Process, Round

_PROBES = 2
_MORE_PROBES = 3  # of settings that tie with the best so far
_TIE = 0.1


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
        case "MB":
            return of["private"] / 1e6
    raise ValueError(f"no quantity {quantity!r}")


def spread(quantity: str, of: Sequence[Round], to: Sequence[Round] | None = None) -> Spread:
    """Of the rounds' values, or of their ratios to those of the same rounds of another."""
    values = [value(quantity, r) for r in of]
    if to is not None:
        values = [a / value(quantity, r) for a, r in zip(values, to, strict=True)]
    return Spread(statistics.median(values), min(values), max(values))


def total(turns: Sequence[Round]) -> Round:
    """One round of several turns: what they did adds up, their memory does not."""
    return {
        name: (max if name == "private" else sum)(turn[name] for turn in turns) for name in turns[0]
    }


class Measured(NamedTuple):
    """What was measured, as JSON has it.

    Attributes:
      workers: label -> its setting, its rounds, and more.
      pairs: (of, to) -> of each round the two that were side by side.
    """

    workers: dict[str, dict[str, Any]]
    pairs: dict[tuple[str, str], list[list[Round]]]


def measure(
    scenario: Scenario,
    groups: Mapping[str, Sequence[Process]],
    rounds: int,
    found: Measured,
) -> None:
    """Measures every worker, and those of a bar side by side, now the one first, now the other.

    Args:
      groups: label -> a process for each of its settings, ready.
      found: gets the rounds, after those that it has.
    """
    chosen: dict[str, Process] = {}
    for label, processes in groups.items():
        chosen[label], setting = _best(scenario, processes)
        found.workers[label] = {"rounds": []} | found.workers.get(label, {}) | setting
    counts = {label: process.count_for(scenario.seconds) for label, process in chosen.items()}
    sides = dict.fromkeys((bar.of, bar.to) for bar in scenario.bars)
    pairs = [pair for pair in sides if set(pair) <= chosen.keys()]
    alone = [(label,) for label in chosen if not any(label in pair for pair in pairs)]
    for number in range(rounds):
        for place, labels in enumerate([*pairs, *alone]):
            turns: dict[str, list[Round]] = {label: [] for label in labels}
            for turn in range(scenario.turns):
                for label in labels if (number + place + turn) % 2 == 0 else labels[::-1]:
                    turns[label].append(chosen[label].run(counts[label]))
            done = [total(turns[label]) for label in labels]
            for label, of_round in zip(labels, done, strict=True):
                found.workers[label]["rounds"].append(of_round)
            if len(labels) == 2:
                found.pairs.setdefault(labels, []).append(done)
    for label, process in chosen.items():
        found.workers[label] |= process.about


def _best(scenario: Scenario, processes: Sequence[Process]) -> tuple[Process, dict[str, Any]]:
    """The fastest, tried in turn, those near it more often; the others are closed."""
    if len(processes) == 1:
        return processes[0], {"setting": processes[0].setting, "tried": []}
    choose = min if scenario.quantity in LESS_IS_BETTER else max
    counts = [process.count_for(scenario.seconds / 2) for process in processes]
    tried: list[list[Round]] = [[] for _ in processes]

    def probe(numbers: Sequence[int], times: int) -> list[float]:
        for _ in range(times):
            for i in numbers:
                tried[i].append(processes[i].run(counts[i]))
        return [spread(scenario.quantity, of).median for of in tried]

    speeds = probe(range(len(processes)), _PROBES)
    best = choose(speeds)
    near = [i for i, speed in enumerate(speeds) if abs(speed - best) < _TIE * best]
    if len(near) > 1:
        speeds = probe(near, _MORE_PROBES)
    fastest = processes[speeds.index(choose(speeds))]
    for process in processes:
        if process is not fastest:
            process.close()
    listed = [
        {"setting": process.setting, "median": speed}
        for process, speed in zip(processes, speeds, strict=True)
    ]
    return fastest, {"setting": fastest.setting, "tried": listed}
