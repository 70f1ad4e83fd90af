"""Curves of all agents on one env, as PNG and SVG; equal results give equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.results.page import file_name
from targetnet.agents.results.table import Summary
from targetnet.rl_core.extras import require_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS = ("#d9541a", "#1f6fb4", "#3a923a", "#8c5fb3", "#b08c1a")  # one color per config, in turn
_PEER = "#555555"


def require_matplotlib() -> None:
    """Checks that matplotlib is installed.

    Raises:
      RlCoreError: it is not; the message says how to install it.
    """
    require_package("matplotlib", "the curves need matplotlib", "plots")


def draw(env_id: str, summaries: Sequence[Summary], directory: Path) -> tuple[Path, Path]:
    """Draws the IQM over seeds against env steps, with its 95 % interval as a band.

    Returns:
      The PNG and the SVG.
    """
    from matplotlib.figure import Figure

    directory.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    colors = iter(_OURS * len(summaries))
    for summary in summaries:
        _add_curve(axes, summary, _PEER if summary.row.peer else next(colors))
    _label(axes, env_id)
    return save(figure, directory / f"{file_name(env_id)}.png", dpi=150)


def save(figure: Figure, png: Path, dpi: int) -> tuple[Path, Path]:
    """Saves a figure, and the same as an SVG beside it; returns both paths."""
    import matplotlib

    svg = png.with_suffix(".svg")
    # Without the salt and the empty date an SVG has random ids and a time stamp.
    with matplotlib.rc_context({"svg.hashsalt": "targetnet"}):
        figure.savefig(png, dpi=dpi)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _add_curve(axes: Axes, summary: Summary, color: str) -> None:
    row, seeds = summary.row, len(summary.row.seeds)
    steps = [step for step, _ in summary.curve]
    values = [estimate.value for _, estimate in summary.curve]
    label = f"{row.name} ({seeds} seed{'s' if seeds > 1 else ''})"
    axes.plot(
        steps, values, label=label, color=color, linewidth=1.8, linestyle="--" if row.peer else "-"
    )
    bands = [estimate.interval for _, estimate in summary.curve]
    lows, highs = [b.low for b in bands if b], [b.high for b in bands if b]
    if lows:  # a single seed has no interval
        axes.fill_between(steps, lows, highs, color=color, alpha=0.2, linewidth=0)


def _label(axes: Axes, env_id: str) -> None:
    axes.set_title(env_id)
    axes.set_xlabel("training [env steps]")
    axes.set_ylabel("greedy return [reward]\nIQM over seeds, 95 % interval")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
