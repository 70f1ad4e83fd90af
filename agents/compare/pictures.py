"""Scores of arms against their values, as PNG and SVG; equal results give equal bytes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.results.pictures import save
from targetnet.agents.results.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = ("#d9541a", "#1f6fb4", "#3a923a", "#8c5fb3", "#b08c1a", "#555555")

# (where on the axis, estimate) of each arm of a group.
Line = Sequence[tuple[float, Estimate]]


def draw(
    title: str, scores: Mapping[str, Mapping[str, Line]], over: str, path: Path
) -> tuple[Path, Path]:
    """Draws a panel for each score, with a line and a band of 95 % for each group.

    Args:
      title: of the picture.
      scores: words of a score -> words of a group -> its line.
      over: words of the horizontal axis, which is logarithmic.
      path: of the files, without the ending.

    Returns:
      The PNG and the SVG.
    """
    from matplotlib.figure import Figure

    path.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(5 * len(scores), 4.4), layout="constrained")
    panels = figure.subplots(1, len(scores), squeeze=False)[0]
    for axes, (words, lines) in zip(panels, scores.items(), strict=True):
        for (label, line), color in zip(lines.items(), itertools.cycle(_COLORS), strict=False):
            _add(axes, _plain(label), line, color)
        axes.set_xscale("log")
        axes.set_xlabel(_plain(over))
        axes.set_ylabel(words)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(_plain(title))
    return save(figure, path.with_suffix(".png"), dpi=130)


def _plain(text: str) -> str:
    """Returns text that Matplotlib takes for no formula."""
    return text.replace("$", r"\$")


def _add(axes: Axes, label: str, line: Line, color: str) -> None:
    at = [x for x, _ in line]
    axes.plot(at, [of.value for _, of in line], "o-", label=label, color=color, markersize=4)
    ends = [of.interval for _, of in line]
    if all(ends):
        lows, highs = ([end[i] for end in ends if end] for i in (0, 1))
        axes.fill_between(at, lows, highs, color=color, alpha=0.15, linewidth=0)
