"""The tables of speeds in README and docs/results/speed.md, made of what was measured.

python -m tests.benchmarks.readme_tables
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.performance_page import as_table, ratio_to_their_best, spread_of
from tests.benchmarks.scenarios.kinds import BFLOAT16

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PROCESSORS = {"AVX-512": "performance_avx512.json", "AVX2": "performance_avx2.json"}

# What a row says: (scenario, ours, theirs) of each of its ratios.
Row = tuple[str, Sequence[tuple[str, str, str]]]
_K1, _K16 = "ours, K = 1", "ours, K = 16"
README: Sequence[Row] = (
    ("CartPole, one update per env step / Stable-Baselines3", [("CP-A", _K1, "SB3")]),
    (
        "CartPole, 16 updates at once / Stable-Baselines3, 16 at once too",
        [("CP-A", _K16, "SB3, 16 at once")],
    ),
    ("CartPole, one update per env step / a plain JAX script", [("CP-A", _K1, "JAX per step")]),
    (
        "CartPole, MLP 256-256 on one core / CleanRL's JAX DQN on two",
        [("large-mlp", _K1, "CleanRL's JAX DQN")],
    ),
    ("Pong, the whole loop / Stable-Baselines3", [("atari", "ours", "SB3")]),
)
FRAMEWORK: Sequence[Row] = (
    ("one update per env step / Stable-Baselines3", [("CP-A", _K1, "SB3")]),
    ("16 updates at once / Stable-Baselines3", [("CP-A", _K16, "SB3")]),
    (
        "16 updates at once / Stable-Baselines3, SBX, 16 at once too",
        [("CP-A", _K16, "SB3, 16 at once"), ("CP-A", _K16, "SBX, 16 at once")],
    ),
    (
        "concurrent, as many updates as env steps, two cores / Stable-Baselines3",
        [("CP-A", "ours, concurrent", "SB3")],
    ),
    (
        "one update per env step / CleanRL's JAX DQN, our own code after it",
        [("CP-A", _K1, "CleanRL's JAX DQN")],
    ),
    (
        "one update per env step / a JAX script that does only this",
        [("CP-A", _K1, "JAX per step")],
    ),
    ("16 updates at once / a JAX script with 16 at once", [("CP-A", _K16, "JAX, K = 16")]),
    (
        "compiled, 16 and 1,024 envs / a compiled JAX script",
        [(f"compiled-{n}", "ours, compiled", "JAX compiled") for n in (16, 1024)],
    ),
    (
        "updates of prioritized DQN, C51, IQN, Rainbow / Tianshou's",
        [(s, _K1, "Tianshou") for s in ("prioritized-update", "c51", "iqn", "rainbow")],
    ),
)
ARITHMETIC: Sequence[Row] = (
    (
        "MLP 256-256, batch 256, one update per env step / Stable-Baselines3, CleanRL's JAX DQN",
        [("large-mlp", _K1, "SB3"), ("large-mlp", _K1, "CleanRL's JAX DQN")],
    ),
    ("the same, 16 updates at once / CleanRL's", [("large-mlp", _K16, "CleanRL's JAX DQN")]),
    ("updates of the Nature network / Stable-Baselines3", [("nature", _K1, "SB3")]),
    (
        "Pong, the whole loop, plain and concurrent / Stable-Baselines3",
        [("atari", "ours", "SB3"), ("atari", "ours, concurrent", "SB3")],
    ),
    (
        "Nature, Pong, Pong concurrent in bfloat16 / Stable-Baselines3 in float32",
        [
            ("nature", BFLOAT16, "SB3"),
            ("atari", BFLOAT16, "SB3"),
            ("atari", f"{BFLOAT16}, concurrent", "SB3"),
        ],
    ),
    (
        "own memory of a CartPole run, of a replay of Pong / Stable-Baselines3's (less is better)",
        [("memory", "a run of `cartpole`", "SB3"), ("atari-memory", "ours", "SB3")],
    ),
    (
        "from `train` to the first env step / Stable-Baselines3's (less is better)",
        [("start", "targetnet train, to the first env step", "SB3, to the first env step")],
    ),
)


def as_markdown(rows: Sequence[Row], measured: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a table of `rows`; `measured` has the scenarios of each kind of processor."""
    lines = [[what, *(_ratios(of, ratios) for of in measured.values())] for what, ratios in rows]
    return as_table(["ours / theirs", *measured], lines)


def with_ranges(rows: Sequence[Row], scenarios: Mapping[str, Any]) -> str:
    """Returns a table of `rows` with one ratio each: its median, the least and the largest."""
    lines = []
    for what, [(name, of, to)] in rows:
        scenario, bar = scenarios[name], _bar(scenarios[name], of, to)
        ratio, rounds = ratio_to_their_best(scenario, bar), spread_of(scenario, bar)
        assert rounds is not None
        share = ratio / rounds.median  # that their best probe leaves
        spread = f"{rounds.low * share:.2f} to {rounds.high * share:.2f}"
        lines.append([what, f"{ratio:.2f}", spread])
    return as_table(["ours / theirs", "ratio", "range"], lines)


def measured() -> dict[str, Any]:
    """Returns the scenarios of each kind of processor."""
    return {
        processor: json.loads((RESULTS / name).read_text())["scenarios"]
        for processor, name in PROCESSORS.items()
    }


def _ratios(scenarios: Mapping[str, Any], ratios: Sequence[tuple[str, str, str]]) -> str:
    found = []
    for name, of, to in ratios:
        if of not in scenarios[name]["workers"]:
            return "not measured"
        found.append(ratio_to_their_best(scenarios[name], _bar(scenarios[name], of, to)))
    return ", ".join(f"{ratio:.2f}" for ratio in found)


def _bar(scenario: Mapping[str, Any], of: str, to: str) -> Mapping[str, Any]:
    (bar,) = (bar for bar in scenario["bars"] if (bar["of"], bar["to"]) == (of, to))
    return dict(bar)


if __name__ == "__main__":
    print(with_ranges(README, measured()["AVX-512"]), end="\n\n")
    for table in (FRAMEWORK, ARITHMETIC):
        print(as_markdown(table, measured()), end="\n\n")
