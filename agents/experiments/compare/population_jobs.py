"""The jobs that train what is missing of a comparison: runs of one form, as populations."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from targetnet.agents.config.files import dump_config
from targetnet.agents.config.live_values import live_knobs
from targetnet.agents.config.members import load_members, population_text
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.compare.arms import ArmRuns, FinishedArms
from targetnet.agents.experiments.compare.plan import LoadedPlan, RequestedRun
from targetnet.agents.experiments.jobs import Job
from targetnet.agents.experiments.training_job import run_paths, training_job
from targetnet.rl_core.errors import RlCoreError, RunDirError


def jobs_for(
    loaded: LoadedPlan, wanted: Iterable[RequestedRun], finished: FinishedArms, out: Path
) -> list[Job]:
    """Returns the jobs of the populations in which a run is missing.

    A population that was interrupted, or of which a member has failed, goes on in its directory.
    Runs that are missing elsewhere come together in new ones. Arms that are alike have their runs
    in common.

    Args:
      wanted: all runs that the comparison needs now.
      finished: the jobs add to them.
      out: directory of populations and logs.

    Raises:
      RunDirError: a population's config cannot be written.
    """
    forms: dict[tuple[str, str], list[RequestedRun]] = {}
    for run in finished.distinct(wanted):
        forms.setdefault((run.env, _form(loaded.config(*run))), []).append(run)
    jobs = []
    for runs in forms.values():
        begun = _begun(loaded, runs, finished, out)
        under_way = {run for of in begun for run in of.members}
        left = [run for run in runs if run not in under_way and run not in finished]
        together = loaded.plan.together
        new = [left[first : first + together] for first in range(0, len(left), together)]
        jobs += [
            _job(loaded, of, finished, out) for of in (*begun, *(_new(loaded, of) for of in new))
        ]
    return jobs


class _Population(NamedTuple):
    """Runs that one process trains together."""

    members: Sequence[RequestedRun]
    name: str


def _begun(
    loaded: LoadedPlan, runs: Sequence[RequestedRun], finished: FinishedArms, out: Path
) -> list[_Population]:
    """Returns the populations of these runs that have a directory and are not finished.

    A run is in one of them at most.
    """
    of_config = {dump_config(loaded.config(*run)): run for run in runs}
    found: list[_Population] = []
    taken: set[RequestedRun] = set()
    for file in sorted((out / "runs").glob("*.toml")):
        if not file.with_suffix("").is_dir():
            continue
        with contextlib.suppress(RlCoreError):  # a file of something else
            listed = load_members(file)
            configs = list(listed.configs.values()) if listed else []
            members = [run for of in configs if (run := of_config.get(dump_config(of)))]
            if not members or len(members) < len(configs) or taken & {*members}:
                continue
            if not all(run in finished for run in members):
                found.append(_Population(members, file.stem))
                taken |= {*members}
    return found


def _new(loaded: LoadedPlan, runs: Sequence[RequestedRun]) -> _Population:
    text = population_text([loaded.config(*run) for run in runs])
    return _Population(runs, f"{runs[0].env}-{hashlib.sha256(text.encode()).hexdigest()[:12]}")


def _form(config: DqnConfig) -> str:
    """Returns all of a config but what members may differ in."""
    live = {knob.name for knob in live_knobs(config)}
    fixed = config.model_dump(mode="json", exclude={"seed", *live})
    return json.dumps([fixed, sorted(live)], sort_keys=True)


def _job(loaded: LoadedPlan, population: _Population, finished: FinishedArms, out: Path) -> Job:
    members, name = population
    path = out / "runs" / name
    runs = dict(zip(members, run_paths(path, len(members), alone=False), strict=True))
    names = list(dict.fromkeys(loaded.plan.name(run.arm) for run in members))
    arms = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

    def fail(line: str) -> bool:
        with contextlib.suppress(RunDirError):  # what failed is told already
            _keep(runs, finished)  # the others
        return True

    return training_job(
        f"{name} ({arms}, {len(members)} runs)",
        path,
        [loaded.config(*run) for run in members],
        out / "logs" / f"{name}.log",
        alone=False,
        finish=partial(_keep, runs, finished),
        fail=fail,
    )


def _keep(runs: Mapping[RequestedRun, Path], finished: FinishedArms) -> None:
    by_arm: dict[ArmRuns, dict[int, Path]] = {}
    for run, path in runs.items():
        if run not in finished:
            by_arm.setdefault(finished.of(run.env, run.arm), {})[run.seed] = path
    for arm, found in by_arm.items():
        arm.add(found)
