"""Requests to an actor, and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.priorities import LIVE
from targetnet.envs import Envs, Episode
from targetnet.rl_core import errors
from targetnet.rl_core.errors import EnvError, EnvFault, RlCoreError, in_one_line, quoted

Weights = Mapping[str, np.ndarray]  # name -> array

_KINDS: dict[str, type[RlCoreError]] = {
    name: of
    for name, of in vars(errors).items()
    if isinstance(of, type) and issubclass(of, RlCoreError)
}


class Request(NamedTuple):
    """One delivery that is asked for."""

    number: int  # of the delivery within its actor, from 0
    weights: int  # number of the weights to act with
    updates: int  # gradient steps that had been made when it was asked for
    live: dict[str, float]  # epsilon of this actor, and the values of `sent_beside_epsilon`


def sent_beside_epsilon(config: DqnConfig) -> tuple[str, ...]:
    """Returns the names of the live values that actors need: the user's own, and of priorities."""
    return (*config.own_live_names, *(LIVE if config.actor_priorities else ()))


class Delivery(NamedTuple):
    """The rows of T time steps of one actor's M envs.

    Row t < T holds an observation and the action taken on it; row T holds what the last action led
    to, and its action means nothing. Row 0 shows what row T of the delivery before showed. It says
    `autoreset`: it was not reached by an action on the row that is stored before it. So the replay
    never samples the step between two deliveries, and a return over several steps ends at row T
    and bootstraps from it, as at a time limit.

    Attributes:
      actor, number: whose, and of which request.
      rows: column name -> array [T + 1, M, ...].
      episodes: those that ended, each with the time step in [0, T) that ended it.
      lanes: for each env what `Envs.state` says after it, but for the actions.
    """

    actor: int
    number: int
    rows: dict[str, np.ndarray]
    episodes: tuple[tuple[int, Episode], ...]
    lanes: tuple[dict[str, Any], ...]

    @property
    def transitions(self) -> np.ndarray:
        """[T] number of transitions of each time step."""
        autoreset = self.rows["autoreset"][1:]
        counts: np.ndarray = autoreset.shape[1] - np.count_nonzero(autoreset, axis=1)
        return counts

    def checksum(self) -> int:
        """Returns a CRC-32 of all rows."""
        crc = 0
        for name in sorted(self.rows):
            crc = crc32(np.ascontiguousarray(self.rows[name]).view(np.uint8).data, crc)
        return crc


class ActorFault(NamedTuple):
    """An error in place of a delivery: of an env, or any other that the user can mend."""

    actor: int
    number: int
    kind: str  # name of its class, or of the nearest one above it in targetnet.rl_core.errors
    text: str
    env_steps: int  # transitions of this delivery up to and including the faulty one

    def checksum(self) -> int:
        """Returns a CRC-32 of the message."""
        return crc32(self.text.encode())

    def error(self) -> RlCoreError:
        """Returns the error that ends the run."""
        error = _KINDS.get(self.kind, RlCoreError)(in_one_line(self.text, 2_000))
        if isinstance(error, EnvFault):
            error.env_steps = self.env_steps
        return error


def fault_of(error: RlCoreError, actor: int, number: int, seed: int) -> ActorFault:
    """Returns an actor's error as a fault, which names the actor and the run's seed."""
    env_steps = error.env_steps if isinstance(error, EnvFault) else 0
    of_env = isinstance(error, EnvFault | EnvError)
    text = f"actor {actor} (seed {seed}){',' if of_env else ':'} {error}"
    kind = next(of.__name__ for of in type(error).__mro__ if _KINDS.get(of.__name__) is of)
    return ActorFault(actor, number, kind, text, env_steps)


Answer = Delivery | ActorFault


class ActorReady(NamedTuple):
    """Word of an actor, new or in a lost one's place, that it is there: before its answers."""

    actor: int
    problems: tuple[str, ...] = ()  # a message for each env that did not come back the same
    kind: str = ""  # of its envs, as `kind_of` tells it
    fault: ActorFault | None = None  # why they could not be made or brought back


def kind_of(envs: Envs) -> str:
    """Returns what has to be alike in the envs of all actors and in those here, in words."""
    masks = "with" if envs.has_action_masks else "without"
    branches = f" in branches of {quoted(list(envs.branches))}" if envs.branches else ""
    return (
        f"observations {tuple(envs.observation_shape)} of {envs.observation_dtype}, "
        f"{envs.num_actions:,} actions{branches} {masks} masks"
    )


def delivered(answer: Answer) -> Delivery:
    """Returns an answer that is a delivery.

    Raises:
      RlCoreError: it is a fault.
    """
    if isinstance(answer, Delivery):
        return answer
    raise answer.error()


class ActorLost(Exception):
    """An actor ended without an answer. It ends no run: another one takes its place."""

    def __init__(self, actor: int, reason: str) -> None:
        super().__init__(f"actor {actor}: {reason}")
        self.actor, self.reason = actor, reason
