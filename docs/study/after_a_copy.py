"""TD errors by the age of the target, and the ages at which triggers copy.

    python docs/study/after_a_copy.py OUT > docs/study/after_a_copy.txt

Trains twelve populations of five seeds to directories in OUT, for ten minutes on one core, and
prints the last section of the evidence. What is finished there is not trained again.
"""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np

from targetnet.agents.config.members import read_members
from targetnet.agents.experiments.compare.arms import FinishedArms
from targetnet.agents.experiments.compare.plan import load_plan
from targetnet.agents.experiments.report import markdown_table
from targetnet.agents.experiments.store import ResultStore
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.board.read_events import read_curves
from targetnet.rl_core.control.population import POPULATION

HERE = Path(__file__).parent
ENVS = "CartPole", "Acrobot", "Catch", "Breakout"
PERIOD = 1_000
DENSE = {"sync_period": PERIOD, "chunk": 10, "log_period": 10}  # points are at the ends of chunks
TRIGGERS = "fit-0.7", "distance-0.01"  # arms of the study
AGES = 0, 10, 20, 50, 100, 200, 500, PERIOD
QUARTERS = "first quarter", "second", "third", "last"
SEEDS = 5


def train(out, env, name, settings):
    """Returns the run directories of five fresh seeds; those that are finished are not trained."""
    directory = out / f"{env}-{name}"
    command = ["targetnet", "train", str(HERE / f"{env.lower()}.toml"), "--run", str(directory)]
    command += ["--resume", "--seed", "5000", "--seeds", str(SEEDS)]
    command += ["--set", *(f"{key}={value}" for key, value in settings.items())]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return [directory / name for name in read_members(directory / POPULATION).configs]


def error_by_age(runs):
    """The mean TD error at each age of the target, from the second quarter on.

    One in a hundred has no count of updates at the same env step and is left out.
    """
    found = [[] for _ in AGES[1:]]
    for run in runs:
        curves = read_curves(run, ("learn/td_error_mean_abs", "learn/updates", "target/age"))
        updates, errors = dict(curves["learn/updates"]), curves["learn/td_error_mean_abs"]
        copied = [step for step, _ in curves["target/age"]]
        # Of each copy, the update at which it was made; the target is new at first, too.
        made = [0, *itertools.accumulate(age for _, age in curves["target/age"])]
        start = errors[-1][0] / 4
        for step, error in errors:
            if step >= start and step in updates:
                age = updates[step] - made[np.searchsorted(copied, step, side="right")]
                found[np.searchsorted(AGES, age, side="right") - 1].append(error)
    return [np.mean(of) for of in found]


def ages_at_copies(runs):
    """The ages at which the target was copied, in each quarter; of many copies some are drawn."""
    found = [[] for _ in QUARTERS]
    for run in runs:
        config = RunDir.open(run).config()
        for step, age in read_curves(run, ("target/age",))["target/age"]:
            found[min(4 * step // config.env_steps, 3)].append(age)
    return found


def digests_alike(runs, seeds):
    """Counts the runs with the digest that the study's run of this seed had."""
    ours = [RunDir(run).load_digest().digest for run in runs]
    return sum(of == seeds[5_000 + i].digest for i, of in enumerate(ours))


def main():
    out = Path(sys.argv[1])
    loaded = load_plan(HERE / "periods.toml")
    finished = FinishedArms(loaded, ResultStore(HERE.parent / "rows" / "study_period.jsonl"))
    arms = {loaded.plan.name(arm): arm for _, arm in loaded.configs}
    errors, ages = [], []
    for env in ENVS:
        by_age = error_by_age(train(out, env, f"hard-{PERIOD}", DENSE))
        errors.append([env, *(f"{of:.3g}" for of in by_age)])
        for name in TRIGGERS:
            runs = train(out, env, name, loaded.plan.changes(arms[name]))
            alike = digests_alike(runs, finished.of(env, arms[name]).seeds)
            cells = [
                f"{np.median(of):.0f} ({np.quantile(of, 0.1):.0f} to {np.quantile(of, 0.9):.0f})"
                if of
                else "no copy"
                for of in ages_at_copies(runs)
            ]
            ages.append([env, f"`{name}`", *cells, f"{alike} of {len(runs)}"])
    classes = [f"{low} to {high}" for low, high in itertools.pairwise(AGES)]
    parts = [
        "## After a copy",
        "More of the curves, from runs like those of the study that `python "
        f"docs/study/after_a_copy.py OUT` trained again with seeds 5000 to {5000 + SEEDS - 1}.",
        "### How soon a target is learned",
        "Mean `learn/td_error_mean_abs` by the target's age, the updates since the last copy, of "
        f"{PERIOD:,} from copy to copy; from the second quarter of the runs on. These runs have "
        "shorter chunks than the study's, so they are not its runs.",
        markdown_table(["env", *classes], errors),
        "### The ages at which triggers copied",
        "Medians of `target/age` in each quarter, in updates; in brackets the 10th and the 90th "
        "percentile. The last column: how many of these runs have the digest of the "
        "study's run.",
        markdown_table(["env", "arm", *QUARTERS, "same digest"], ages),
    ]
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
