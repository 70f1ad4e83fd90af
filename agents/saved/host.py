"""The host state of a checkpoint: everything that is kept beside the variables and the rows.

On disk it is one JSON object; targetnet.rl_core.checkpoint does not look into it. Here each part
has a type, so a host state that is damaged, or that somebody else has written, is refused in one
line. Fields with a default are missing in files of version 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator

from targetnet.agents.config.model import DqnConfig
from targetnet.envs import Step
from targetnet.rl_core.checkpoint.store import Checkpoint, CheckpointError
from targetnet.rl_core.validation import first_error

# Before names of columns, among a checkpoint's variables: those of the newest time step, whose
# outcome is not known yet.
NEWEST = "newest/"
Count = Annotated[int, Field(ge=0, lt=2**63)]
# JSON has lists where Python has these.
Pair = Annotated[tuple[Count, Count], Strict(False)]
Point = Annotated[tuple[Count, float], Strict(False)]  # env step, value; NaN is a value


class _HostPart(BaseModel):
    """A part of the host state. Unknown keys are refused: a misspelt one would be lost."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, serialize_by_alias=True)


class LoopPart(_HostPart):
    """The counts of a loop (LoopState)."""

    tick: Count
    env_step: Count
    new_steps: Count
    learn_age: Count
    next_log: Count
    due_updates: Count = 0


class ReporterPart(_HostPart):
    """The state of the reporter: the curves so far.

    Attributes:
      recent: tag -> last point.
      changed: live values that were set, each of which has a curve.
      looked: env steps, updates and copies of the target when copies were last looked for; None
        where no rule makes any.
    """

    env_step: Count
    next_log: Count
    episodes: Count
    recent: dict[str, Point]
    changed: list[str]
    looked: Annotated[tuple[Count, Count, Count], Strict(False)] | None = None


class TracePosition(NamedTuple):
    """The length of a trace: time steps, their env steps, and the file's CRC-32 if it is known."""

    time_steps: Count
    env_steps: Count
    crc: Count | None = None


class LogPart(_HostPart):
    """The control log: its length, and the ids of entries that are still to be applied again."""

    bytes: Count
    to_do: list[str]


class LanePart(_HostPart):
    """One env: its episode, the actions that led to where it is, a checksum of what it showed.

    Attributes:
      actions: lists of ints with branches.
      lives: rows that began another life.
    """

    episode: Count
    actions: list[int] | list[list[int]]
    episode_return: float = Field(alias="return")
    observations: Count
    lives: Count = 0


class RequestPart(_HostPart):
    """A delivery that an actor was asked for and that was not taken yet."""

    number: Count
    weights: Count
    updates: Count
    live: dict[str, Annotated[float, Field(allow_inf_nan=False)]]


class ActorsPart(_HostPart):
    """The actors of a remote loop. The weights of their requests are in the checkpoint's variables.

    Attributes:
      delivered: deliveries of each that were taken.
      requests: of each, those that it has not answered.
      arrivals: length of the file of arrivals, and the seal of its last record; 0 in phases.
    """

    delivered: list[Count]
    requests: list[list[RequestPart]]
    arrivals: Pair = (0, 0)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        taken, (length, _) = sum(self.delivered), self.arrivals
        if length not in (0, taken):
            raise ValueError(f"arrivals has {length:,} deliveries, and delivered has {taken:,}")
        return self


class ControllerPart(_HostPart):
    """A run's controller: the env step of its next call, and what it remembers."""

    due: Count
    memory: dict[str, Any]


class AgentPart(_HostPart):
    """The part of an agent that is no variable (`SavedAgent.host`).

    Attributes:
      renewals: how often first weights were drawn again.
    """

    updates: Count
    snapshots: list[Count]
    freeze: Pair
    overrides: dict[str, Any]  # checked as live values when they are set
    renewals: Count = 0


class RunHost(_HostPart):
    """The host state of a run, without its agent's part.

    Attributes:
      next_evaluation: env step.
      evaluations_asked: how many somebody has asked for that are not made yet.
      seconds: of training.
      snapshot_tick: time step of the last snapshot that a change has caused.
      recent_returns: of the last episodes.
      events: bytes of each event file, by name.
      raw_rewards: False in files of version 0.1, whose rows hold scaled and clipped rewards.
      envs: empty if the envs cannot be brought back or are in the graph; None before the first
        time step.
      actors: None but with loop = "remote".
      controller: None if the config names none.
    """

    loop: LoopPart
    next_evaluation: Count
    evaluations_asked: Count = 0
    seconds: float = 0.0
    snapshot_tick: Count | None
    recent_returns: list[float]
    trace: TracePosition
    log: LogPart
    events: dict[str, Count]
    reporter: ReporterPart | None
    raw_rewards: bool = False
    envs: dict[str, list[LanePart]] | None
    actors: ActorsPart | None = None
    controller: ControllerPart | None = None


class HostState(RunHost):
    """The whole host state of a checkpoint."""

    agent: AgentPart

    def envs_state(self) -> dict[str, Any]:
        """The state of the envs, as they gave it; empty before the first time step."""
        found = self.model_dump(include={"envs", "actors"})
        return (found["envs"] or {}) | (found["actors"] or {})


@dataclass(frozen=True)
class ResumeMoment:
    """The moment at which a run goes on.

    Attributes:
      checkpoint: taken then.
      host: its host state.
      step: of the envs; None resets them.
    """

    checkpoint: Checkpoint
    host: HostState
    step: Step | None = None


def new_host(config: DqnConfig) -> RunHost:
    """The host state before the first time step."""
    return RunHost(
        loop=LoopPart(tick=0, env_step=0, new_steps=0, learn_age=0, next_log=config.log_period),
        next_evaluation=config.eval_period,
        snapshot_tick=None,
        recent_returns=[],
        trace=TracePosition(0, 0),
        log=LogPart(bytes=0, to_do=[]),
        events={},
        reporter=None,
        raw_rewards=True,
        envs=None,
    )


def read_host(checkpoint: Checkpoint) -> HostState:
    """The host state of a checkpoint.

    Raises:
      CheckpointError: something in it is missing, unknown or of another type.
    """
    try:
        host = HostState.model_validate(checkpoint.host)
    except ValidationError as error:
        problem = first_error(error)
    else:
        if checkpoint.tick != host.loop.tick:
            problem = f"loop.tick is {host.loop.tick:,}, in manifest.json it is {checkpoint.tick:,}"
        elif checkpoint.tick and host.envs is None:
            problem = "envs is missing"
        else:
            return host
    raise CheckpointError(f"host.json of checkpoint {checkpoint.number} is damaged: {problem}")


def split_newest(
    variables: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns a checkpoint's variables without the newest rows; and these rows, by column."""
    rest = {name: array for name, array in variables.items() if not name.startswith(NEWEST)}
    newest = {n.removeprefix(NEWEST): variables[n] for n in variables if n.startswith(NEWEST)}
    return rest, newest
