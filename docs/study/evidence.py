"""Tables of the study's finished runs, beside its page; trains nothing.

    python docs/study/evidence.py docs/rows/study_period.jsonl > docs/explanation/study_evidence.md

In Markdown, of fresh seeds: how fast Q values climb, what they say of a run's second half,
which curves rank arms, how many runs end well, swaps beside the same runs without them, and what
after_a_copy.py found.
"""

import itertools
import sys
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from targetnet.agents.experiments.compare.arms import (
    FinishedArms,
    area,
    final,
    quarter,
    second_half,
)
from targetnet.agents.experiments.compare.plan import ComparedArm, load_plan
from targetnet.agents.experiments.compare.scores import Scores
from targetnet.agents.experiments.report import markdown_table
from targetnet.agents.experiments.statistics import paired
from targetnet.agents.experiments.store import ResultStore

QUARTERS = "first quarter", "second", "third", "last"
# 1 or -1 at the end of an episode, or at each step. Of other envs no start value can be told.
PAID_ONCE, PAID_EACH_STEP = ("Catch",), ("CartPole", "Acrobot")
CLASSES = 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 10.0, np.inf  # of mean Q over the start value
# CartPole and Acrobot: Gymnasium's marks of what is solved.
GOOD = {"CartPole": 475, "Acrobot": -100, "Catch": 0.95}
POOR = {"CartPole": 100, "Acrobot": -400, "Catch": 0.0}


class Study:
    """The fresh seeds of every arm that has any, by env and by the arm's name."""

    def __init__(self, rows):
        loaded = load_plan(Path(__file__).with_name("periods.toml"))
        finished, plan = FinishedArms(loaded, ResultStore(rows)), loaded.plan
        self.plan, self.seeds, self.configs = plan, {}, {}
        self.scores = Scores(plan, finished)
        finished.require(self.scores.choices.tuning())
        finished.require(self.scores.fresh())
        for env in plan.envs:
            for group in plan.groups_on(env):
                for arm in plan.arms(group):
                    of = finished.of(env, arm)
                    fresh = [of.seeds[n] for n in plan.fresh(env) if n in of.seeds]
                    if len(fresh) == len(plan.fresh(env)):
                        self.seeds[env, plan.name(arm)] = fresh
                        self.configs[env, plan.name(arm)] = loaded.config(env, arm, 5_000)

    def arms(self, env):
        """Names of an env's arms, those with the same runs once.

        Without HL-Gauss, whose values cannot leave the range of its atoms, and without swaps: what
        was seen before them is of another period.
        """
        found = {}
        for (of, name), seeds in self.seeds.items():
            scalar = self.configs[of, name].head == "scalar"
            if of == env and scalar and not name.startswith(("swap", "shorten")):
                found.setdefault(tuple(seed.digest for seed in seeds), name)
        return [*found.values()]

    def paid(self):
        """The envs of which a start value can be told."""
        return [env for env in self.plan.envs if env in PAID_ONCE + PAID_EACH_STEP]

    def words(self, arm):
        """A group's label, and what was chosen of its values."""
        group, value = self.plan.groups[arm.group], self.plan.value(arm)
        if value is None:
            return group.label
        if isinstance(value, dict):
            ends = [of for _, of in value.get("fractions", ())] or [value["start"], value["end"]]
            value = " → ".join(f"{of:,}" for of in ends)
        return f"{group.label}: {value}"

    def trained(self, arm):
        """The envs on which an arm was trained."""
        return [env for env in self.plan.envs if arm.group in self.plan.groups_on(env)]

    def of(self, env, arm):
        return self.seeds[env, self.plan.name(arm)]

    def start_value(self, env):
        """The value of a state from which the best hard arm's final return is still to come."""
        name = self.plan.name(self.scores.choices.best_of_baseline(env))
        size = abs(np.mean([of.mean for of in self.seeds[env, name]]))
        discount = self.configs[env, name].discount
        if env in PAID_ONCE:
            return size
        assert env in PAID_EACH_STEP, f"say how {env} pays"
        return (1 - discount**size) / (1 - discount)


def sign(seed, tag, number):
    """A curve's mean in a quarter of the run; not a number where it has no point."""
    value = seed.signs[tag][number]
    return np.nan if value is None else value


def climbing(study, env):
    """The size of mean Q in each quarter, beside that of so many rewards as there were copies."""
    rows = []
    for value in study.plan.groups["hard"].values:
        name = f"hard-{value}"
        config, cells = study.configs[env, name], []
        for number in range(4):
            size = np.mean([abs(sign(of, "learn/q_mean", number)) for of in study.seeds[env, name]])
            cells.append(f"{size:.3g}, predicted {ahead(config, number):.3g}")
        rows.append([f"`{name}`", *cells])
    return markdown_table(["arm", *QUARTERS], rows)


def ahead(config, number):
    """(1 - discount^(n + 1)) / (1 - discount) after n copies, at the points of a quarter."""
    points = np.arange(config.log_period, config.env_steps + 1, config.log_period)
    points = points[np.minimum(4 * points // config.env_steps, 3) == number]
    points = points[points >= config.learn_start]
    copies = (points - config.learn_start) // config.sync_period
    return np.mean((1 - config.discount ** (copies + 1.0)) / (1 - config.discount))


def by_size(study, env):
    """The second half's score of all runs whose mean |Q| was of one size in the second quarter."""
    found, rows = [], []
    for name in study.arms(env):
        for of in study.seeds[env, name]:
            size = abs(sign(of, "learn/q_mean", 1)) / study.start_value(env)
            found.append((size, second_half(of), name))
    for low, high in itertools.pairwise(CLASSES):
        there = [(score, name) for size, score, name in found if low <= size < high]
        if there:
            words = f"{low:g} to {high:g}" if np.isfinite(high) else f"over {low:g}"
            arms = len({name for _, name in there})
            rows.append(
                [words, str(len(there)), str(arms), f"{np.mean([s for s, _ in there]):.3g}"]
            )
    head = ["size of mean Q / start value", "runs", "of arms", "area, second half"]
    return markdown_table(head, rows)


def within(study):
    """Rank correlation, over the runs of one hard period, of the size of mean Q with what came."""
    rows = []
    for arm in study.plan.arms("hard"):
        cells = []
        for env in study.paid():
            sizes = [abs(sign(of, "learn/q_mean", 1)) for of in study.of(env, arm)]
            cells.append(correlated(sizes, [*map(second_half, study.of(env, arm))]))
        rows.append([f"`{study.plan.name(arm)}`", *cells])
    return markdown_table(["runs of", *study.paid()], rows)


def ranking(study):
    """Rank correlation, over arms, of what a curve showed early with the second half's score."""
    tags = "learn/td_error_mean_abs", "target/distance", "learn/q_mean", "learn/gradient_norm"
    rows = []
    for tag in tags:
        cells = []
        for env in study.paid():
            shown = [
                np.median([sign(of, tag, 1) for of in study.seeds[env, a]]) for a in study.arms(env)
            ]
            cells.append(correlated(shown, later(study, env)))
        rows.append([f"`{tag}`", *cells])
    cells = []
    for env in study.paid():
        sizes = [
            np.median([abs(sign(of, "learn/q_mean", 1)) for of in study.seeds[env, a]])
            for a in study.arms(env)
        ]
        away = -np.abs(np.log(np.maximum(sizes, 1e-3) / study.start_value(env)))
        cells.append(correlated(away, later(study, env)))
    rows.append(["nearness of the size of mean Q to the start value", *cells])
    head = [f"{env} ({len(study.arms(env))} arms)" for env in study.paid()]
    return markdown_table(["curve in the second quarter", *head], rows)


def later(study, env):
    return [np.mean([*map(second_half, study.seeds[env, a])]) for a in study.arms(env)]


def correlated(shown, scores):
    if np.ptp(scores) == 0:
        return "-"
    return f"{spearmanr(shown, scores).statistic:+.2f}"


def shown(study, env):
    """The best hard arm of an env, and what was chosen of each way."""
    choices = study.scores.choices
    found = [choices.best_of_baseline(env)]
    for section in study.plan.sections:
        for group in [of for of in section.differences if of in study.plan.groups_on(env)]:
            choose = study.plan.groups[group].choose
            found.append(choices.chosen(group) if choose else ComparedArm(group, 0))
    return found


def sizes(study, env):
    """Mean Q in each quarter."""
    rows = []
    for arm in shown(study, env):
        seeds = study.of(env, arm)
        cells = [np.mean([sign(of, "learn/q_mean", i) for of in seeds]) for i in range(4)]
        rows.append([study.words(arm), *(f"{of:.3g}" for of in cells)])
    return markdown_table(["way", *QUARTERS], rows)


def ends(study, env):
    """Final returns, and the best evaluation on the way."""
    rows, arms = [], [*study.plan.arms("hard"), *shown(study, env)[1:]]
    for arm in arms:
        seeds = study.of(env, arm)
        finals = np.array([of.mean for of in seeds])
        best = np.mean([max(value for _, value in of.curve) for of in seeds])
        marks = []
        if env in GOOD:
            marks = [f"{(finals >= GOOD[env]).sum()}", f"{(finals < POOR[env]).sum()}"]
        numbers = np.median(finals), finals.mean(), best
        rows.append([study.words(arm), *marks, *(f"{of:.3g}" for of in numbers)])
    marks = [f"at least {GOOD[env]}", f"below {POOR[env]}"] if env in GOOD else []
    head = ["way", *marks, "median of final", "mean of final", "mean of the best evaluation"]
    return markdown_table(head, rows)


SCORES = {"area": area, "area, second half": second_half, "final": final}


def beside(ours, theirs, scores):
    """Differences of the same seeds, with Student's interval."""
    for score in scores:
        of = paired([*map(score, ours)], [*map(score, theirs)]).estimate
        yield "{:+.3g} [{:+.3g}, {:+.3g}]".format(of.value, *of.interval)


def swaps(study):
    """Swaps at half-time: the arm, and the periods before and after."""
    for arm in study.scores.choices.chosen("swap"), ComparedArm("shorten", 0):
        (_, before), (_, after) = study.plan.changes(arm)["sync_period"]["fractions"]
        yield arm, before, after


def swapped(study):
    """Swaps, beside the same runs without them."""
    rows = []
    for arm, before, after in swaps(study):
        for env in study.trained(arm):
            ours, theirs = study.of(env, arm), study.seeds[env, f"hard-{before}"]
            half = [len([s for s, _ in of.curve if s <= of.env_steps / 2]) for of in ours]
            pairs = zip(ours, theirs, half, strict=True)
            same = sum(a.curve[:n] == b.curve[:n] for a, b, n in pairs)
            cells = [f"{before} → {after}", "-"]
            if env in study.paid():
                size = np.median([abs(sign(of, "learn/q_mean", 1)) for of in theirs])
                cells[1] = f"{size / study.start_value(env):.2g}"
            scores = second_half, partial(quarter, 3)
            rows.append([env, *cells, f"{same} of {len(ours)}", *beside(ours, theirs, scores)])
    head = ["env", "swap", "size of mean Q / start value, before it"]
    head += ["same curve before it", "area, second half", "last quarter"]
    return markdown_table(head, rows)


def swapped_beside_100(study):
    """The same swaps, beside a period of 100 from the beginning."""
    rows = []
    for arm, before, after in swaps(study):
        for env in study.trained(arm):
            cells = beside(study.of(env, arm), study.seeds[env, "hard-100"], SCORES.values())
            rows.append([env, f"{before} → {after}", *cells])
    return markdown_table(["env", "swap", *SCORES], rows)


def one_period(study):
    """A period of 100 on all envs, beside the best constants of each."""
    rows, choices = [], study.scores.choices
    for env in study.plan.envs:
        for words, arm in (
            ("best hard arm", choices.best_of_baseline(env)),
            ("best of all constants", choices.best_of_constants(env)),
        ):
            name = study.plan.name(arm)
            if study.of(env, arm)[0].digest == study.seeds[env, "hard-100"][0].digest:
                cells = ["the same runs"] * len(SCORES)
            else:
                ours = study.seeds[env, "hard-100"]
                cells = [*beside(ours, study.of(env, arm), SCORES.values())]
            rows.append([env, f"{words}, `{name}`", *cells])
    return markdown_table(["env", "beside the", *SCORES], rows)


def main():
    study = Study(Path(sys.argv[1]))
    command = "python docs/study/evidence.py docs/rows/study_period.jsonl"
    command += " > docs/explanation/study_evidence.md"
    about = "of the fresh seeds of [the study](study_period.md). *Start value* is the value of a "
    about += "state from which the final return of the best hard arm is still to come: "
    about += ", ".join(f"{study.start_value(env):.3g} on {env}" for env in study.paid())
    print(
        f"# Evidence\n\nMade by\n\n```\n{command}\n```\n\n{about}. Of other envs it cannot be told."
    )
    for title, text, of_all, of_env in (
        ("How fast Q values climb",
         "The size of mean Q in each quarter, and what is predicted with nothing fitted: after n "
         "copies `(1 - discount ** (n + 1)) / (1 - discount)`, what n + 1 rewards come to.",
         None, climbing),
        ("The size of Q values, run by run, and what came after it",
         "All runs whose mean Q had one size in the second quarter.", None, by_size),
        ("The same among runs of one period",
         "Spearman's rank correlation of the size of mean Q in the second quarter with the area of "
         "the second half.", within, None),
        ("Which curves rank arms",
         "Spearman's rank correlation, over arms, of a curve's median in the second quarter with "
         "the area of the second half.", ranking, None),
        ("Mean Q of each way", "", None, sizes),
        ("How runs end",
         "Numbers of fresh seeds whose final return is good or poor, and what the best evaluation "
         "on the way was: how much a run has forgotten.", None, ends),
        ("Swaps, beside the same runs without them", "", swapped, None),
        ("Swaps, beside a period of 100 from the beginning", "", swapped_beside_100, None),
        ("One period of 100",
         "It was not chosen on tuning seeds, but seen on the fresh ones.", one_period, None),
    ):  # fmt: skip
        parts = [f"\n## {title}", text] + ([of_all(study)] if of_all else [])
        if of_env:
            envs = {climbing: PAID_EACH_STEP, by_size: study.paid()}.get(of_env, study.plan.envs)
            for env in envs:
                parts += [f"### {title} on {env}", of_env(study, env)]
        print("\n\n".join(part for part in parts if part))
    print("\n" + Path(__file__).with_name("after_a_copy.txt").read_text(), end="")


if __name__ == "__main__":
    main()
