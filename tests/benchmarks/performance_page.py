"""The page of speeds: Markdown, the same for the same JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.benchmarks.rounds import Spread, spread
from tests.benchmarks.scenarios.kinds import LESS_IS_BETTER

_INTRODUCTION = """# Performance: {processors}

This is docs/results/{name}, made by

```
python -m tests.benchmarks.performance --page docs/results/performance.md
```

[How speed is measured](performance.md) has the method. Every worker is a process of its own,
pinned to the same cores. A ratio is the median of the rounds, with the least and the most; below
10 % it is a tie.

- *Setting* is what was fastest in short trials: threads (one, two, all cores) and, for the JAX
  sides, XLA's flags. In brackets is what it and the others reached there.
- *Turns* are the rounds of a worker: one for each of its ratios.
- *By its best probe* is the ratio if the other side had reached in the rounds what it reached in
  its best trial.
- *Memory* is what a worker has to itself after the last round, plus the files that processes
  share, and the most of both at any time, compiling included.
- *Cores* are those that a worker may use.

The JAX scripts run as they are, and compile again in each round, outside their clock. For the
per-step and the compiled script the time is the median of several windows, for all others all of
a turn. SBX has XLA's own flags. Ours has its own, but in `compiled`, where both are tried."""

_HEADS = {
    "env steps/s": "env steps per second",
    "updates/s": "updates per second",
    "us/update": "microseconds per update",
    "us": "microseconds",
    "s": "seconds",
    "MB": "megabytes of its own",
}


def as_markdown(results: Mapping[str, Any], name: str) -> str:
    """The whole page of that name; `results` is what performance.json holds."""
    scenarios, earlier = results["scenarios"], results.get("earlier", {})
    processors = "; ".join(dict.fromkeys(s["made"]["cpu"] for s in scenarios.values()))
    introduction = _INTRODUCTION.format(processors=processors, name=name)
    parts = [introduction, "## Goals", _all_bars(scenarios)]
    for name, scenario in scenarios.items():
        parts += [f"## {name}: {scenario['title']}", _made(scenario["made"])]
        parts += [scenario["note"]] if scenario["note"] else []
        parts += [_workers(scenario), *_skipped(scenario)]
        parts += [_bars(scenario, earlier.get(name, []))] if scenario["bars"] else []
        parts += _floating(scenario)
    return "\n\n".join(parts) + "\n"


def as_sitting(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a scenario that is measured again: when it was made, and its ratios."""
    found = [(bar, spread_of(scenario, bar)) for bar in scenario["bars"]]
    return {
        "date": scenario["made"]["date"],
        "commit": scenario["made"]["commit"],
        "bars": [[bar["of"], bar["to"], *measured] for bar, measured in found if measured],
    }


def bar_line(scenario: Mapping[str, Any], bar: Mapping[str, Any]) -> str:
    """A ratio in one line, as the terminal shows it."""
    what, wanted, measured, met = bar_cells(scenario, bar)
    return f"{what}: {measured}" + (f"; wanted {wanted}: {met}" if met else "")


def bar_cells(scenario: Mapping[str, Any], bar: Mapping[str, Any]) -> list[str]:
    """What, wanted, measured, and whether it is met: by the median."""
    what = f"{bar['of']} / {bar['to']}" if bar["to"] else bar["of"]
    unit = "" if bar["to"] else " " + scenario["quantity"]
    least, most = bar["least"], bar["most"]
    wanted = ""
    if least is not None:
        wanted = f">= {_short(least)}{unit}"
    elif most is not None:
        wanted = f"<= {_short(most)}{unit}"
    found = spread_of(scenario, bar)
    if found is None:
        return [what, wanted, "not measured", "not measured" if wanted else ""]
    met = found.median >= least if least is not None else most is None or found.median <= most
    # Rounded to two digits, a median that just misses its mark would stand there as if it met it.
    shown = float(f"{found.median:.2f}")
    hides = wanted and not met and (shown >= least if least is not None else shown <= most)
    digits = 3 if hides else 2
    measured = f"{found.median:.{digits}f} ({found.low:.2f} to {found.high:.2f}){unit}"
    if not wanted:
        return [what, "", measured, ""]
    return [what, wanted, measured, "met" if met else "**not met**"]


def spread_of(scenario: Mapping[str, Any], bar: Mapping[str, Any]) -> Spread | None:
    """What was measured of a bar; None: nothing."""
    quantity = scenario["quantity"]
    if bar["to"]:
        return spread(quantity, *zip(*bar["pairs"], strict=True)) if bar["pairs"] else None
    worker = scenario["workers"][bar["of"]]
    return None if "skipped" in worker else spread(quantity, worker["rounds"])


def _all_bars(scenarios: Mapping[str, Any]) -> str:
    rows = [
        [name, *bar_cells(scenario, bar)]
        for name, scenario in scenarios.items()
        for bar in scenario["bars"]
        if bar["least"] is not None or bar["most"] is not None
    ]
    met = sum(row[-1] == "met" for row in rows)
    table = as_table(["scenario", "ratio", "wanted", "measured", ""], rows)
    return f"{met} of {len(rows)} goals are met.\n\n{table}"


def _made(made: Mapping[str, Any]) -> str:
    cores = f"{made['cores']} core" + ("s" if made["cores"] != 1 else "")
    return (
        f"```\n{made['command']}\n```\n\n{made['rounds']} rounds on {cores} ({made['cpu']}; "
        f"{made['date']}, commit {made['commit']})."
    )


def _workers(scenario: Mapping[str, Any]) -> str:
    quantity = scenario["quantity"]
    head = ["", _HEADS[quantity], "least", "most", "turns", "cores", "per core", "setting"]
    rows = []
    for label, worker in scenario["workers"].items():
        if "skipped" in worker:
            continue
        found = spread(quantity, worker["rounds"])
        # A time or a memory does not become less by a share of a core.
        each = "-" if quantity in LESS_IS_BETTER else _speed(found.median / worker["cores"])
        cores = [str(len(worker["rounds"])), str(worker["cores"]), each]
        cells = [_setting(worker), _memory(scenario, worker), _versions(worker)]
        rows.append([label, *(_speed(x) for x in found), *cores, *cells])
    return as_table([*head, "memory", "versions"], rows)


def _skipped(scenario: Mapping[str, Any]) -> list[str]:
    return [
        f"{label}: not measured ({worker['skipped']})."
        for label, worker in scenario["workers"].items()
        if "skipped" in worker
    ]


def _bars(scenario: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> str:
    bars = scenario["bars"]
    rows = [[*bar_cells(scenario, bar), _by_best_probe(scenario, bar)] for bar in bars]
    head = ["ratio", "wanted", "median (least to most)", "", "by its best probe"]
    for sitting in earlier:
        head.append(f"{sitting['date']}, {sitting['commit']}")
        found = {(of, to): Spread(*measured) for of, to, *measured in sitting["bars"]}
        for bar, row in zip(bars, rows, strict=True):
            was = found.get((bar["of"], bar["to"]))
            row.append(f"{was.median:.2f} ({was.low:.2f} to {was.high:.2f})" if was else "")
    # Columns that say nothing are left out.
    kept = [i for i in range(len(head)) if i < 3 or any(row[i] for row in rows)]
    return as_table([head[i] for i in kept], [[row[i] for i in kept] for row in rows])


def ratio_to_their_best(scenario: Mapping[str, Any], bar: Mapping[str, Any]) -> float:
    """The ratio to the other side's median or to its best probe, whichever is the faster of them.

    `bar` has been measured and has another side.
    """
    found = spread_of(scenario, bar)
    assert found is not None
    if scenario["quantity"] in LESS_IS_BETTER:
        return found.median
    theirs = spread(scenario["quantity"], [pair[1] for pair in bar["pairs"]]).median
    tried = scenario["workers"][bar["to"]]["tried"]
    best = max((probe["median"] for probe in tried), default=0.0)
    return found.median * min(1.0, theirs / best if best else 1.0)


def _by_best_probe(scenario: Mapping[str, Any], bar: Mapping[str, Any]) -> str:
    """The ratio to what the other side reached in any probe, if that is more than in the rounds."""
    found = spread_of(scenario, bar)
    if found is None or not bar["to"]:
        return ""
    to_best = ratio_to_their_best(scenario, bar)
    return f"{to_best:.2f}" if to_best < found.median else ""


def _floating(scenario: Mapping[str, Any]) -> list[str]:
    """Returns what products alone come to, in a line."""
    lines = []
    for label, worker in scenario["workers"].items():
        if flops := worker.get("flops"):
            seconds = spread("us/update", worker["rounds"]).median / 1e6
            lines.append(f"{label}: {flops / 1e6:,.2f} MFLOP, {flops / seconds / 1e9:,.0f} GFLOP/s")
    return [". ".join(lines) + "."] if lines else []


def _setting(worker: Mapping[str, Any]) -> str:
    """Threads and whatever else was chosen, and what every setting came to in its probes."""
    chosen, tried = worker["setting"], worker["tried"]
    first = sorted(tried, key=lambda probe: probe["setting"] != chosen)
    probes = [f"{_words(probe['setting'])}: {_speed(probe['median'])}" for probe in first]
    return _words(chosen) + (f" (in probes {'; '.join(probes)})" if len(tried) > 1 else "")


def _words(setting: Mapping[str, Any]) -> str:
    rest = [str(v) for name, v in setting.items() if name != "threads"]
    threads = setting["threads"]
    return ", ".join([*rest, f"{threads} thread" + ("s" if threads != 1 else "")])


def _memory(scenario: Mapping[str, Any], worker: Mapping[str, Any]) -> str:
    # A command's memory is not its worker's.
    if scenario["quantity"] == "s":
        return "-"
    names = "private", "files", "peak"
    private, files, peak = (worker["memory"][name] / 1e6 for name in names)
    return f"{private:,.0f} + {files:,.0f} MB, at most {peak:,.0f}"


def _versions(worker: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in worker["versions"].items())


def _speed(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def _short(x: float) -> str:
    return f"{x:.3g}"


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
