"""A run's weights, with the values at which it was frozen when they were read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from targetnet.agents.config.live_values import own_values
from targetnet.agents.saved.directory import EndDigest, RunDir
from targetnet.agents.saved.host import read_host
from targetnet.rl_core.checkpoint.store import Checkpoint, CheckpointStore
from targetnet.rl_core.errors import RlCoreError, RunDirError


class TrainedPolicy(NamedTuple):
    """Everything that a run has learned at one moment."""

    weights: dict[str, np.ndarray]  # keyed by the variable's name inside its scope
    live: dict[str, float]  # the user's own live values at that moment
    env_step: int  # of that moment; 0 if it is not known


def trained(
    directory: RunDir,
    *,
    averaged: bool = False,
    best: bool = False,
    checkpoint: int | None = None,
) -> TrainedPolicy:
    """Reads what a run has learned.

    By default at its end; a run that has not ended gives its last checkpoint.

    Args:
      directory: the run.
      averaged: return the averaged weights instead of the online network's.
      best: read the checkpoint with the best evaluation.
      checkpoint: read the checkpoint with this number.

    Raises:
      RlCoreError: both `best` and `checkpoint` are given.
      RunDirError: the run has no such weights.
      CheckpointError: there is no such checkpoint, or it is damaged.
    """
    if best and checkpoint is not None:
        raise RlCoreError(f"best and checkpoint = {checkpoint} are two choices; leave one out")
    if not best and checkpoint is None and directory.has_weights(averaged=averaged):
        weights, end = directory.load_weights(averaged=averaged), _end(directory)
        return TrainedPolicy(weights, end.live if end else {}, end.env_step if end else 0)
    store = CheckpointStore(directory.checkpoints)
    if checkpoint is not None:
        chosen: Checkpoint | None = store.numbered(checkpoint)
    else:
        chosen = store.best() if best else store.latest()
    if chosen is not None and (found := _of_scope(chosen, "ema/" if averaged else "online/")):
        host = read_host(chosen)
        env_step = host.loop.env_step
        live = own_values(directory.config(), host.agent.overrides, env_step)
        return TrainedPolicy(found, live, env_step)
    if best and chosen is None:
        raise RunDirError(f"{directory.path} has no checkpoint of an evaluation yet")
    # Raises the error that names the missing file.
    return TrainedPolicy(directory.load_weights(averaged=averaged), {}, 0)


def _of_scope(checkpoint: Checkpoint, scope: str) -> dict[str, np.ndarray]:
    variables = checkpoint.variables
    return {
        name.removeprefix(scope): value
        for name, value in variables.items()
        # Leave out the optimizer's slots, named after their variable: online/torso/w/Adam.
        if name.startswith(scope) and name.rpartition("/")[0] not in variables
    }


def _end(directory: RunDir) -> EndDigest | None:
    """Returns the end of a run; None if it is damaged or missing and nothing needs it."""
    try:
        return directory.load_digest()
    except RunDirError:
        if directory.config().live:
            raise
        return None
