"""The jobs that train what is missing: runs of one form, as populations."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from targetnet.agents.compare.arm_results import Kept
from targetnet.agents.compare.plan import ComparedArm, LoadedPlan, RequestedRun
from targetnet.agents.config.files import dump_config
from targetnet.agents.config.live_values import live_knobs
from targetnet.agents.config.members import load_members, names_for, population_text
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.results.jobs import Job
from targetnet.agents.results.seeds import TRAIN, env_steps_of_all, portable
from targetnet.agents.saved.directory import write_file
from targetnet.rl_core.errors import RlCoreError, RunDirError


def jobs_for(
    loaded: LoadedPlan, wanted: Iterable[RequestedRun], kept: Kept, out: Path
) -> list[Job]:
    """Returns the jobs of the populations in which a run is missing.

    A population that was interrupted, or of which a member has failed, goes on in its directory.
    Runs that are missing elsewhere come together in new ones. Arms that are alike have their runs
    in common.

    Args:
      wanted: all runs that the comparison needs now.
      kept: what is finished; the jobs add to it.
      out: directory of populations and logs.

    Raises:
      RunDirError: a population's config cannot be written.
    """
    forms: dict[tuple[str, str], list[RequestedRun]] = {}
    seen = set()
    for run in wanted:
        alike = id(kept[run.env, run.arm]), run.seed
        if alike not in seen:
            seen.add(alike)
            form = _form(loaded.config(*run))
            forms.setdefault((run.env, form), []).append(run)
    jobs = []
    for runs in forms.values():
        begun = _begun(loaded, runs, kept, out)
        under_way = {run for of in begun for run in of.members}
        left = [run for run in runs if run not in under_way and not _is_finished(run, kept)]
        jobs += [_job(loaded, of, kept, out) for of in (*begun, *_populations(loaded, left))]
    return jobs


def _begun(
    loaded: LoadedPlan, runs: Sequence[RequestedRun], kept: Kept, out: Path
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
            of = _Population(tuple(members), configs[0], file.read_bytes(), file.stem)
            if of.lacks(kept):
                found.append(of)
                taken |= {*members}
    return found


def _is_finished(run: RequestedRun, kept: Kept) -> bool:
    return run.seed in kept[run.env, run.arm].seeds


class _Population(NamedTuple):
    """Runs that one process trains together."""

    members: tuple[RequestedRun, ...]
    config: DqnConfig  # of the first
    text: bytes  # the file of the population
    name: str

    def path(self, out: Path) -> Path:
        return out / "runs" / self.name

    def lacks(self, kept: Kept) -> list[RequestedRun]:
        """Returns those that are not finished."""
        return [of for of in self.members if not _is_finished(of, kept)]


def _populations(loaded: LoadedPlan, runs: Sequence[RequestedRun]) -> list[_Population]:
    found, together = [], loaded.plan.together
    for first in range(0, len(runs), together):
        found.append(_population(loaded, runs[first : first + together]))
    return found


def _population(loaded: LoadedPlan, runs: Sequence[RequestedRun]) -> _Population:
    configs = [loaded.config(*of) for of in runs]
    text = population_text(configs).encode()
    name = f"{runs[0].env}-{hashlib.sha256(text).hexdigest()[:12]}"
    return _Population(tuple(runs), configs[0], text, name)


def _form(config: DqnConfig) -> str:
    """Returns all of a config but what members may differ in."""
    live = {knob.name for knob in live_knobs(config)}
    fixed = config.model_dump(mode="json", exclude={"seed", *live})
    return json.dumps([fixed, sorted(live)], sort_keys=True)


def _job(loaded: LoadedPlan, population: _Population, kept: Kept, out: Path) -> Job:
    members, name, path = population.members, population.name, population.path(out)
    file = path.with_name(f"{name}.toml")
    write_file(file, population.text, make_parents=True)
    runs = dict(zip(members, (path / of for of in names_for(len(members))), strict=True))

    def failed(line: str) -> bool:
        with contextlib.suppress(RunDirError):  # what failed is told already
            _keep(runs, kept)  # the others
        return True

    return Job(
        f"{name} ({_said(loaded, members)})",
        [*TRAIN, str(file), "--run", str(path), "--resume"],
        out / "logs" / f"{name}.log",
        partial(env_steps_of_all, runs.values()),
        partial(_keep, runs, kept),
        failed,
        portable=portable(population.config, path, [*runs.values()], {str(file): population.text}),
    )


def _said(loaded: LoadedPlan, members: Sequence[RequestedRun]) -> str:
    names = list(dict.fromkeys(loaded.plan.name(of.arm) for of in members))
    of = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{of}, {len(members)} runs"


def _keep(runs: Mapping[RequestedRun, Path], kept: Kept) -> None:
    by_arm: dict[tuple[str, ComparedArm], dict[int, Path]] = {}
    for run, path in runs.items():
        if run.seed not in kept[run.env, run.arm].seeds:
            by_arm.setdefault((run.env, run.arm), {})[run.seed] = path
    for arm, found in by_arm.items():
        kept[arm].add(found)
