"""Tables of the study's finished runs, beside its page; trains nothing.

    python docs/study/evidence.py docs/rows/study_period > docs/study_evidence.md

In Markdown, of fresh seeds: how fast Q values climb, what they say of a run's second half,
which curves rank arms, and a swap beside the same run without it.
"""

import itertools
import sys
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from agents.compare.areas import quarter, second_half
from agents.compare.differences import paired
from agents.compare.kept import load_kept
from agents.compare.plan import Arm, load_plan
from agents.compare.scores import Scores
from agents.results.page import markdown_table

QUARTERS = "first quarter", "second", "third", "last"
PAID_ONCE, PAID_EACH_STEP = ("Catch",), ("CartPole", "Acrobot")  # 1 or -1
CLASSES = 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 10.0, np.inf  # of mean Q over what is reached


class Study:
    """The fresh seeds of every arm that has any, by env and by the arm's name."""

    def __init__(self, rows):
        loaded = load_plan(Path(__file__).with_name("periods.toml"))
        kept, plan = load_kept(loaded, rows), loaded.plan
        self.plan, self.seeds, self.configs = plan, {}, {}
        self.scores = Scores(loaded, kept)
        self.scores.require(self.scores.choices.tuning())
        self.scores.require(self.scores.fresh())
        for env in plan.envs:
            for group in plan.groups_on(env):
                for arm in plan.arms(group):
                    of = kept[env, arm]
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

    def reached(self, env):
        """The value of a state from which the best constant's final return is still to come."""
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
    """Mean |Q| in each quarter beside that of as many steps ahead as there were copies."""
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
            size = abs(sign(of, "learn/q_mean", 1)) / study.reached(env)
            found.append((size, second_half(of), name))
    for low, high in itertools.pairwise(CLASSES):
        there = [(score, name) for size, score, name in found if low <= size < high]
        if there:
            words = f"{low:g} to {high:g}" if np.isfinite(high) else f"over {low:g}"
            arms = len({name for _, name in there})
            rows.append(
                [words, str(len(there)), str(arms), f"{np.mean([s for s, _ in there]):.3g}"]
            )
    head = ["mean absolute Q / what is reached", "runs", "of arms", "area, second half"]
    return markdown_table(head, rows)


def ranking(study):
    """Rank correlation, over arms, of what a curve showed early with the second half's score."""
    tags = "learn/td_error_mean_abs", "target/distance", "learn/q_mean", "learn/gradient_norm"
    rows = []
    for tag in tags:
        cells = []
        for env in study.plan.envs:
            arms = study.arms(env)
            shown = [np.median([sign(of, tag, 1) for of in study.seeds[env, a]]) for a in arms]
            cells.append(correlation(shown, later(study, env, arms)))
        rows.append([f"`{tag}`", *cells])
    cells = []
    for env in study.plan.envs:
        arms = study.arms(env)
        sizes = [
            np.median([abs(sign(of, "learn/q_mean", 1)) for of in study.seeds[env, a]])
            for a in arms
        ]
        away = -np.abs(np.log(np.maximum(sizes, 1e-3) / study.reached(env)))
        cells.append(correlation(away, later(study, env, arms)))
    rows.append(["nearness of mean absolute Q to what is reached", *cells])
    return markdown_table(["curve in the second quarter", *study.plan.envs], rows)


def later(study, env, arms):
    return [np.mean([*map(second_half, study.seeds[env, a])]) for a in arms]


def correlation(shown, scores):
    there = np.isfinite(shown)
    found = spearmanr(np.array(shown)[there], np.array(scores)[there]).statistic
    return f"{found:+.2f} ({there.sum()} arms)"


def sizes(study, env):
    """Mean Q in each quarter of the best period and of what was chosen of each way."""
    plan, choices = study.plan, study.scores.choices
    names = [plan.name(choices.best_of_baseline(env))]
    for section in plan.sections:
        for group in section.differences:
            arm = choices.chosen(group) if plan.groups[group].choose else Arm(group, 0)
            names.append(plan.name(arm))
    rows = []
    for name in names:
        seeds = study.seeds[env, name]
        cells = [np.mean([sign(of, "learn/q_mean", i) for of in seeds]) for i in range(4)]
        rows.append([f"`{name}`", *(f"{of:.3g}" for of in cells)])
    return markdown_table(["arm", *QUARTERS], rows)


def swapped(study):
    """Swaps at half-time, beside the same runs without them."""
    rows = []
    for arm in study.scores.choices.chosen("swap"), Arm("shorten", 0):
        (_, before), (_, after) = study.plan.changes(arm)["sync_period"]["fractions"]
        for env in study.plan.envs:
            ours = study.seeds[env, study.plan.name(arm)]
            theirs = study.seeds[env, f"hard-{before}"]
            half = [len([s for s, _ in of.curve if s <= of.env_steps / 2]) for of in ours]
            pairs = zip(ours, theirs, half, strict=True)
            same = sum(a.curve[:n] == b.curve[:n] for a, b, n in pairs)
            size = np.median([abs(sign(of, "learn/q_mean", 1)) for of in theirs])
            cells = [f"{before} → {after}", f"{size / study.reached(env):.2g}"]
            cells += [f"{same} of {len(ours)}"]
            for score in second_half, partial(quarter, 3):
                of = paired([*map(score, ours)], [*map(score, theirs)]).estimate
                cells.append("{:+.3g} [{:+.3g}, {:+.3g}]".format(of.value, *of.interval))
            rows.append([env, *cells])
    head = ["env", "swap", "mean absolute Q / what is reached, before it"]
    head += ["same curve before it", "area, second half", "last quarter"]
    return markdown_table(head, rows)


def main():
    study = Study(Path(sys.argv[1]))
    command = "python docs/study/evidence.py docs/rows/study_period > docs/study_evidence.md"
    about = "of the fresh seeds of [the study](study_period.md). *What is reached* is the value "
    about += "of a state from which the best constant's final return is still to come: "
    about += ", ".join(f"{study.reached(env):.3g} on {env}" for env in study.plan.envs)
    parts = ["# Evidence", f"Made by\n\n```\n{command}\n```\n\n{about}."]
    parts += [
        "## How fast Q values climb",
        "Measured and predicted mean absolute Q. The prediction has nothing that was fitted: after "
        "n copies it is `(1 - discount ** (n + 1)) / (1 - discount)`, what n + 1 rewards come to.",
    ]
    for env in PAID_EACH_STEP:
        parts += [f"### Q on {env}", climbing(study, env)]
    parts += ["## The size of Q values, run by run, and what came after it"]
    for env in study.plan.envs:
        parts += [f"### {env}", by_size(study, env)]
    parts += ["## Which curves rank arms (Spearman's rank correlation)", ranking(study)]
    parts += ["## Mean Q of each way"]
    for env in study.plan.envs:
        parts += [f"### Ways on {env}", sizes(study, env)]
    parts += ["## Swaps, beside the same runs without them", swapped(study)]
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
