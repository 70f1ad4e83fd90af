"""The jobs that train what is missing: runs of one form, as populations."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from agents.compare.kept import Kept
from agents.compare.plan import Arm, Loaded, Wanted
from agents.config.live_values import live_knobs
from agents.config.members import names_for, population_text
from agents.config.model import DqnConfig
from agents.results.jobs import Job
from agents.results.seeds import TRAIN, env_steps_of_all, portable
from agents.saved.directory import write_file
from rl_core.errors import RunDirError


def jobs_for(loaded: Loaded, wanted: Iterable[Wanted], kept: Kept, out: Path) -> list[Job]:
    """Returns the jobs of the populations in which a run is missing.

    A population's seeds are kept all at once, so what is missing after an interruption falls into
    the same populations, which go on in their directories. Arms that are alike have their runs in
    common.

    Args:
      wanted: all runs that the comparison needs now.
      kept: what is finished; the jobs add to it.
      out: directory of populations and logs.

    Raises:
      RunDirError: a population's config cannot be written.
    """
    forms: dict[tuple[str, str], list[Wanted]] = {}
    seen = set()
    for run in wanted:
        of = kept[run.env, run.arm]
        alike = id(of), run.seed
        if run.seed not in of.seeds and alike not in seen:
            seen.add(alike)
            form = _form(loaded.config(*run))
            forms.setdefault((run.env, form), []).append(run)
    jobs, together = [], loaded.plan.together
    for runs in forms.values():
        for first in range(0, len(runs), together):
            jobs.append(_job(loaded, runs[first : first + together], kept, out))
    return jobs


def _form(config: DqnConfig) -> str:
    """Returns all of a config but what members may differ in."""
    live = {knob.name for knob in live_knobs(config)}
    fixed = config.model_dump(mode="json", exclude={"seed", *live})
    return json.dumps([fixed, sorted(live)], sort_keys=True)


def _job(loaded: Loaded, members: Sequence[Wanted], kept: Kept, out: Path) -> Job:
    configs = [loaded.config(*of) for of in members]
    text = population_text(configs).encode()
    name = f"{members[0].env}-{hashlib.sha256(text).hexdigest()[:12]}"
    path, file = out / "runs" / name, out / "runs" / f"{name}.toml"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot write {file}: {error.strerror}") from None
    write_file(file, text)
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
        portable=portable(configs[0], path, [*runs.values()], {str(file): text}),
    )


def _said(loaded: Loaded, members: Sequence[Wanted]) -> str:
    names = list(dict.fromkeys(loaded.plan.name(of.arm) for of in members))
    of = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{of}, {len(members)} runs"


def _keep(runs: Mapping[Wanted, Path], kept: Kept) -> None:
    by_arm: dict[tuple[str, Arm], dict[int, Path]] = {}
    for run, path in runs.items():
        by_arm.setdefault((run.env, run.arm), {})[run.seed] = path
    for arm, found in by_arm.items():
        kept[arm].add(found)
