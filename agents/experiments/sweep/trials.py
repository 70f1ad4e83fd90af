"""The trials of a sweep, trained in child processes in an order that makes no difference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from targetnet.agents.experiments.jobs import Job
from targetnet.agents.experiments.sweep.plan import SweepPlan
from targetnet.agents.experiments.sweep.study import Study
from targetnet.agents.experiments.sweep.trial import Trial, TrialGroup
from targetnet.rl_core.errors import RlCoreError

_TRIES = 3  # that a process is killed, by a system without memory for instance
_HOPELESS = 3  # trials from the first on that fail: then all would


class Trials:
    """All trials of a sweep, begun one after the other.

    A trial is proposed, and perhaps stopped, by what the groups came to that are at least
    `plan.ahead` older, even if a younger one has ended before. So the trials of a sweep depend on
    its plan alone.

    Args:
      plan, study: the sweep's.
      wanted: number of trials.
      directory: of their runs.
      logs: directory for what the processes print.
    """

    def __init__(
        self, plan: SweepPlan, study: Study, wanted: int, directory: Path, logs: Path
    ) -> None:
        self._plan, self._study, self._directory, self._logs = plan, study, directory, logs
        self._wanted = wanted
        self._groups: list[TrialGroup] = []

    def __len__(self) -> int:
        """Returns the number of groups."""
        return -(-self._wanted // self._plan.together)

    def jobs(self) -> Iterator[Job | None]:
        """Yields the jobs of all groups that are not over; None while the next cannot begin."""
        while len(self._groups) < len(self):
            known = self._known_to(len(self._groups))
            # Looked at, so that the study knows of a result whose process has not ended yet.
            while not all(self._look_at(group) for group in known):
                yield None
            group = self._begin(sum(len(before.trials) for before in known))
            self._groups.append(group)
            self._look_at(group)
            if not group.is_over:
                group.wait_for_another()
                yield self._job(group)

    def title(self) -> str:
        """Returns the name of the bar of all jobs, with the best score so far."""
        best = self._study.best()
        return f"best {best.value:,.1f} (trial {best.number})" if best else "trials"

    # Beginning groups.

    def _known_to(self, number: int) -> list[TrialGroup]:
        """Returns the groups that one of this number is proposed from."""
        return self._groups[: max(0, number + 1 - self._plan.ahead)]

    def _begin(self, known: int) -> TrialGroup:
        number = len(self._groups)
        first = number * self._plan.together
        count = min(self._plan.together, self._wanted - first)
        missing = first + count - len(self._study.trials)
        if missing > 0:
            self._study.ask(missing, known)
        proposed = self._study.trials[first : first + count]
        return TrialGroup(self._plan, number, proposed, self._directory)

    def _job(self, group: TrialGroup) -> Job:
        return group.job(
            self._logs / f"{group.number:03}.log",
            finish=partial(self._finish, group),
            fail=partial(self._fail, group),
            enough=partial(self._look_at, group),
            tries=_TRIES,
        )

    # Watches, and ends.

    def _look_at(self, group: TrialGroup) -> bool:
        """Stops trials that are worse than others; says whether the whole group is over."""
        known = sum(len(before.trials) for before in self._known_to(group.number))
        for trial in group.trials:
            if self._plan.prune and not trial.is_known:
                self._stop_if_worse(group, trial, known)
            elif trial.is_stopped_in_vain:
                group.stop(trial)
            self._tell(trial)
        return group.is_over

    def _stop_if_worse(self, group: TrialGroup, trial: Trial, known: int) -> None:
        curve = trial.curve()
        for length in range(1, len(curve) + 1):
            if self._study.is_worse(curve[:length], known):
                trial.stopped = length
                group.stop(trial)
                return

    def _finish(self, group: TrialGroup) -> str:
        """Returns what a group came to, as a line for the screen."""
        self._look_at(group)
        self._end(group, "it ended without a result")
        return f"{group.name}: {', '.join(trial.said(self._plan.score) for trial in group.trials)}"

    def _fail(self, group: TrialGroup, line: str) -> bool:
        self._look_at(group)
        self._end(group, line)
        ended = [trial for group in self._groups for trial in group.trials if trial.is_over]
        if len(ended) >= min(_HOPELESS, self._wanted) and all(trial.error for trial in ended):
            raise RlCoreError(f"the first {len(ended)} trials failed; the last one: {line}")
        return False

    def _end(self, group: TrialGroup, error: str) -> None:
        """Ends the trials of a group whose process has ended."""
        for trial in group.trials:
            if not trial.is_over:
                trial.error = error
                self._tell(trial)

    def _tell(self, trial: Trial) -> None:
        """Tells the study of a trial's end."""
        if trial.told or not trial.is_over:
            return
        curve: list[float] = []
        score = None
        if trial.stopped is not None:
            curve = trial.curve()[: trial.stopped]
        elif not trial.error:
            curve, score = trial.whole_curve(), trial.score(self._plan.score)
        about = trial.about(self._plan.seeds_of(trial.number))
        self._study.tell(trial.number, curve, score, about)
        trial.told = True
