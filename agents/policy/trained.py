"""A run's weights, with the values at which it was frozen when they were read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.config.live_values import own_values
from agents.saved.directory import RunDir
from agents.saved.host import read_host
from rl_core.checkpoint.store import Checkpoint, CheckpointStore
from rl_core.errors import RlCoreError, RunDirError


class Trained(NamedTuple):
    """Everything that a run has learned at one moment."""

    weights: dict[str, np.ndarray]  # keyed by the variable's name inside its scope
    live: dict[str, float]  # the user's own live values at that moment


def trained(
    directory: RunDir,
    *,
    averaged: bool = False,
    best: bool = False,
    checkpoint: int | None = None,
) -> Trained:
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
        return Trained(directory.load_weights(averaged=averaged), _live_at_the_end(directory))
    store = CheckpointStore(directory.checkpoints)
    if checkpoint is not None:
        chosen: Checkpoint | None = store.numbered(checkpoint)
    else:
        chosen = store.best() if best else store.latest()
    if chosen is not None and (found := _of_scope(chosen, "ema/" if averaged else "online/")):
        host = read_host(chosen)
        live = own_values(directory.config(), host.agent.overrides, host.loop.env_step)
        return Trained(found, live)
    if best and chosen is None:
        raise RunDirError(f"{directory.path} has no checkpoint of an evaluation yet")
    # Raises the error that names the missing file.
    return Trained(directory.load_weights(averaged=averaged), {})


def _of_scope(checkpoint: Checkpoint, scope: str) -> dict[str, np.ndarray]:
    variables = checkpoint.variables
    return {
        name.removeprefix(scope): value
        for name, value in variables.items()
        # Leave out the optimizer's slots, named after their variable: online/torso/w/Adam.
        if name.startswith(scope) and name.rpartition("/")[0] not in variables
    }


def _live_at_the_end(directory: RunDir) -> dict[str, float]:
    if not directory.config().live:
        return {}
    return directory.load_digest().live
