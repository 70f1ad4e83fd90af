"""The shipped configs learn what docs/results/shipped.md says they learn."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]
JOBS = str(min(4, os.cpu_count() or 1))
VARIANTS = [
    "plain",
    "double",
    "dueling",
    "averaged",
    "soft",
    "munchausen",
    "per",
    "nstep",
    "boltzmann",
    "c51",
    "qrdqn",
    "iqn",
    "noisy",
    "rainbow",
]


def means(tmp_path, seeds, *configs):
    """Config -> mean greedy return of each seed, by the command."""
    command = [
        sys.executable,
        "-m",
        "targetnet.agents.cli",
        "results",
        *configs,
        "--seeds",
        str(seeds),
    ]
    subprocess.run([*command, "--jobs", JOBS, "--out", str(tmp_path)], check=True)
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    return {row["name"]: [seed["mean"] for seed in row["seeds"]] for row in rows}


def test_cartpole_is_solved(tmp_path):
    """By nine seeds of ten: processors round differently."""
    (returns,) = means(tmp_path, 10, "cartpole").values()
    assert sorted(returns)[1] >= 475 and min(returns) >= 450, returns


def test_five_seeds_reach_the_bar(tmp_path):
    bars = {"acrobot": -85, "mountaincar": -112, "lunarlander": 180}
    returns = means(tmp_path, 5, *bars)
    assert {name: np.mean(of) for name, of in returns.items() if np.mean(of) < bars[name]} == {}


def test_every_variant_solves_cartpole(tmp_path):
    returns = means(tmp_path, 3, *(f"cartpole-{variant}" for variant in VARIANTS))
    assert {name: of for name, of in returns.items() if np.mean(of) < 450} == {}
