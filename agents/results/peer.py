"""Stable-Baselines3 as a peer: its virtual environment, and a child process for each seed."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.results.jobs import Job, Progressed, last_line
from agents.results.peers.sb3_worker import SETTINGS

NAME = "SB3 DQN"
_WORKER = Path(__file__).parent / "peers" / "sb3_worker.py"
# torch by itself and first: otherwise the newest one comes, not the one that was measured.
REQUIREMENTS: tuple[tuple[str, ...], ...] = (
    ("torch==2.13.0",),
    ("stable-baselines3==2.9.2", "gymnasium[box2d,classic-control]==1.4.0"),
)
_READY = "ready"  # a file, made last
_TOUCH = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
_PROGRESS = re.compile(r"env step ([\d,]+) of ([\d,]+)")


def is_known(env_id: str) -> bool:
    """Whether there are settings for it."""
    return env_id in SETTINGS


def venv_python(venv: Path) -> Path:
    return venv / "bin" / "python"


def venv_jobs(
    venv: Path,
    logs: Path,
    name: str = NAME,
    requirements: Sequence[Sequence[str]] = REQUIREMENTS,
) -> list[Job]:
    """What makes an environment, one after the other; nothing if it is there already.

    Args:
      name: whose it is, as shown.
      requirements: packages of one installation, then of the next.
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


def peer_job(python: Path, env_id: str, seed: int, out: Path, log: Path) -> Job:
    """Trains and evaluates one seed; `out` appears when it is done."""
    arguments = [env_id, "--seed", str(seed), "--out", str(out)]
    return Job(
        f"{NAME} {env_id} seed {seed}",
        [str(python), str(_WORKER), *arguments],
        log,
        lambda: _progress(log),
    )


def _progress(log: Path) -> Progressed | None:
    found = _PROGRESS.search(last_line(log))
    if found is None:
        return None
    done, total = (int(number.replace(",", "")) for number in found.groups())
    return done, total
