"""Stable-Baselines3 as a peer: its virtual environment, and one child process per seed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.cluster.process import last_line
from targetnet.agents.experiments.jobs import Job, Progressed
from targetnet.agents.experiments.results.sb3_worker import SETTINGS
from targetnet.rl_core.machine import processor

if TYPE_CHECKING:
    from targetnet.agents.config.model import DqnConfig

# The settings of rl-baselines3-zoo, and the library's own, which are for any env.
NAMES = {"sb3": "SB3 DQN", "sb3-defaults": "SB3 DQN, defaults"}
_WORKER = Path(__file__).with_name("sb3_worker.py")
# torch is installed first and alone; otherwise pip would take the newest version.
REQUIREMENTS: tuple[tuple[str, ...], ...] = (
    ("torch==2.13.0",),
    ("stable-baselines3==2.9.2", "gymnasium[box2d,classic-control]==1.4.0"),
)
_READY = "ready"  # file that marks a complete environment
_TOUCH = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
_PROGRESS = re.compile(r"env step ([\d,]+) of ([\d,]+)")


def is_known(peer: str, env_id: str) -> bool:
    """Returns True if the peer has settings for the env."""
    return peer == "sb3-defaults" or env_id in SETTINGS


def venv_python(venv: Path) -> Path:
    """Returns the path of the environment's Python."""
    return venv / "bin" / "python"


def venv_jobs(
    venv: Path,
    logs: Path,
    name: str = NAMES["sb3"],
    requirements: Sequence[Sequence[str]] = REQUIREMENTS,
) -> list[Job]:
    """Returns the jobs that make a virtual environment, in order; none if it is complete.

    Args:
      venv: directory of the environment.
      logs: directory for the log.
      name: name of the peer on the screen.
      requirements: packages of each installation, in order.
    """
    if (venv / _READY).exists():
        return []
    python = str(venv_python(venv))
    install = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    commands = {"environment": [sys.executable, "-m", "venv", "--clear", str(venv)]}
    for packages in requirements:
        commands[packages[0]] = [*install, *packages]
    commands["ready"] = [python, "-c", _TOUCH, str(venv / _READY)]
    return [
        Job(f"{name}: {what}", command, logs / "venv.log") for what, command in commands.items()
    ]


def peer_job(
    python: Path,
    peer: str,
    config: DqnConfig,
    seed: int,
    out: Path,
    keep: Callable[[int], None] = lambda seed: None,
) -> Job:
    """Returns the job that trains and evaluates one seed and then writes `out`.

    Args:
      python: with the peer.
      peer: one of NAMES.
      config: whose env the peer trains on; with its own defaults also for as long.
      seed, out: as for `sb3_worker.py`.
      keep: called with the seed once `out` is written.
    """
    log = out.with_suffix(".log")
    env_id = config.env_id
    arguments = [env_id, "--seed", str(seed), "--out", str(out), "--processor", processor()]
    if peer == "sb3-defaults":
        arguments += ["--defaults", "--env-steps", str(config.env_steps)]
        wrappers = config.env_wrapper
        names = [wrappers] if isinstance(wrappers, str) else [*wrappers]
        arguments += ["--env-kwargs", json.dumps(config.env_kwargs)]
        arguments += ["--env-wrappers", json.dumps([name for name in names if name])]
    return Job(
        f"{NAMES[peer]} {env_id} seed {seed}",
        [str(python), str(_WORKER), *arguments],
        log,
        lambda: progress_in(log),
        lambda: keep(seed),
    )


def progress_in(log: Path) -> Progressed | None:
    """Returns the progress that a worker's last line tells, if it does."""
    found = _PROGRESS.search(last_line(log))
    if found is None:
        return None
    done, total = (int(number.replace(",", "")) for number in found.groups())
    return done, total
