"""Atari beside Dopamine's curves: the page is what its script prints of the committed rows."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SCRIPT = ROOT / "docs/atari/beside_dopamine.py"
COMMAND = "python docs/atari/beside_dopamine.py docs/rows/learning.jsonl > docs/results/atari.md"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("beside_dopamine", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seed(curve, number=6_000):
    return {
        "ours": "ours, QR-DQN", "seed": number, "mean": 3.0, "low": 1.0, "high": 5.0,
        "seconds": 5_400.0, "training_curve": curve, "processor": "A Processor",
        "date": "2026-01-02",
        "versions": {"python": "3.11.7"},
    }  # fmt: skip


def test_the_page_is_what_the_script_prints():
    page = (ROOT / "docs/results/atari.md").read_text()
    assert f"\n{COMMAND}\n" in page
    command = [sys.executable, *COMMAND.split()[1:3]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == page


def test_a_game_has_a_line_for_each_seed_and_the_peers_mean_least_and_most(script):
    published = json.loads((SCRIPT.parent / "dopamine.json").read_text())
    seeds = [seed([[250_000, -20.04], [500_000, -9.96]]), seed([[250_000, -19.0]], 6_001)]
    head, _, *lines = [
        line.split(" | ") for line in script.table("Pong", seeds, published).split("\n")
    ]
    assert head[1:3] == ["1,000,000 frames", "2,000,000 frames"]
    assert lines[0] == ["| ours, QR-DQN, seed 6000", "-20.0", "-10.0", "3.0", "1.0", "5.0", "1.5 |"]
    assert lines[1][1:3] == ["-19.0", "-"]
    # Dopamine's five runs, by hand: 15.8, 13.93, 15.74, 14.31 and 13.61 below 0.
    (qr,) = [line for line in lines if line[0] == "| Dopamine, QR-DQN"]
    assert qr[2] == "-14.7 (-15.8 to -13.6)"


def test_a_curve_at_other_frames_than_the_peers_is_no_comparison(script):
    published = json.loads((SCRIPT.parent / "dopamine.json").read_text())
    with pytest.raises(
        SystemExit, match=r"Pong: curves at \[240000\], wanted points at \[1000000\]"
    ):
        script.table("Pong", [seed([[240_000, -20.0]])], published)
