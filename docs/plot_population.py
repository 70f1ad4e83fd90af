"""Draws the curves of a population; members that differ in the seed alone have one color.

python docs/plot_population.py runs/periods docs/pictures/population.png
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from targetnet.agents.config.members import read_members
from targetnet.rl_core.board.read_events import Points, read_curves
from targetnet.rl_core.board.tags import TAGS
from targetnet.rl_core.control.population import POPULATION

SHOWN = "evaluation/return", "episode/return", "learn/q_mean", "target/distance"
COLORS = "#d9541a", "#0b7a75", "#3b3b98", "#b8860b", "#7d3c98", "#2e8b57"
_BINS = 60


def label(own: dict) -> str:
    """Returns what a member has of its own, but for the seed."""
    return ", ".join(f"{name} = {value}" for name, value in own.items() if name != "seed")


def smoothed(curve: Points) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means of a curve over at most so many parts of it."""
    parts = np.array_split(np.array(sorted(curve), float), min(_BINS, len(curve)))
    return tuple(np.array([part.mean(axis=0) for part in parts]).T)


def main(population: Path, picture: Path) -> None:
    members = read_members(population / POPULATION)
    alike = defaultdict(list)
    for name in members.configs:
        alike[label(members.own[name])].append(read_curves(population / name, SHOWN))
    units = {tag.name: tag.unit for tag in TAGS}
    figure = Figure(figsize=(11, 6), layout="constrained")
    for axis, tag in zip(figure.subplots(2, 2, sharex=True).flat, SHOWN, strict=True):
        for curves, color in zip(alike.values(), COLORS, strict=False):
            for curve in curves:
                axis.plot(*smoothed(curve[tag]), linewidth=1, color=color, alpha=0.8)
        axis.set_title(f"{tag} [{units[tag]}]", fontsize=10)
        axis.set_xlabel("env steps")
        axis.grid(alpha=0.3)
    lines = [Line2D([], [], color=color) for _, color in zip(alike, COLORS, strict=False)]
    figure.legend(lines, list(alike), loc="outside upper center", ncols=len(alike))
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
