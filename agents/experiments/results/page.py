"""The page of results in Markdown, and its pictures; equal results give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from targetnet.agents.experiments.report import (
    COLORS,
    GRAY,
    Format,
    draw_band,
    estimate_cells,
    folded,
    in_toml,
    in_words,
    markdown_table,
    number_format,
    save_figure,
    without_frame,
)
from targetnet.agents.experiments.results.table import Origin, Summary, by_env, differences
from targetnet.agents.experiments.statistics import RESAMPLES, holm
from targetnet.agents.experiments.store import TRAINING_EPISODES

_FOR_IQM = 4  # seeds: with fewer none is left out, and it is the mean
# Of how many seeds, in how many of a hundred cases an interval of 95 % holds the mean of normal
# scores; of seeds between two, as of the lower number.
_COVERAGE = {2: 50, 3: 76, 5: 84, 10: 90, 20: 92}
_MOST_POINTS = 10
_LEAD = """The score of a seed is the mean return of its greedy episodes after training. [At the
end](#how-it-was-made) the columns are explained."""


def as_markdown(
    summaries: Sequence[Summary],
    made: Origin,
    pictures: Mapping[str, str],
    *,
    title: str = "Results",
    training: bool = False,
) -> str:
    """Returns the whole page.

    Args:
      summaries: the rows of the table.
      made: the command and the machine that made the results.
      pictures: path of each env's picture, relative to the page.
      title: the page's.
      training: adds a column with the mean return of the last training episodes.
    """
    parts = [f"# {title}", _LEAD]
    compared = _differences(summaries)
    for env_id, of_env in by_env(summaries).items():
        parts += [f"## {env_id}", _table(of_env, training)]
        parts += _training_curves(of_env) if training else []
        parts += compared.get(env_id, [])
        parts += [_cut(s) for s in of_env if any(seed.cut for seed in s.row.seeds)]
        parts.append(_picture(env_id, of_env, pictures[env_id]))
    parts += ["## Settings", *map(_about, summaries)]
    parts += ["## Every seed", _every_seed(summaries)]
    parts += ["## How it was made", _method(summaries, made, training)]
    return "\n\n".join(parts) + "\n"


def file_name(env_id: str) -> str:
    """Returns the stem of an env's picture files, without the slash of "MinAtar/Breakout-v1"."""
    return env_id.replace("/", "-")


def _method(summaries: Sequence[Summary], made: Origin, training: bool) -> str:
    machine = f"{_count(made.cores, 'core')}, {_count(made.jobs, 'seed')} at a time"
    text = f"""Made by

```
{made.command}
```

with {in_words(made.versions)}, on {machine}.

A score is undiscounted. The *IQM* is the interquartile mean over seeds, of {_FOR_IQM} or more.
Intervals are 95 % stratified bootstrap percentiles over seeds, {RESAMPLES:,} resamples
([Agarwal et al. 2021](https://arxiv.org/abs/2108.13264)). *Time* is the median over seeds of the
training's wall time, beside whatever else the machine did: it compares no speeds."""
    if any(len(summary.row.seeds) > 1 for summary in summaries):
        text += f"""
Such intervals are too narrow for few seeds: that of a mean of normal scores holds the true one
{_coverage(summaries)}."""
    if any(differences(of_env) for of_env in by_env(summaries).values()):
        text += """
The difference of two agents is that of their means, with Welch's interval and test; *p of all* is
corrected for all differences of this page ([Holm 1979](https://www.jstor.org/stable/4615733))."""
    if training:
        text += f"""
*Training* is the mean over seeds of the mean return of the last {TRAINING_EPISODES} training
episodes, exploration included."""
    if training and any(summary.row.training_curves for summary in summaries):
        text += """
*Training return up to* an env step is the mean over seeds of the mean return of the training
episodes that ended since the point before."""
    return text


def _coverage(summaries: Sequence[Summary]) -> str:
    """Returns how often a bootstrap interval of so many seeds holds the mean, in words."""
    seeds = sorted({len(summary.row.seeds) for summary in summaries} - {1})
    known = [max(known for known in _COVERAGE if known <= n) for n in seeds]
    cases = [
        f"with {n} seeds in about {_COVERAGE[of]} %" for n, of in zip(seeds, known, strict=True)
    ]
    return ", ".join(cases) + " of cases"


def _table(summaries: Sequence[Summary], training: bool) -> str:
    number = _format(summaries)
    head = ["agent", "env steps", "updates", "seeds", "mean", "95 %", "IQM", "95 %"]
    head += ["worst seed", "best seed", *(["training", "95 %"] if training else []), "time"]
    return markdown_table(head, [_row(summary, number, training) for summary in summaries])


def _row(summary: Summary, number: Format, training: bool) -> list[str]:
    row, first = summary.row, summary.row.seeds[0]
    cells = [_agent(summary), f"{first.env_steps:,}", f"{first.updates:,}", str(len(row.seeds))]
    iqm = summary.iqm if len(row.seeds) >= _FOR_IQM else None
    cells += [*estimate_cells(summary.mean, number), *estimate_cells(iqm, number)]
    cells += [f"{number(seed.mean)} (seed {seed.seed})" for seed in (summary.worst, summary.best)]
    if training:
        cells += estimate_cells(summary.training, number)
    return [*cells, _duration(summary.seconds)]


def _training_curves(summaries: Sequence[Summary]) -> list[str]:
    """Returns a table of the training returns by env steps, if all seeds of a row have them."""
    number = _format(summaries)
    curves = {_agent(summary): summary.row.training_curves for summary in summaries}
    steps = sorted({step for curve in curves.values() for step in curve})
    steps = steps[:: -(1 + len(steps) // (_MOST_POINTS + 1))][::-1]
    rows = [
        [agent, *(number(fmean(curve[step])) if step in curve else "-" for step in steps)]
        for agent, curve in curves.items()
        if curve
    ]
    head = ["training return up to env step", *(f"{step:,}" for step in steps)]
    return [markdown_table(head, rows)] if rows else []


def _agent(summary: Summary) -> str:
    return summary.row.name if summary.row.peer else f"`{summary.row.name}`"


def _differences(summaries: Sequence[Summary]) -> dict[str, list[str]]:
    """Returns the table of differences of each env that has any."""
    envs = by_env(summaries)
    found = {env_id: differences(of_env) for env_id, of_env in envs.items()}
    p = [of.p for of_env in found.values() for *_, of in of_env if of.p is not None]
    each = iter(zip(p, holm(p), strict=True))
    tables = {}
    for env_id, of_env in found.items():
        number = _format(envs[env_id])
        rows = [
            [f"{_agent(ours)} - {_agent(peer)}", *estimate_cells(of.estimate, number)]
            + [f"{p:.3f}" for p in next(each)]
            for ours, peer, of in of_env
        ]
        if rows:
            head = ["difference", "means", "95 %", "p", "p of all"]
            tables[env_id] = [markdown_table(head, rows)]
    return tables


def _about(summary: Summary) -> str:
    """Returns all settings of a row, folded up."""
    row, first = summary.row, summary.row.seeds[0]
    source = ""
    if row.peer and first.source:
        source = f"Settings of [rl-baselines3-zoo]({first.source}). "
    lines = "\n".join(f"{name} = {in_toml(value)}" for name, value in first.settings.items())
    when = " to ".join(dict.fromkeys([row.dates[0], row.dates[-1]]))
    made = f"Trained on {'; '.join(row.processors) or 'a processor not noted'}, {when}"
    return folded(
        f"{_agent_in_html(summary)} on {row.env_id}",
        f"{source}{made}. With {in_words(first.versions)}.\n\n```toml\n{lines}\n```",
    )


def _agent_in_html(summary: Summary) -> str:
    name = summary.row.name
    return name if summary.row.peer else f"<code>{name}</code>"


def _cut(summary: Summary) -> str:
    cut = sum(seed.cut for seed in summary.row.seeds)
    return (
        f"{_count(cut, 'greedy episode')} of {_agent(summary)} were cut off at `eval_max_steps` "
        "and count with their return until the cut."
    )


def _picture(env_id: str, summaries: Sequence[Summary], picture: str) -> str:
    names = " and ".join(summary.row.name for summary in summaries)
    return f"![Greedy return of {names} on {env_id} over env steps]({picture})"


def _every_seed(summaries: Sequence[Summary]) -> str:
    head = ["env", "agent", "seed", "mean", "std", "min", "max", "updates", "time"]
    rows = []
    for env_id, of_env in by_env(summaries).items():
        number = _format(of_env)
        for summary in of_env:
            for seed in summary.row.seeds:
                found = seed.mean, seed.std, seed.low, seed.high
                scores = ["-" if score is None else number(score) for score in found]
                rows.append(
                    [env_id, _agent(summary), str(seed.seed), *scores, f"{seed.updates:,}",
                     _duration(seed.seconds)]
                )  # fmt: skip
    return folded("Numbers", markdown_table(head, rows))


def _format(summaries: Sequence[Summary]) -> Format:
    return number_format(max(abs(mean) for summary in summaries for mean in summary.row.means))


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def draw(env_id: str, summaries: Sequence[Summary], directory: Path) -> tuple[Path, Path]:
    """Draws the IQM over seeds against env steps, with its 95 % interval as a band.

    Returns:
      The PNG and the SVG.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    colors = iter(COLORS * len(summaries))
    for summary in summaries:
        row = summary.row
        label = f"{row.name} ({_count(len(row.seeds), 'seed')})"
        color, style = (GRAY, "--") if row.peer else (next(colors), "-")
        draw_band(axes, summary.curve, color, label=label, linewidth=1.8, linestyle=style)
    axes.set_title(env_id)
    axes.set_xlabel("training [env steps]")
    axes.set_ylabel("greedy return [reward]\nIQM over seeds, 95 % interval")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlim(left=0)
    without_frame(axes)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return save_figure(figure, directory / f"{file_name(env_id)}.png", dpi=150)
