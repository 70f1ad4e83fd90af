"""Trains one seed of a comparison again, as a run alone, and compares digests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agents.compare.plan import Loaded
from agents.compare.populations import Kept, Wanted
from agents.config.files import dump_config
from agents.results.jobs import Ended, Job, run_jobs
from agents.results.seeds import TRAIN, env_steps_of
from agents.saved.directory import RunDir, write_file
from agents.saved.machines import processor_of
from rl_core.control.files import ControlFiles
from rl_core.errors import RlCoreError, did_you_mean, shown

if TYPE_CHECKING:
    from rich.console import Console


class NotTheSame(RlCoreError):
    """A seed, trained again, has another digest."""

    exit_code = 1


def wanted_run(loaded: Loaded, text: str) -> Wanted:
    """Returns the run that a text such as "CartPole/hard-100/5003" names.

    Raises:
      RlCoreError: it names none.
    """
    plan, parts = loaded.plan, text.split("/")
    if len(parts) != 3 or not parts[2].isdecimal():
        raise RlCoreError(f"--verify wants ENV/ARM/SEED, got {shown(text)}")
    env, name, seed = parts
    if env not in plan.envs:
        raise RlCoreError(f"--verify: there is no env {shown(env)}{did_you_mean(env, plan.envs)}")
    arms = {plan.name(arm): arm for group in plan.groups_on(env) for arm in plan.arms(group)}
    if name not in arms:
        raise RlCoreError(f"--verify: there is no arm {shown(name)}{did_you_mean(name, arms)}")
    return Wanted(env, arms[name], int(seed))


def verify(
    loaded: Loaded, kept: Kept, run: Wanted, out: Path, console: Console, say: Callable[[str], None]
) -> Ended:
    """Trains it again, and compares digests.

    Raises:
      NotTheSame: it has another one.
      RlCoreError: it is not finished, or training failed.
    """
    name = f"{run.env}/{loaded.plan.name(run.arm)}/{run.seed}"
    before = kept[run.env, run.arm].seeds.get(run.seed)
    if before is None:
        raise RlCoreError(f"{name} is not finished: there is nothing to compare with")
    place, config = out / "verify", loaded.config(*run)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    file, again = place / "config.toml", place / "run"
    write_file(file, dump_config(config).encode())
    job = Job(
        name,
        [*TRAIN, str(file), "--run", str(again)],
        place / "log",
        lambda: env_steps_of(ControlFiles(again)),
    )
    ended = run_jobs([job], 1, console)
    if ended.failed:
        raise RlCoreError(ended.failed[0])
    if ended.signal:
        return ended
    now, made_on = RunDir(again).load_digest().digest, processor_of(again)
    if now != before.digest:
        moved = "" if made_on == before.processor else f" (on {before.processor} then)"
        raise NotTheSame(f"{name}: not the same: {now}, not {before.digest}{moved}")
    say(f"{name}: identical {now}")
    return ended
