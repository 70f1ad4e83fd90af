"""The page of a comparison in Markdown; equal results give an equal page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from agents.compare.kept import SIGNS, Kept
from agents.compare.pictures import Line, draw
from agents.compare.plan import Arm, Loaded, Section
from agents.compare.scores import Score, Scores, area, final
from agents.results.page import markdown_table
from agents.results.statistics import RESAMPLES
from agents.results.table import Estimate
from rl_core.control.files import write_whole

_EARLY = 1  # the second quarter of a run: late enough to see something, early enough to change it
_SCORES: dict[str, Score] = {"area": area, "final": final}
Format = Callable[[float], str]


def write_page(path: Path, command: str, loaded: Loaded, kept: Kept) -> None:
    """Writes the page, and its pictures to a directory beside it.

    Raises:
      OSError: a file cannot be written.
    """
    page = _Page(loaded, kept, path.with_suffix(""))
    parts = [f"# {loaded.plan.title}", loaded.plan.text.strip(), _method(loaded, command)]
    for section in loaded.plan.sections:
        parts += [f"## {section.title}", section.text.strip(), *page.of(section)]
    parts += ["## What was chosen", page.choices(), "## What was trained", page.budget()]
    text = "\n\n".join(part for part in parts if part)
    write_whole(path, f"{text}\n".encode())


def _method(loaded: Loaded, command: str) -> str:
    plan = loaded.plan
    held = [name for name in plan.envs if name not in plan.choosing]
    without = f" but {' and '.join(held)}, which were held out" if held else ""
    return f"""Made by

```
{command}
```

*Area* is the area under a run's greedy curve, divided by its length in env steps. *Final* is the
mean return of the greedy episodes after training. Intervals are 95 % bootstrap percentiles over
seeds, {RESAMPLES:,} resamples. A *difference* is taken seed by seed, on each env from the best arm
of `{plan.baseline}` there. That arm was chosen by its area on tuning seeds; so was the value of
each way that has several, but one for all envs together{without}. What was chosen might be another
with other tuning seeds: that doubt is in no interval. All scores are of fresh seeds."""


class _Page:
    """Parts of the page that have numbers.

    Args:
      loaded, kept: the comparison, and its finished seeds.
      beside: directory of the pictures.
    """

    def __init__(self, loaded: Loaded, kept: Kept, beside: Path) -> None:
        self._plan, self._loaded, self._kept = loaded.plan, loaded, kept
        self._scores, self._beside = Scores(loaded, kept), beside

    def of(self, section: Section) -> Iterator[str]:
        """Yields what follows a section's text."""
        for env in self._plan.envs:
            groups = [name for name in section.curves if name in self._plan.groups_on(env)]
            if groups:
                yield f"### {env}"
                over = section.axis or self._plan.groups[groups[0]].over
                yield self._picture(env, groups, over)
                yield self._table_of_curves(env, groups)
            shown = [name for name in section.signs if name in self._plan.groups_on(env)]
            if shown:
                yield f"### What the curves show on {env}"
                yield self._table_of_signs(env, shown)
        for name, score in _SCORES.items() if section.differences else ():
            yield f"### Differences: {name}"
            best = {env: self._scores.best_constant(env) for env in self._plan.envs}
            yield self._differences(section.differences, score, best)
            if section.against:
                (other,) = self._scores.shown(section.against)
                there = [e for e in self._plan.envs if section.against in self._plan.groups_on(e)]
                yield f"### Differences from `{self._plan.name(other)}`: {name}"
                yield self._differences(section.differences, score, dict.fromkeys(there, other))

    def choices(self) -> str:
        """Returns tables of the arms that were chosen on tuning seeds."""
        plan, scores = self._plan, self._scores
        best = [[env, f"`{plan.name(scores.best_constant(env))}`"] for env in plan.envs]
        tables = [markdown_table(["env", f"best of `{plan.baseline}`"], best)]
        rows = [
            [group.label, f"`{group.over}`", f"`{plan.value(scores.chosen(name))}`",
             f"`{', '.join(map(str, group.values))}`"]
            for name, group in plan.groups.items() if group.choose
        ]  # fmt: skip
        if rows:
            tables.append(markdown_table(["way", "key", "chosen for all envs", "of"], rows))
        return "\n\n".join(tables)

    def budget(self) -> str:
        """Returns a table of the runs that the page is made of, and those that chose arms."""
        rows = []
        for env in self._plan.envs:
            seeds = self._scores.trained(env)
            steps, updates = (sum(getattr(s, of) for s in seeds) for of in ("env_steps", "updates"))
            ranges = self._plan.tuned(env), self._plan.fresh(env)
            rows.append(
                [env, f"{len(seeds):,}", *(f"{of.start} to {of.stop - 1}" for of in ranges),
                 f"{steps / 1e6:,.1f} million", f"{updates / 1e6:,.1f} million",
                 " and ".join(sorted({s.processor for s in seeds})),
                 " and ".join(sorted({_in_words(s.versions) for s in seeds}))]
            )  # fmt: skip
        head = [
            *("env", "runs", "tuning seeds", "fresh seeds", "env steps", "updates"),
            *("processor", "versions"),
        ]
        return markdown_table(head, rows)

    def _picture(self, env: str, groups: Sequence[str], over: str) -> str:
        lines: dict[str, dict[str, Line]] = {
            f"{words} return": {
                self._plan.groups[group].label: self._line(env, group, score) for group in groups
            }
            for words, score in _SCORES.items()
        }
        png, _ = draw(env, lines, over, self._beside / f"{env}-{'-'.join(groups)}")
        labels = ", ".join(self._plan.groups[group].label for group in groups)
        words = f"Area and final return against {over} on {env}: {labels}"
        return f"![{words}]({self._beside.name}/{png.name})"

    def _line(self, env: str, group: str, score: Score) -> Line:
        at = self._plan.groups[group].at or self._plan.groups[group].values
        arms = self._plan.arms(group)
        found = zip(at, (self._scores.estimate(env, arm, score) for arm in arms), strict=True)
        return [(float(x), estimate) for x, estimate in found]

    def _table_of_curves(self, env: str, groups: Sequence[str]) -> str:
        number = self._format(env)
        rows = []
        for group in groups:
            for arm in self._plan.arms(group):
                cells = [
                    _said(self._scores.estimate(env, arm, of), number) for of in _SCORES.values()
                ]
                rows.append([f"`{self._plan.name(arm)}`", *cells])
        return _folded(f"Numbers of {env}", markdown_table(["arm", "area", "final"], rows))

    def _table_of_signs(self, env: str, groups: Sequence[str]) -> str:
        number, rows = self._format(env), []
        for arm in [arm for group in groups for arm in self._scores.shown(group)]:
            signs = [self._scores.sign(env, arm, tag, _EARLY) for tag in SIGNS]
            cells = ["-" if of is None else f"{of:,.3g}" for of in signs]
            score = number(self._scores.estimate(env, arm, area).value)
            rows.append([f"`{self._plan.name(arm)}`", *cells, score])
        return markdown_table(["arm", *(f"`{tag}`" for tag in SIGNS), "area"], rows)

    def _differences(self, groups: Sequence[str], score: Score, others: Mapping[str, Arm]) -> str:
        """Returns a table of the differences from one arm on each env."""
        rows, intervals = [], 0
        for group in groups:
            cells, signs = [], [0, 0]
            for env in self._plan.envs:
                if group not in self._plan.groups_on(env) or env not in others:
                    cells.append("-")
                    continue
                (arm,) = self._scores.shown(group)
                found = self._scores.difference(env, arm, others[env], score)
                cells.append(_said(found, self._format(env)) if found else "the same runs")
                if found and found.interval:
                    intervals += 1
                    signs[0] += found.interval.low > 0
                    signs[1] += found.interval.high < 0
            rows.append([self._plan.groups[group].label, *cells, *map(str, signs)])
        table = markdown_table(["way", *self._plan.envs, "ahead", "behind"], rows)
        if not intervals:
            return table
        chance = f"{0.05 * intervals:.1f}"
        return (
            f"{table}\n\nOf {intervals} such intervals about {chance} would leave 0 out by chance "
            "alone, if no way made a difference."
        )

    def _format(self, env: str) -> Format:
        arm = self._scores.best_constant(env)
        largest = max(abs(value) for value in self._scores.of(env, arm, final))
        decimals = 1 if largest >= 100 else 2
        return lambda value: f"{value:,.{decimals}f}"


def _said(estimate: Estimate, number: Format) -> str:
    ends = estimate.interval
    between = f" [{number(ends.low)}, {number(ends.high)}]" if ends else ""
    return f"{number(estimate.value)}{between}"


def _in_words(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"
