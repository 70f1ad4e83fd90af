"""Pictures of a sweep as PNG: made without a display, equal for equal sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from targetnet.agents.sweep.fresh_seeds import RetrainedTrial
from targetnet.agents.sweep.plan import SweepPlan
from targetnet.agents.sweep.space import Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from optuna.trial import FrozenTrial

_COLOR, _PALE = "#d9541a", "#bbbbbb"


def draw(
    plan: SweepPlan,
    trials: Sequence[FrozenTrial],
    importances: Mapping[str, float],
    best: Sequence[RetrainedTrial],
    directory: Path,
) -> dict[str, Path]:
    """Draws all pictures for which there is something to show.

    Returns:
      Name -> PNG.
    """
    whole = [trial for trial in trials if trial.state.name == "COMPLETE"]
    directory.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Path] = {}

    def save(name: str, height: float, fill: Callable[[Figure], None]) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, height), layout="constrained")
        fill(figure)
        pictures[name] = directory / f"{name}.png"
        figure.savefig(pictures[name], dpi=150)

    if importances:
        save("importance", 1 + 0.4 * len(importances), lambda f: _importance(f, importances))
    if sum(of.summary is not None for of in best) > 1:
        save("fresh", 4, lambda f: _fresh(f.subplots(), best))
    if len(whole) > 1:
        save("parallel", 4, lambda f: _parallel(f, plan, whole))
        save("history", 3, lambda f: _history(f.subplots(), whole))
    return pictures


def _importance(figure: Figure, importances: Mapping[str, float]) -> None:
    axes = figure.subplots()
    names = sorted(importances, key=lambda name: importances[name])
    axes.barh(names, [importances[name] for name in names], color=_COLOR)
    axes.set_xlabel("share in the differences of scores")
    axes.spines[["top", "right"]].set_visible(False)


def _fresh(axes: Axes, best: Sequence[RetrainedTrial]) -> None:
    for of in best:
        if of.summary is None:
            continue
        mean, score = of.summary.mean, of.trial.value or 0.0
        ends = mean.interval
        axes.plot(score, mean.value, "o", color=_COLOR)
        if ends:
            axes.plot([score] * 2, [ends.low, ends.high], color=_COLOR, linewidth=1)
        axes.annotate(
            str(of.trial.number), (score, mean.value), (5, 5),
            textcoords="offset points", fontsize=8,
        )  # fmt: skip
    axes.set_xlabel("score with tuning seeds")
    axes.set_ylabel("mean return with fresh seeds")
    axes.spines[["top", "right"]].set_visible(False)


def _history(axes: Axes, whole: Sequence[FrozenTrial]) -> None:
    numbers = [trial.number for trial in whole]
    scores = [trial.value or 0.0 for trial in whole]
    axes.plot(numbers, scores, "o", color=_PALE, markersize=4)
    axes.step(numbers, np.maximum.accumulate(scores), where="post", color=_COLOR)
    axes.set_xlabel("trial")
    axes.set_ylabel("score")
    axes.spines[["top", "right"]].set_visible(False)


def _parallel(figure: Figure, plan: SweepPlan, whole: Sequence[FrozenTrial]) -> None:
    """Draws a vertical line for each key, and a line for each trial; the best come last."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    axes = figure.subplots()
    names = list(plan.space.axes)
    ordered = sorted(whole, key=lambda trial: trial.value or 0.0)
    scores = np.asarray([trial.value or 0.0 for trial in ordered])
    color = ScalarMappable(Normalize(scores.min(), scores.max()), colormaps["viridis"])
    colors = color.to_rgba(scores)  # [trials, 4]
    columns = [_heights(plan, name, ordered) for name in names]
    for number, heights in enumerate(zip(*columns, strict=True)):
        axes.plot(range(len(names)), heights, color=colors[number], linewidth=1, alpha=0.8)
    for number, name in enumerate(names):
        axes.axvline(number, color="black", linewidth=0.8)
        for height, text in _marks(plan, name):
            axes.annotate(text, (number, height), (3, 0), textcoords="offset points", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(names) - 0.7)
    axes.spines[:].set_visible(False)
    figure.colorbar(color, ax=axes, label="score")


def _heights(plan: SweepPlan, name: str, trials: Sequence[FrozenTrial]) -> list[float]:
    """Returns where each trial's value is between the lowest, 0, and the highest, 1."""
    axis = plan.space.axes[name]
    params = [trial.params[name] for trial in trials]
    if not isinstance(axis, Range):
        values = list(axis.values)
        return [values.index(param) / (len(values) - 1) for param in params]
    scale: Callable[[float], float] = np.log if axis.log else float
    low, high = scale(axis.low), scale(axis.high)
    return [float((scale(param) - low) / (high - low)) for param in params]


def _marks(plan: SweepPlan, name: str) -> list[tuple[float, str]]:
    axis = plan.space.axes[name]
    if isinstance(axis, Range):
        return [(0.0, f"{axis.low:g}"), (1.0, f"{axis.high:g}")]
    values = list(axis.values)
    return [(n / (len(values) - 1), str(value)) for n, value in enumerate(values)]
