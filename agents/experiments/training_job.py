"""Processes of `targetnet train`: one trains a run, or several runs as a population."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from targetnet.agents.cluster.tree import JobInputs
from targetnet.agents.experiments.jobs import Job, Progressed
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RunDirError

if TYPE_CHECKING:
    from targetnet.agents.config.model import DqnConfig

# Seeds below are for tuning, those from here on for scores that nothing was chosen by.
FIRST_FRESH_SEED = 1_000
# -P: a package of the user's in the current directory must not come before ours.
TRAIN = [sys.executable, "-P", "-m", "targetnet.agents.cli", "train"]


def run_paths(path: Path, count: int, *, alone: bool) -> list[Path]:
    """Returns the directories of runs: `path` itself of one alone, else those of its members."""
    from targetnet.agents.config.members import names_for

    return [path] if alone else [path / name for name in names_for(count)]


def training_job(
    name: str, path: Path, configs: Sequence[DqnConfig], log: Path, *, alone: bool, **more: Any
) -> Job:
    """Returns the job that trains some configs, and writes the file that its process reads.

    The process goes on with what is in the directory, and refuses what another config made.

    Args:
      name, log: as for `Job`.
      path: directory of the run or of the population; its file lies beside it.
      configs: of one form if they are several.
      alone: a single config is a run, and not a population of one.
      more: further fields of the job.

    Raises:
      RunDirError: the file cannot be written.
    """
    from targetnet.agents.config.files import dump_config
    from targetnet.agents.config.members import population_text
    from targetnet.agents.saved.directory import write_file

    file = path.with_name(f"{path.name}.toml")
    text = (dump_config(configs[0]) if alone else population_text(configs)).encode()
    write_file(file, text, make_parents=True)
    runs = run_paths(path, len(configs), alone=alone)
    first = configs[0]
    return Job(
        name,
        [*TRAIN, str(file), "--run", str(path), "--resume"],
        log,
        partial(env_steps_of, runs),
        portable=JobInputs(path, runs, {str(file): text}, first.threads, first.checkpoint_keep),
        **more,
    )


def env_steps_of(runs: Iterable[Path]) -> Progressed | None:
    """Returns (env steps made, env steps in all) of several runs together.

    Returns:
      None while one of them is unknown, because it just began.
    """
    made, in_all = 0, 0
    for run in runs:
        try:
            state, _ = read_state(ControlFiles(run))
        except RunDirError:
            return None
        made, in_all = made + state.env_step, in_all + state.env_steps
    return made, in_all
