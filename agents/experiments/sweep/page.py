"""The page of a sweep in Markdown, and its pictures; an equal sweep gives equal bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from targetnet.agents.experiments.report import (
    COLORS,
    estimate_cells,
    folded,
    in_words,
    markdown_table,
    versions,
    without_frame,
)
from targetnet.agents.experiments.statistics import RESAMPLES
from targetnet.agents.experiments.sweep.fresh_seeds import WINNER, RetrainedTrial
from targetnet.agents.experiments.sweep.plan import SweepPlan
from targetnet.agents.experiments.sweep.space import Axis, Range
from targetnet.agents.experiments.sweep.study import Study
from targetnet.rl_core.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from optuna.trial import FrozenTrial

_WIDTH = 100
_COLOR, _PALE = COLORS[0], "#bbbbbb"
_SAMPLERS = {
    "tpe": "Optuna's TPE",
    "random": "chance",
    "grid": "a grid of all combinations",
}
_STOPS = {
    True: "A trial is stopped early if all its greedy returns so far are below the median of the "
    "earlier trials' at the same evaluation.",
    False: "No trial is stopped early.",
}
_FRESH = (
    "The best trials are trained again with fresh seeds, which choose nothing: of the two scores, "
    "only the fresh one tells what to expect of another seed. It is the mean return of the final "
    "greedy episodes; intervals are 95 % bootstrap percentiles over seeds, "
    f"{RESAMPLES:,} resamples."
)
_SCORES = {
    "curve": "the mean of its greedy returns at all evaluations, with the final one",
    "final": "the mean return of its final greedy episodes",
}


def write_page(
    path: Path,
    command: str,
    plan: SweepPlan,
    study: Study,
    best: Sequence[RetrainedTrial],
    directory: Path,
) -> None:
    """Writes the page, and its pictures to a directory beside it.

    Args:
      path: of the page.
      command: makes it again.
      best: the trials that were trained again, the best by tuning seeds first.
      directory: of the sweep.

    Raises:
      OSError: a file cannot be written.
    """
    importances = study.importances()
    beside = path.with_suffix("")
    pictures = draw(plan, study.trials, importances, best, beside)
    show = {name: f"{beside.name}/{file.name}" for name, file in pictures.items()}
    parts = [
        _introduction(plan, command),
        "## Space",
        _space(plan, importances),
        *_picture(show, "importance", "Share of each key in the differences of scores"),
        "## Best trials",
        _best(plan, best),
        _agreement(best),
        *_picture(show, "fresh", "Scores with fresh seeds against scores with tuning seeds"),
        _winner(study, directory),
        "## All trials",
        *_picture(show, "parallel", "The values of each trial, in the color of its score"),
        *_picture(show, "history", "Score of each trial, and the best so far"),
        _all(plan, study.trials),
    ]
    write_whole(path, ("\n\n".join(parts) + "\n").encode())


def rank_correlation(best: Sequence[RetrainedTrial]) -> float | None:
    """Returns Spearman's rank correlation of tuning and fresh scores; None if it has no value."""
    from scipy.stats import spearmanr

    pairs = [(of.trial.value, of.summary.mean.value) for of in best if of.summary]
    if len(pairs) < 3 or any(len(set(scores)) < 2 for scores in zip(*pairs, strict=True)):
        return None
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def _introduction(plan: SweepPlan, command: str) -> str:
    count = "one tuning seed" if plan.seeds == 1 else f"{plan.seeds} tuning seeds"
    scores = f"A trial's score is {_SCORES[plan.score]}. Each trial has {count} of its own, all "
    scores += f"below 1,000. Values are proposed by {_SAMPLERS[plan.sampler]}. {_STOPS[plan.prune]}"
    head = f"# Sweep on {plan.base.env_id}\n\nMade by\n\n```\n{command}\n```"
    head += f"\n\nwith {in_words(versions())}."
    return "\n\n".join([head, *(fill(text, _WIDTH) for text in (scores, _FRESH))])


def _space(plan: SweepPlan, importances: dict[str, float]) -> str:
    rows = [
        [f"`{name}`", _axis(axis), f"{importances[name]:.0%}" if name in importances else "-"]
        for name, axis in plan.space.axes.items()
    ]
    table = markdown_table(["key", "values", "importance"], rows)
    return f"{table}\n\nImportance is PED-ANOVA's ([Watanabe et al. 2023]({_PED_ANOVA}))."


_PED_ANOVA = "https://arxiv.org/abs/2304.10255"


def _axis(axis: Axis) -> str:
    if isinstance(axis, Range):
        return f"{axis.low:g} to {axis.high:g}{', log' if axis.log else ''}"
    return ", ".join(map(str, axis.values))


def _best(plan: SweepPlan, best: Sequence[RetrainedTrial]) -> str:
    keys = list(plan.space.axes)
    head = [
        "trial",
        *(f"`{key}`" for key in keys),
        "tuning score",
        "fresh",
        "95 %",
        "seeds",
        "worst",
    ]
    rows = []
    for of in best:
        cells = [str(of.trial.number), *_values(of.trial, keys), _number(of.trial.value)]
        if of.summary is None:
            rows.append([*cells, "-", "-", "0", "-"])
            continue
        cells += [*estimate_cells(of.summary.mean, _number), str(len(of.summary.row.seeds))]
        rows.append([*cells, _number(of.summary.worst.mean)])
    return markdown_table(head, rows)


def _agreement(best: Sequence[RetrainedTrial]) -> str:
    correlation = rank_correlation(best)
    if correlation is None:
        return "The two scores have no rank correlation: too few trials, or equal scores."
    return (
        f"Rank correlation of tuning and fresh scores (Spearman): {correlation:.2f}, over "
        f"{len(best)} trials."
    )


def _winner(study: Study, directory: Path) -> str:
    best = study.best()
    assert best is not None
    about = best.user_attrs
    digests = ", ".join(f"`{digest}`" for digest in about["digests"])
    seeds = ", ".join(map(str, about["seeds"]))
    return fill(
        f"The winner is the best by tuning seeds, trial {best.number}: fresh seeds choose nothing, "
        "so its fresh score is as good as that of any new seed. Its config is "
        f"`{directory / WINNER}`. With tuning seed {seeds} training ends with the digest {digests} "
        f"on {about['processor']}; the command above with `--verify` trains it again and compares.",
        _WIDTH,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _all(plan: SweepPlan, trials: Sequence[FrozenTrial]) -> str:
    keys = list(plan.space.axes)
    head = ["trial", *(f"`{key}`" for key in keys), "tuning score", "evaluations"]
    rows = [
        [str(trial.number), *_values(trial, keys), _end(trial), str(len(trial.intermediate_values))]
        for trial in trials
    ]
    return folded("Numbers", markdown_table(head, rows))


def _end(trial: FrozenTrial) -> str:
    match trial.state.name:
        case "COMPLETE":
            return _number(trial.value)
        case "PRUNED":
            return f"stopped at {_number(trial.value)}"
        case "FAIL":
            return "failed"
    return "not finished"


def _values(trial: FrozenTrial, keys: Sequence[str]) -> list[str]:
    shown = [trial.params[key] for key in keys]
    return [f"{value:.4g}" if isinstance(value, float) else str(value) for value in shown]


def _number(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:,.1f}"


def _picture(show: dict[str, str], name: str, text: str) -> list[str]:
    return [f"![{text}]({show[name]})"] if name in show else []


# Pictures, as PNG.


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
    without_frame(axes)


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
    without_frame(axes)


def _history(axes: Axes, whole: Sequence[FrozenTrial]) -> None:
    numbers = [trial.number for trial in whole]
    scores = [trial.value or 0.0 for trial in whole]
    axes.plot(numbers, scores, "o", color=_PALE, markersize=4)
    axes.step(numbers, np.maximum.accumulate(scores), where="post", color=_COLOR)
    axes.set_xlabel("trial")
    axes.set_ylabel("score")
    without_frame(axes)


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
