"""The page of a sweep in Markdown; an equal sweep gives an equal page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from targetnet.agents.results.markdown import estimate_cells, folded, markdown_table
from targetnet.agents.results.statistics import RESAMPLES
from targetnet.agents.results.table import versions
from targetnet.agents.sweep.fresh_seeds import WINNER, RetrainedTrial
from targetnet.agents.sweep.pictures import draw
from targetnet.agents.sweep.plan import SweepPlan
from targetnet.agents.sweep.space import Axis, Range
from targetnet.agents.sweep.study import Study
from targetnet.rl_core.files import write_whole

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_WIDTH = 100
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
    with_ = ", ".join(f"{name} {number}" for name, number in versions().items())
    count = "one tuning seed" if plan.seeds == 1 else f"{plan.seeds} tuning seeds"
    scores = f"A trial's score is {_SCORES[plan.score]}. Each trial has {count} of its own, all "
    scores += f"below 1,000. Values are proposed by {_SAMPLERS[plan.sampler]}. {_STOPS[plan.prune]}"
    head = f"# Sweep on {plan.base.env_id}\n\nMade by\n\n```\n{command}\n```\n\nwith {with_}."
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
