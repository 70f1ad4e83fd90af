"""The files of a run that goes on: checked first, then brought back to a moment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.actors import require_actors_fit
from targetnet.agents.saved.directory import OF_ITS_END, RunDir
from targetnet.agents.saved.host import ResumeMoment, RunHost
from targetnet.envs import Envs
from targetnet.rl_core.checkpoint.store import CheckpointError
from targetnet.rl_core.control.arrivals import require_arrivals
from targetnet.rl_core.control.log import read_log, require_length
from targetnet.rl_core.control.state import require_answers
from targetnet.rl_core.control.trace import require_trace
from targetnet.rl_core.errors import RunDirError


def require_as_it_was(run: RunDir, host: RunHost | None) -> list[str]:
    """Checks that nothing is missing that was there before; changes nothing.

    Args:
      host: of the checkpoint from which the run goes on; None if it has none.

    Returns:
      Lines about missing points of curves, which are only shown.

    Raises:
      RunDirError: the log or the trace is damaged or was cut, or a curve is no regular file.
    """
    for path in run.event_files():
        if path.is_symlink() or not path.is_file():
            raise RunDirError(f"cannot resume {run.path}: {path.name} is not a regular file")
    read_log(run.control.log)
    require_answers(run.control)
    if host is None:
        return []
    require_length(run.control.log, host.log.bytes)
    require_trace(run.control.trace, host.trace.time_steps, host.trace.crc)
    if host.actors is not None:
        require_arrivals(run.control.arrivals, *host.actors.arrivals)
    short = [name for name, size in host.events.items() if _size(run.path / name) < size]
    return [f"{run.path / name} is shorter than it was: curves lack points" for name in short]


def require_fits(resumed: ResumeMoment, agent: DqnAgent, envs: Envs) -> None:
    """Checks that a checkpoint fits the agent and the envs; its types alone do not say that.

    Raises:
      CheckpointError: it is not; says what differs.
      UnknownName: a curve is of a live value that the agent does not have.
    """
    host, number = resumed.host, resumed.checkpoint.number
    for name in host.reporter.changed if host.reporter else ():
        agent.hyperparameters.knob(name)
    lanes = (host.envs or {}).get("lanes")
    actions = [action for lane in lanes or () for action in lane.actions]
    if lanes is not None and len(lanes) != envs.num_envs:
        problem = f"is of {len(lanes):,} envs, not of {envs.num_envs:,}"
    elif host.loop.new_steps > envs.num_envs:
        problem = (
            f"has {host.loop.new_steps:,} env steps in one time step of {envs.num_envs:,} envs"
        )
    elif not all(map(envs.spaces.actions.has, actions)):
        problem = f"has an action that is none of {envs.spaces.actions}"
    elif host.agent.freeze[0] >= len(agent.learner.freeze.arms):
        arm, arms = host.agent.freeze[0], len(agent.learner.freeze.arms)
        problem = f"is of arm {arm} of a freeze schedule, and this run has {arms}"
    else:
        require_actors_fit(resumed, agent)
        return
    raise CheckpointError(f"checkpoint {number} {problem}")


def remove_end(run: RunDir) -> None:
    """Removes the files of a run's end; a run that goes on has none of them.

    Raises:
      RunDirError: it cannot be done.
    """
    try:
        for name in OF_ITS_END:
            (run.path / name).unlink(missing_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot resume {run.path}: {error.strerror}") from None


def go_back(run: RunDir, events: Mapping[str, int]) -> None:
    """Drops everything that came after a moment.

    Args:
      events: bytes of each event file at that moment, by name.

    Raises:
      RunDirError: it cannot be done.
    """
    try:
        for path in run.event_files():
            if path.name in events:
                _cut(path, events[path.name])
            else:
                path.unlink()
    except OSError as error:
        raise RunDirError(f"cannot resume {run.path}: {error.strerror}") from None


def _size(path: Path) -> int:
    """Bytes of a file; 0 if there is none."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _cut(path: Path, size: int) -> None:
    """Drops everything that a file has beyond `size` bytes; a link out of the run is refused."""
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.ftruncate(file, min(size, os.fstat(file).st_size))
    finally:
        os.close(file)
