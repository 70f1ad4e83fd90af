"""Trains one seed of a comparison again, as a run alone, and compares digests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.compare.arm_results import Kept
from targetnet.agents.compare.plan import LoadedPlan, RequestedRun
from targetnet.agents.results.jobs import JobOutcome
from targetnet.agents.results.places import Place
from targetnet.agents.results.verify import StoredRun, train_again
from targetnet.rl_core.errors import RlCoreError, did_you_mean, quoted

if TYPE_CHECKING:
    from rich.console import Console

_DIGITS = 18  # of a seed


def wanted_run(loaded: LoadedPlan, text: str) -> RequestedRun:
    """Returns the run that a text such as "CartPole/hard-100/5003" names.

    Raises:
      RlCoreError: it names none.
    """
    plan, parts = loaded.plan, text.split("/")
    if len(parts) != 3 or not parts[2].isdecimal() or len(parts[2]) > _DIGITS:
        raise RlCoreError(f"--verify wants ENV/ARM/SEED, got {quoted(text)}")
    env, name, seed = parts
    if env not in plan.envs:
        raise RlCoreError(f"--verify: there is no env {quoted(env)}{did_you_mean(env, plan.envs)}")
    arms = {plan.name(arm): arm for group in plan.groups_on(env) for arm in plan.arms(group)}
    if name not in arms:
        raise RlCoreError(f"--verify: there is no arm {quoted(name)}{did_you_mean(name, arms)}")
    return RequestedRun(env, arms[name], int(seed))


def verify(
    loaded: LoadedPlan,
    kept: Kept,
    run: RequestedRun,
    out: Path,
    console: Console,
    say: Callable[[str], None],
    place: Place,
) -> JobOutcome:
    """Trains it again, and compares digests.

    Args:
      place: where it is trained.

    Raises:
      NotTheSame: it has another one.
      RlCoreError: it is not finished, or training failed.
    """
    name = f"{run.env}/{loaded.plan.name(run.arm)}/{run.seed}"
    before = kept[run.env, run.arm].seeds.get(run.seed)
    if before is None:
        raise RlCoreError(f"{name} is not finished: there is nothing to compare with")
    again = StoredRun(name, loaded.config(*run), before.digest, before.processor)
    return train_again([again], out, 1, console, say, place)
