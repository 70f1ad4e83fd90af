"""The best trials of a sweep, trained again with seeds that nothing was chosen by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from targetnet.agents.config.files import dump_config
from targetnet.agents.experiments.jobs import Job
from targetnet.agents.experiments.results.seeds import ConfigSeeds
from targetnet.agents.experiments.results.table import Summary, summarize
from targetnet.agents.experiments.store import ResultStore
from targetnet.agents.experiments.sweep.plan import SweepPlan
from targetnet.agents.saved.directory import write_file

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

WINNER = "winner.toml"


class RetrainedTrial(NamedTuple):
    """A trial beside its score with fresh seeds.

    Attributes:
      trial: the trial.
      config: path of its config.
      summary: of the fresh seeds; None if none has ended.
    """

    trial: FrozenTrial
    config: Path
    summary: Summary | None


class FreshSeeds:
    """Fresh seeds of the best trials.

    Args:
      plan: the sweep's.
      ranking: the trials, the best first.
      seeds: their fresh seeds.
      directory: of the sweep.
      together: seeds of one process.
    """

    def __init__(
        self,
        plan: SweepPlan,
        ranking: Sequence[FrozenTrial],
        seeds: range,
        directory: Path,
        together: int,
    ) -> None:
        self._ranking = ranking
        place = directory / "fresh"
        self._configs = [place / f"trial-{trial.number:03}.toml" for trial in ranking]
        texts = [_text(plan, trial) for trial in ranking]
        for path, text in zip(self._configs, texts, strict=True):
            write_file(path, text.encode(), make_parents=True)
        if texts:
            write_file(directory / WINNER, texts[0].encode())
        store = ResultStore(place / "rows.jsonl")
        self._seeds = [
            ConfigSeeds(str(path), seeds, place, store, together) for path in self._configs
        ]
        for seeds_of in self._seeds:
            seeds_of.require_same_config()

    def jobs(self) -> list[Job]:
        """Returns the jobs that train what is not trained yet."""
        return [job for seeds in self._seeds for job in seeds.jobs()]

    def keep_finished(self, say: Callable[[str], None]) -> None:
        """Stores the runs that have ended since."""
        for seeds in self._seeds:
            seeds.keep_finished(say)

    def all(self) -> list[RetrainedTrial]:
        """Returns the trials with their scores, the best by tuning seeds first."""
        rows = [seeds.row() for seeds in self._seeds]
        summaries = [summarize(row) if row.seeds else None for row in rows]
        return [
            RetrainedTrial(*of) for of in zip(self._ranking, self._configs, summaries, strict=True)
        ]


def _text(plan: SweepPlan, trial: FrozenTrial) -> str:
    values = "".join(f"#   {n} = {v}\n" for n, v in plan.space.values(trial.params).items())
    seeds = ", ".join(map(str, plan.seeds_of(trial.number)))
    return (
        f"# Trial {trial.number} of a sweep: score {trial.value:,.1f} with tuning seed {seeds}.\n"
        f"# What was searched:\n{values}{dump_config(plan.space.config(trial.params))}"
    )
