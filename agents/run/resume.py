"""A run that goes on: checked first, then brought back to its last whole checkpoint."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from targetnet.agents.config.early_ends import early_ends
from targetnet.agents.config.files import as_config, changed_config, require_can_go_on
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.run_dataset import as_kept, fill, with_dataset
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.remote.run_actors import require_actors_fit, split_variables
from targetnet.agents.run.agent_factory import give_weights, load_initial
from targetnet.agents.run.checkpoints import restore_agent
from targetnet.agents.saved.directory import OF_ITS_END, RunDir
from targetnet.agents.saved.host import ResumeMoment, RunHost, read_host
from targetnet.agents.saved.machines import note_return
from targetnet.envs import Envs
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.control.commands import SetCommand, Who, set_command
from targetnet.rl_core.control.files import submit
from targetnet.rl_core.control.log import read_log, require_length
from targetnet.rl_core.control.records import require_arrivals, require_trace
from targetnet.rl_core.control.state import require_answers
from targetnet.rl_core.errors import ConfigError, RunDirError


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


_INEXACT = "a new episode begins there: not the same bits from here on"
Say = Callable[[str], None]


class Finished(RunDirError):
    """A run that is finished, and has nothing to go on with."""


@dataclass
class ResumePlan:
    """A run and what it goes on with. Make it while the directory's lock is held.

    Attributes:
      directory: of the run.
      before, config: its config until now, and from now on.
      values: live values to be set.
      resumed: where it goes on; None if it has no checkpoint, and begins again.
      missing: lines about what is lost of its curves.
      commands: that set these values.
    """

    directory: RunDir
    before: DqnConfig
    config: DqnConfig
    values: Mapping[str, Any]
    resumed: ResumeMoment | None
    missing: Sequence[str]
    commands: list[SetCommand]
    _store: CheckpointStore

    @classmethod
    def read(
        cls,
        directory: RunDir,
        config: DqnConfig | Path | str | None,
        changes: Mapping[str, Any] | Sequence[str],
        who: Who,
    ) -> ResumePlan:
        """Reads the run; changes nothing.

        Args:
          config, changes, who: as for `targetnet.agents.run.train.resume`.

        Raises:
          Finished: the run is.
          RunDirError: its files are damaged.
          ConfigError: a change that a run cannot take when it goes on.
          DataError: a dataset that the run needs is not there, or is another one now.
          CheckpointError: no checkpoint is whole.
        """
        before = directory.config()
        asked = before if config is None else as_kept(before, as_config(config))
        config, values = changed_config(asked, changes)
        config = require_can_go_on(before, config)
        commands = [set_command(name, value, who) for name, value in values.items()]
        store = CheckpointStore(directory.checkpoints, config.checkpoint_keep)
        checkpoint = store.latest()
        resumed = ResumeMoment(checkpoint, read_host(checkpoint)) if checkpoint else None
        # A checkpoint has the demonstrations, so they are not needed again.
        if config.offline or not resumed or config.begin_with != before.begin_with:
            config = with_dataset(config)
        done = resumed.host.loop.env_step if resumed else 0
        if config.env_steps < min(before.env_steps, done):
            raise ConfigError(
                f"env_steps must be at least {done:,}, where {directory.path} goes on, got "
                f"{config.env_steps:,}"
            )
        if directory.has_result() and done >= config.env_steps:
            raise Finished(
                f"{directory.path} is finished after {done:,} env steps; "
                "go on with --set env_steps=..."
            )
        missing = require_as_it_was(directory, resumed.host if resumed else None)
        return cls(directory, before, config, values, resumed, missing, commands, store)

    @property
    def done(self) -> int:
        """Env steps until there."""
        return self.resumed.host.loop.env_step if self.resumed else 0

    @property
    def tick(self) -> int:
        """Time steps until there."""
        return self.resumed.host.loop.tick if self.resumed else 0

    def bring_back(self, agent: DqnAgent, envs: Envs, warn: Say) -> None:
        """Brings agent and envs back to where the run goes on; changes no file.

        Raises:
          CheckpointError: the checkpoint is not of such a run.
          BoundsError, StaticHyperparameter: a live value that the run cannot take.
        """
        for name, value in self.values.items():
            agent.hyperparameters.check(name, value)
        if not self.resumed:
            give_weights(agent, load_initial(self.directory))
            fill(agent)
            return
        require_fits(self.resumed, agent, envs)
        restore_agent(agent, self.resumed.checkpoint, self._store)
        self.resumed, problems = _with_envs(self.resumed, envs)
        for line in (*self.resumed.checkpoint.damaged, *self.missing, *problems):
            warn(line)
        if problems:
            warn(_INEXACT)

    def cut_files(self) -> None:
        """Drops what came after that moment from the files; from here on they change."""
        note_return(self.directory.path)
        # First: with the new config beside them a longer run would seem to be finished.
        remove_end(self.directory)
        self.directory.change_config(self.config)
        number = self.resumed.checkpoint.number if self.resumed else None
        with contextlib.suppress(OSError):  # checkpoints left over cost room, nothing else
            self._store.prune(spare=number)
        go_back(self.directory, self.resumed.host.events if self.resumed else {})

    def submit(self) -> None:
        """Puts the changes of live values into the inbox: they outlive a kill, and count once."""
        for command in self.commands:
            submit(self.directory.control, command)

    def early_end(self) -> str | None:
        """A line about schedules that end before the run, if it is longer now."""
        if self.config.env_steps <= self.before.env_steps:
            return None
        return early_ends(self.config, resumed=True)


def _with_envs(resumed: ResumeMoment, envs: Envs) -> tuple[ResumeMoment, list[str]]:
    """Brings the envs back; says which of them did not come back the same."""
    # Before the first time step there is nothing to bring back.
    if not resumed.checkpoint.tick:
        return resumed, []
    weights = {"weights": split_variables(resumed.checkpoint.variables)[1]}
    actors = weights if resumed.host.actors else {}
    step, problems = envs.restore(resumed.host.envs_state() | actors)
    return replace(resumed, step=step), problems
