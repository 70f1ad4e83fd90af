"""Side-by-side timing on a noisy machine: rounds of A B C A B C ..., medians, ratios."""

import statistics
import time
from collections.abc import Callable, Mapping


def seconds_of(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def interleaved(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every work in every round, after one round of warm-up."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds_of(work))
    return times


def ratio(times: Mapping[str, list[float]], of: str, to: str) -> float:
    """Median over the rounds of time(of) / time(to); printed with its extremes."""
    ratios = [a / b for a, b in zip(times[of], times[to], strict=True)]
    middle = statistics.median(ratios)
    print(f"\n{of} / {to}: {middle:.3f} (min {min(ratios):.3f}, max {max(ratios):.3f})")
    return middle
