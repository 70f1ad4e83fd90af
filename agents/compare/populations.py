"""The jobs that train what is missing: runs of one form, as populations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import tomli_w

from agents.compare.kept import KeptArm
from agents.compare.plan import Arm, Loaded
from agents.config.files import MEMBERS
from agents.config.live_values import live_knobs
from agents.config.members import names_for
from agents.config.model import DqnConfig
from agents.results.jobs import Job
from agents.results.seeds import TRAIN, env_steps_of_all, portable
from agents.saved.directory import write_file
from rl_core.errors import RunDirError


class Wanted(NamedTuple):
    """One run."""

    env: str
    arm: Arm
    seed: int


Kept = Mapping[tuple[str, Arm], KeptArm]


def jobs_for(loaded: Loaded, wanted: Iterable[Wanted], kept: Kept, out: Path) -> list[Job]:
    """Returns the jobs of the populations in which a run is missing.

    Which runs are one population depends on `wanted` alone, not on what is finished: so the same
    command goes on with the same directories.

    Args:
      wanted: all runs that the comparison needs now.
      kept: what is finished; the jobs add to it.
      out: directory of populations and logs.

    Raises:
      RunDirError: a population's config cannot be written.
    """
    forms: dict[tuple[str, str], list[Wanted]] = {}
    for run in wanted:
        form = _form(loaded.config(run.env, run.arm, run.seed))
        forms.setdefault((run.env, form), []).append(run)
    jobs, together = [], loaded.plan.together
    for runs in forms.values():
        for first in range(0, len(runs), together):
            members = runs[first : first + together]
            if any(of.seed not in kept[of.env, of.arm].seeds for of in members):
                jobs.append(_job(loaded, members, kept, out))
    return jobs


def _form(config: DqnConfig) -> str:
    """Returns all of a config but what members may differ in."""
    live = {knob.name for knob in live_knobs(config)}
    fixed = config.model_dump(mode="json", exclude={"seed", *live})
    return json.dumps([fixed, sorted(live)], sort_keys=True)


def _job(loaded: Loaded, members: Sequence[Wanted], kept: Kept, out: Path) -> Job:
    configs = [loaded.config(*of) for of in members]
    text = _population(configs).encode()
    name = f"{members[0].env}-{hashlib.sha256(text).hexdigest()[:12]}"
    path, file = out / "runs" / name, out / "runs" / f"{name}.toml"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot write {file}: {error.strerror}") from None
    write_file(file, text)
    runs = dict(zip(members, (path / of for of in names_for(len(members))), strict=True))
    return Job(
        f"{name} ({_said(loaded, members)})",
        [*TRAIN, str(file), "--run", str(path), "--resume"],
        out / "logs" / f"{name}.log",
        partial(env_steps_of_all, runs.values()),
        partial(_keep, runs, kept),
        portable=portable(configs[0], path, [*runs.values()], {str(file): text}),
    )


def _population(configs: Sequence[DqnConfig]) -> str:
    """Returns the TOML text of a population with these members."""
    dumped = [config.model_dump(exclude_none=True) for config in configs]
    own = {"seed"} | {
        name for of in dumped for name, value in of.items() if value != dumped[0].get(name)
    }
    members = [{name: of[name] for name in sorted(own) if name in of} for of in dumped]
    return tomli_w.dumps(dumped[0] | {MEMBERS: members})


def _said(loaded: Loaded, members: Sequence[Wanted]) -> str:
    names = list(dict.fromkeys(loaded.plan.name(of.arm) for of in members))
    of = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{of}, {len(members)} runs"


def _keep(runs: Mapping[Wanted, Path], kept: Kept) -> None:
    by_arm: dict[tuple[str, Arm], dict[int, Path]] = {}
    for run, path in runs.items():
        if run.seed not in kept[run.env, run.arm].seeds:
            by_arm.setdefault((run.env, run.arm), {})[run.seed] = path
    for arm, found in by_arm.items():
        kept[arm].add(found)
