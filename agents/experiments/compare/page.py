"""The page of a comparison in Markdown; equal results give an equal page."""

from __future__ import annotations

import hashlib
import html
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from targetnet.agents.experiments.compare.arms import Score, area, final
from targetnet.agents.experiments.compare.plan import ComparisonPlan, Section
from targetnet.agents.experiments.compare.scores import Scores
from targetnet.agents.experiments.compare.tables import SCORES, Tables
from targetnet.agents.experiments.report import (
    COLORS,
    GRAY,
    draw_band,
    folded,
    save_figure,
    without_frame,
)
from targetnet.agents.experiments.statistics import Estimate
from targetnet.rl_core.files import write_whole

_LONGEST = 200  # bytes of a picture's name

# (where on the axis, estimate) of each arm of a group.
Line = Sequence[tuple[float, Estimate]]


def write_page(path: Path, command: str, plan: ComparisonPlan, scores: Scores) -> None:
    """Writes the page, and its pictures to a directory beside it.

    Raises:
      OSError: a file cannot be written.
    """
    page = _Page(plan, scores, path.with_suffix(""))
    parts = [f"# {plan.title}", plan.text.strip(), _method(plan, command)]
    for section in plan.sections:
        parts += [f"## {section.title}", section.text.strip(), *page.of(section)]
    parts += ["## Chosen on tuning seeds", *page.tables.choices()]
    parts += ["## What was trained", page.tables.budget()]
    text = "\n\n".join(part for part in parts if part)
    write_whole(path, f"{text}\n".encode())


def _method(plan: ComparisonPlan, command: str) -> str:
    held = [name for name in plan.envs if name not in plan.choosing]
    named = ", ".join(f"`{name}`" for name in (plan.baseline, *plan.constants))
    constants = f"\n*All constants* are the arms of {named}." if plan.constants else ""
    without = f" ({' and '.join(held)} held out)" if held else ""
    return f"""Made by

```
{command}
```

*Area* is the area under a run's greedy curve, divided by its length in env steps. *Final* is the
mean return of the greedy episodes after training. In brackets are 95 % intervals of means over
seeds, by Student's t. A *difference* is taken seed by seed, on each env from the best arm of
`{plan.baseline}` there. That arm was chosen by its area on tuning seeds; so was the value of each
way that has several, but one for all envs together{without}. Bold is what differs from 0 at 5 %
after Holm's correction for all differences of this page from the same arms in the same score;
*ahead* and *behind* count these. Brackets are not corrected. What was chosen might be another with
other tuning seeds: that doubt is in no interval; the tables at the end tell how large it is. All
scores are of fresh seeds.{constants}"""


class _Page:
    """Parts of the page that have numbers.

    Args:
      plan, scores: of the comparison.
      beside: directory of the pictures.
    """

    def __init__(self, plan: ComparisonPlan, scores: Scores, beside: Path) -> None:
        self._plan, self._scores, self._beside = plan, scores, beside
        self.tables = Tables(plan, scores)

    def of(self, section: Section) -> Iterator[str]:
        """Yields what follows a section's text."""
        for env in self._plan.envs:
            if groups := self._there(env, section.curves):
                yield f"### {env}"
                over = section.axis or self._plan.groups[groups[0]].over
                yield self._picture(env, groups, over)
                yield _folded(f"Numbers of {env}", self.tables.of_curves(env, groups))
            if groups := self._there(env, section.quarters):
                yield f"### Quarter by quarter on {env}"
                yield self.tables.of_quarters(env, groups)
            if groups := self._there(env, section.signs):
                yield f"### What the curves show on {env}"
                yield self.tables.of_signs(env, groups)
        if section.differences:
            yield from self._differences(section)

    def _there(self, env: str, groups: Sequence[str]) -> list[str]:
        return [name for name in groups if name in self._plan.groups_on(env)]

    def _differences(self, section: Section) -> Iterator[str]:
        """Yields the area against the baseline's best, and folded up what else there is."""
        plan, choices, groups = self._plan, self._scores.choices, section.differences
        of_all = [group for part in plan.sections for group in part.differences]
        best = {env: choices.best_of_baseline(env) for env in plan.envs}
        yield "### Differences: area"
        yield self.tables.differences(groups, area, best, of_all)
        yield _folded("Differences: final", self.tables.differences(groups, final, best, of_all))
        if plan.constants:
            constants = {env: choices.best_of_constants(env) for env in plan.envs}
            for name, score in SCORES.items():
                yield _folded(
                    f"Differences from the best of all constants: {name}",
                    self.tables.differences(groups, score, constants, of_all),
                )
        if section.against:
            yield from self._against(section)
        if promises := self.tables.promises(groups, best):
            yield _folded("Promised by tuning seeds → kept by fresh ones (area)", promises)

    def _against(self, section: Section) -> Iterator[str]:
        plan, group = self._plan, section.against
        (other,) = self._scores.shown(group)
        others = {env: other for env in plan.envs if group in plan.groups_on(env)}
        family = [of for part in plan.sections if part.against == group for of in part.differences]
        for name, score in SCORES.items():
            table = self.tables.differences(section.differences, score, others, family)
            yield _folded(f"Differences from `{plan.name(other)}`: {name}", table)

    def _picture(self, env: str, groups: Sequence[str], over: str) -> str:
        lines: dict[str, dict[str, Line]] = {
            words: {
                self._plan.groups[group].label: self._line(env, group, score) for group in groups
            }
            for words, score in SCORES.items()
        }
        name = f"{env}-{'-'.join(groups)}"
        if len(name.encode()) > _LONGEST:
            name = f"{env}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        png, _ = draw(env, lines, over, self._beside / name)
        labels = ", ".join(self._plan.groups[group].label for group in groups)
        words = f"Area and final return against {over} on {env}: {labels}"
        return f"![{words}]({self._beside.name}/{png.name})"

    def _line(self, env: str, group: str, score: Score) -> Line:
        at = self._plan.groups[group].at or self._plan.groups[group].values
        arms = self._plan.arms(group)
        found = zip(at, (self._scores.estimate(env, arm, score) for arm in arms), strict=True)
        return [(float(x), estimate) for x, estimate in found]


def _folded(title: str, text: str) -> str:
    return folded(re.sub("`(.*?)`", r"<code>\1</code>", html.escape(title)), text)


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

    figure = Figure(figsize=(5 * len(scores), 4.4), layout="constrained")
    panels = figure.subplots(1, len(scores), squeeze=False)[0]
    for axes, (words, lines) in zip(panels, scores.items(), strict=True):
        for (label, line), color in zip(
            lines.items(), itertools.cycle((*COLORS, GRAY)), strict=False
        ):
            draw_band(axes, line, color, 0.15, label=_plain(label), marker="o", markersize=4)
        axes.set_xscale("log")
        axes.set_xlabel(_plain(over))
        axes.set_ylabel(words)
        without_frame(axes)
        axes.grid(alpha=0.25)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(_plain(title))
    return save_figure(figure, path.with_suffix(".png"), dpi=130)


def _plain(text: str) -> str:
    """Returns text that Matplotlib takes for no formula."""
    return text.replace("$", r"\$")
