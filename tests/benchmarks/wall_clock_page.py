"""The page of wall clocks: Markdown, the same for the same rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.results.page import in_toml
from targetnet.rl_core.errors import RlCoreError

Row = Mapping[str, Any]

NAMES = {
    "ours": "ours",
    "sb3": "Stable-Baselines3",
    "sbx": "SBX",
    "cleanrl-jax": "CleanRL's DQN in JAX",
}
_COMMAND = "python -m tests.benchmarks.wall_clock"
_SAME_FOR_ALL = ("mark", "period", "episodes", "env_steps")

_LEAD = """# How long until it plays well

Seconds from the start of a process to its first greedy evaluation whose mean return reaches the
env's mark. [At the end](#how-it-was-made) it says what each side had."""
_FOUND = "With what an earlier process had compiled and stored:"
_METHOD = """## How it was made

Made by

```
{command}
```

on {processors}; {conditions}.

Time is that of the wall clock, from the start of a process (its imports and all that it compiles
count) to the end of the first greedy evaluation whose mean return reaches the env's mark. The
evaluations are part of the wait, and the same for all: as often, as many episodes, ten envs at a
time. *Without evaluations* leaves them out. A seed is a process of its own, and one of ours is a
whole run, with its checkpoints and curves. Each compiles what it needs, unless a table says that
what an earlier process had compiled was stored (ours and JAX have such a cache, PyTorch compiles
nothing). Ours is the shipped config of each env, tuned on seeds below 1000; SB3 has the settings of
rl-baselines3-zoo for each env. Schedules keep the length that they have there, though a run may be
longer.

A seed that does not reach the mark counts as one that takes for ever: the median, the least and the
most are over all seeds, and where half of them or more fail, the median is *never*.

SBX has no settings of its own and is used with those of rl-baselines3-zoo, as its guide says.
CleanRL's is a script of our own with that one's network, settings and loop, and without what it
imports beside JAX; it publishes one set, made for CartPole, which all envs have here. The command
sets OMP_NUM_THREADS=1 for every process, so torch has one thread, and was not measured with more;
XLA's threads are not limited by that. The peers' envs are as gymnasium.make makes them; ours has no
checker, which looks at an env's first step alone, and a quicker `contains` of the actions.{remark}
{at_once}"""
_AT_ONCE = """
*Several at once* is for a batch of seeds: all wait until the last process has ended.
"""


def as_markdown(rows: Sequence[Row], options: str = "") -> str:
    """Returns the whole page.

    Args:
      options: of every command that made it, such as "--rows FOLDER".

    Raises:
      RlCoreError: rows of one table were measured in different ways.
    """
    alone = [row for row in rows if row["jobs"] == 1]
    together = [row for row in rows if row["jobs"] > 1]
    parts = [_LEAD]
    for env_id, of_env in _by(alone, lambda row: row["asked"]["env_id"]).items():
        cold, warm = (
            [row for row in of_env if row["warm"] == is_warm] for is_warm in (False, True)
        )
        parts += [f"## {env_id}", _wanted(of_env)]
        parts += [_table(cold)] if cold else []
        parts += [_FOUND, _table(warm)] if warm else []
        parts += _settings(of_env)
    for jobs, of_jobs in sorted(_by(together, lambda row: row["jobs"]).items()):
        parts += [f"## Several at once: {jobs}", f"{_when(of_jobs)}.{_remark(of_jobs)}"]
        for env_id, of_env in _by(of_jobs, lambda row: row["asked"]["env_id"]).items():
            parts += [f"### {env_id}, {jobs} at once", _wanted(of_env), _batches(of_env)]
            parts += [text for text in _settings(of_env) if text not in parts]
    parts.append(_method(rows, options))
    return "\n\n".join(parts) + "\n"


def _method(rows: Sequence[Row], options: str) -> str:
    kinds = _by(rows, lambda row: (row["jobs"], row["warm"]))
    commands = [
        _command(jobs, warm, own, rows, options) for (jobs, warm), own in sorted(kinds.items())
    ]
    alone = [row for row in rows if row["jobs"] == 1]
    return _METHOD.format(
        command="\n".join(commands),
        processors="; ".join(_different(rows, "processor")),
        conditions=_when(alone or rows),
        remark=_remark(alone),
        at_once=_AT_ONCE if len(alone) < len(rows) else "",
    ).rstrip("\n")


def _when(rows: Sequence[Row]) -> str:
    dates = _different(rows, "date")
    span = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    return f"{span}, commit {', '.join(_different(rows, 'commit'))}"


def _remark(rows: Sequence[Row]) -> str:
    """Returns what was noted of the machine meanwhile, in paragraphs; "" for nothing."""
    return "".join(f"\n\n{remark}" for remark in _different(rows, "remark") if remark)


def _command(jobs: int, warm: bool, own: Sequence[Row], rows: Sequence[Row], options: str) -> str:
    """Returns the command that measured some of the rows."""
    words = [_COMMAND, *options.split()]
    envs = [list(_by(some, lambda row: row["asked"]["env_id"])) for some in (own, rows)]
    libraries = [list(_by_library(some)) for some in (own, rows)]
    for option, (here, all_of_them) in (("--envs", envs), ("--only", libraries)):
        words += [option, *here] if set(here) < set(all_of_them) else []
    words += ["--jobs", str(jobs)] if jobs > 1 else []
    words += ["--warm"] if warm else []
    return " ".join(words)


def _wanted(rows: Sequence[Row]) -> str:
    asked = rows[0]["asked"]
    for name in _SAME_FOR_ALL:
        if len({row["asked"][name] for row in rows}) > 1:
            raise RlCoreError(
                f"rows of {asked['env_id']} have different {name}: keep them in different --rows"
            )
    seeds = sorted({row["asked"]["seed"] for row in rows})
    return (
        f"A mean return of {asked['mark']:g} in {asked['episodes']} greedy episodes, tried every "
        f"{asked['period']:,} env steps, and at most until env step {asked['env_steps']:,}. Seeds "
        f"{seeds[0]} to {seeds[-1]}."
    )


def _table(rows: Sequence[Row]) -> str:
    head = ["", "reached", "median", "least", "most", "without evaluations", "env steps", "updates"]
    body = []
    for library, own in _by_library(rows).items():
        seconds = [_until(row, "seconds") for row in own]
        rest = [_until(row, "seconds") - row["evaluating"] for row in own]
        cells = [statistics.median(seconds), min(seconds), max(seconds), statistics.median(rest)]
        counts = [
            statistics.median(_until(row, name) for row in own) for name in ("env_steps", "updates")
        ]
        body.append([NAMES[library], _reached(own), *map(_seconds, cells), *map(_count, counts)])
    return _markdown(head, body)


def _batches(rows: Sequence[Row]) -> str:
    head = ["", "reached", "until all have", "all have ended after", "median of one"]
    body = []
    for library, own in _by_library(rows).items():
        whole = len({row["sitting"] for row in own}) == 1
        took = max(row["began"] + row["seconds"] for row in own) - min(row["began"] for row in own)
        all_reached = took if all(row["reached"] for row in own) else math.inf
        ends = [_seconds(all_reached), _seconds(took)] if whole else ["not in one go"] * 2
        median = statistics.median(_until(row, "seconds") for row in own)
        body.append([NAMES[library], _reached(own), *ends, _seconds(median)])
    return _markdown(head, body)


def _settings(rows: Sequence[Row]) -> list[str]:
    """Folded up: of each library the settings, where they are from, and versions.

    Of ours those that are not the defaults.
    """
    found, defaults_of_ours = [], DqnConfig().model_dump(mode="json")
    for library, own in _by_library(rows).items():
        first = own[0]
        env_id, source = first["asked"]["env_id"], first["source"]
        linked = f"<{source}>" if source.startswith("https:") else f"`{source}`"
        defaults = " The rest are the library's defaults." if library in ("sb3", "sbx") else ""
        versions = "; ".join(
            dict.fromkeys(
                ", ".join(f"{name} {number}" for name, number in row["versions"].items())
                for row in own
            )
        )
        settings = first["settings"]
        if library == "ours":
            settings = {
                n: v for n, v in settings.items() if n == "env_id" or v != defaults_of_ours.get(n)
            }
        lines = "\n".join(f"{name} = {in_toml(v)}" for name, v in settings.items())
        found.append(
            f"<details><summary>{NAMES[library]} on {env_id}: settings</summary>\n\nFrom {linked}"
            f".{defaults} With {versions}.\n\n```toml\n{lines}\n```\n\n</details>"
        )
    return found


def _by(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _by_library(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups = _by(rows, lambda row: row["library"])
    return {library: groups[library] for library in NAMES if library in groups}


def _different(rows: Sequence[Row], name: str) -> list[str]:
    return sorted({row[name] for row in rows})


def _until(row: Row, name: str) -> float:
    """A number of a seed that reached the mark; infinite if it never did."""
    return row[name] if row["reached"] else math.inf


def _reached(rows: Sequence[Row]) -> str:
    return f"{sum(row['reached'] for row in rows)} of {len(rows)}"


def _seconds(x: float) -> str:
    return f"{x:,.1f} s" if math.isfinite(x) else "never"


def _count(x: float) -> str:
    return f"{x:,.0f}" if math.isfinite(x) else "never"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
