"""Tables of a comparison's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from targetnet.agents.experiments.compare.arms import Score, area, final, quarter, second_half
from targetnet.agents.experiments.compare.plan import ComparedArm, ComparisonPlan
from targetnet.agents.experiments.compare.scores import Scores
from targetnet.agents.experiments.report import (
    Format,
    estimate_cells,
    in_words,
    markdown_table,
    number_format,
)
from targetnet.agents.experiments.statistics import Difference, Estimate, holm
from targetnet.agents.experiments.store import SIGNS

SCORES: dict[str, Score] = {"area": area, "final": final}
_EARLY = 1  # the second quarter of a run: late enough to see something, early enough to change it
_LEAST_SHARE = 0.05  # of the draws of tuning seeds, for an arm to be named


class Tables:
    """Tables in Markdown, of a comparison's scores."""

    def __init__(self, plan: ComparisonPlan, scores: Scores) -> None:
        self._plan, self._scores = plan, scores

    def of_curves(self, env: str, groups: Sequence[str]) -> str:
        """Returns all scores of arms."""
        return self._estimates(env, groups, SCORES)

    def of_quarters(self, env: str, groups: Sequence[str]) -> str:
        """Returns the scores of the quarters of a run."""
        names = "first quarter", "second", "third", "last"
        scores = {name: partial(quarter, i) for i, name in enumerate(names)}
        return self._estimates(env, groups, scores)

    def of_signs(self, env: str, groups: Sequence[str]) -> str:
        """Returns what curves showed in a quarter, beside the score of what came after it."""
        number, rows = self._format(env), []
        for arm in [arm for group in groups for arm in self._scores.shown(group)]:
            signs = [self._scores.sign(env, arm, tag, _EARLY) for tag in SIGNS]
            cells = ["-" if of is None else f"{of:,.3g}" for of in signs]
            later = self._scores.estimate(env, arm, second_half).value
            rows.append([self._name(arm), *cells, number(later)])
        return markdown_table(["arm", *(f"`{tag}`" for tag in SIGNS), "area, second half"], rows)

    def differences(
        self,
        groups: Sequence[str],
        score: Score,
        others: Mapping[str, ComparedArm],
        family: Sequence[str],
    ) -> str:
        """Returns the differences from one arm on each env.

        Bold are those other than 0 at 5 %, corrected for all groups of the family, which the page
        shows beside the same arms.
        """
        bold, rows = self._bold(family, score, others), []
        for group in groups:
            cells, signs = [], [0, 0]
            for env in self._plan.envs:
                if group not in self._plan.groups_on(env) or env not in others:
                    cells.append("-")
                    continue
                found = self._difference(env, group, others, score)
                if found is None:
                    cells.append("the same runs")
                    continue
                said = _said(found.estimate, partial(_signed, self._format(env)))
                cells.append(f"**{said}**" if (group, env) in bold else said)
                if (group, env) in bold:
                    signs[found.estimate.value < 0] += 1
            rows.append([self._plan.groups[group].label, *cells, *map(str, signs)])
        return markdown_table(["way", *self._plan.envs, "ahead", "behind"], rows)

    def promises(self, groups: Sequence[str], others: Mapping[str, ComparedArm]) -> str:
        """Returns what tuning seeds promised of the arms they chose, and what fresh ones kept."""
        rows = []
        for group in groups:
            (arm,) = self._scores.shown(group)
            cells = [self._promise(env, arm, others[env]) for env in self._plan.envs]
            if set(cells) != {"-"}:
                rows.append([self._plan.groups[group].label, *cells])
        return markdown_table(["way", *self._plan.envs], rows) if rows else ""

    def choices(self) -> list[str]:
        """Returns tables of the arms that were chosen on tuning seeds."""
        plan, scores = self._plan, self._scores
        anew = "if tuning seeds were drawn anew"
        head, best = ["env", f"best of `{plan.baseline}`", anew], []
        for env in plan.envs:
            firm = self._firm(scores.choices.firmness_of_baseline(env))
            best.append([env, self._name(scores.choices.best_of_baseline(env)), firm])
        if plan.constants:
            head.append("best of all constants")
            for env, row in zip(plan.envs, best, strict=True):
                row.append(self._name(scores.choices.best_of_constants(env)))
        tables = [markdown_table(head, best)]
        rows = [
            [group.label, f"`{group.over}`", f"`{plan.value(scores.choices.chosen(name))}`",
             self._firm(scores.choices.firmness(name)), f"`{', '.join(map(str, group.values))}`"]
            for name, group in plan.groups.items() if group.choose
        ]  # fmt: skip
        if rows:
            head = ["way", "key", "chosen for all envs", anew, "of"]
            tables.append(markdown_table(head, rows))
        return tables

    def budget(self) -> str:
        """Returns the runs that the page is made of, and those that chose arms."""
        rows = []
        for env in self._plan.envs:
            seeds = self._scores.trained(env)
            steps, updates = (sum(getattr(s, of) for s in seeds) for of in ("env_steps", "updates"))
            ranges = self._plan.tuned(env), self._plan.fresh(env)
            dates = sorted({of.date for of in seeds})
            rows.append(
                [env, f"{len(seeds):,}", *(f"{of.start} to {of.stop - 1}" for of in ranges),
                 f"{steps / 1e6:,.1f} million", f"{updates / 1e6:,.1f} million",
                 " and ".join(sorted({s.processor for s in seeds})),
                 " to ".join(dict.fromkeys([dates[0], dates[-1]] if dates else "-")),
                 " and ".join(sorted({in_words(s.versions) for s in seeds}))]
            )  # fmt: skip
        head = [
            *("env", "runs", "tuning seeds", "fresh seeds", "env steps", "updates"),
            *("processor", "dates", "versions"),
        ]
        return markdown_table(head, rows)

    def _estimates(self, env: str, groups: Sequence[str], scores: Mapping[str, Score]) -> str:
        number, rows = self._format(env), []
        for arm in [arm for group in groups for arm in self._scores.shown(group)]:
            found = [self._scores.estimate(env, arm, of) for of in scores.values()]
            rows.append([self._name(arm), *(_said(of, number) for of in found)])
        return markdown_table(["arm", *scores], rows)

    def _difference(
        self, env: str, group: str, others: Mapping[str, ComparedArm], score: Score
    ) -> Difference | None:
        (arm,) = self._scores.shown(group)
        return self._scores.difference(env, arm, others[env], score)

    def _promise(self, env: str, arm: ComparedArm, other: ComparedArm) -> str:
        promised = self._scores.choices.promised(env, arm)
        if promised is None or not (found := self._scores.difference(env, arm, other, area)):
            return "-"
        number = partial(_signed, self._format(env))
        return f"{number(promised)} → {number(found.estimate.value)}"

    def _bold(
        self, family: Sequence[str], score: Score, others: Mapping[str, ComparedArm]
    ) -> set[tuple[str, str]]:
        """Returns (group, env) of the family's differences that are other than 0."""
        p = {}
        for group in dict.fromkeys(family):
            for env in self._plan.envs:
                if group in self._plan.groups_on(env) and env in others:
                    found = self._difference(env, group, others, score)
                    if found and found.p is not None:
                        p[group, env] = found.p
        return {
            at for at, corrected in zip(p, holm([*p.values()]), strict=True) if corrected < 0.05
        }

    def _firm(self, shares: Sequence[tuple[ComparedArm, float]]) -> str:
        named = [(self._plan.value(arm), share) for arm, share in shares if share >= _LEAST_SHARE]
        return ", ".join(f"`{value}` in {share:.0%}" for value, share in named) or "-"

    def _name(self, arm: ComparedArm) -> str:
        return f"`{self._plan.name(arm)}`"

    def _format(self, env: str) -> Format:
        arm = self._scores.choices.best_of_baseline(env)
        return number_format(max(abs(value) for value in self._scores.of(env, arm, final)))


def _said(estimate: Estimate, number: Format) -> str:
    value, between = estimate_cells(estimate, number)
    return f"{value} {between}" if estimate.interval else value


def _signed(number: Format, value: float) -> str:
    said = number(value)
    return f"+{said}" if value > 0 else said
