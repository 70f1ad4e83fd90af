"""A run's weights, with its values when they were read; as initial weights of another run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from targetnet.agents.config.live_values import own_values
from targetnet.agents.saved.directory import EndDigest, RunDir
from targetnet.agents.saved.host import read_host
from targetnet.rl_core.checkpoint.store import Checkpoint, CheckpointStore
from targetnet.rl_core.checkpoint.weights_file import read_weights
from targetnet.rl_core.errors import (
    ConfigError,
    RlCoreError,
    RunDirError,
    ScopeMismatch,
    did_you_mean,
    in_one_line,
    quoted,
)


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


def weights_from(source: Path) -> dict[str, np.ndarray]:
    """Returns the weights of a run or of a .safetensors file.

    A run gives its final weights, or the weights of its last checkpoint if it has not ended.

    Raises:
      RunDirError, CheckpointError, WeightsError: there are no weights, or they are damaged.
    """
    if source.suffix == ".safetensors":
        try:
            return read_weights(source, follow=True)
        except FileNotFoundError:
            path = in_one_line(source, 200)
            raise RunDirError(f"cannot load weights from {path}: there is no such file") from None
    return trained(RunDir.open(source)).weights


def fitted(
    given: Mapping[str, np.ndarray],
    own: Mapping[str, np.ndarray],
    *,
    rename: Iterable[str] = (),
    blocks: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Returns the weights in `given` that a network with the weights `own` starts with.

    Args:
      given: the other weights, by name.
      own: the network's own weights, by name; their names, shapes and dtypes must match.
      rename: "old=new" pairs that rename variables of `given`; `old` may be the first parts of
        names: "encoder=torso".
      blocks: blocks of the network to load, such as torso; () loads all blocks.

    Raises:
      ConfigError: a pair in `rename` is malformed or renames nothing, or there is no such block.
      ScopeMismatch: names, shapes or dtypes differ; the message lists the differences.
    """
    renamed = dict(given)
    for pair in rename:
        renamed = _renamed(renamed, pair)
    own_blocks = sorted({name.split("/")[0] for name in own})
    for block in blocks:
        if block not in own_blocks:
            raise ConfigError(
                f"--blocks: no block {quoted(block)} (there are {', '.join(own_blocks)})"
                f"{did_you_mean(block, own_blocks)}"
            )
    wanted = {n: w for n, w in own.items() if not blocks or n.split("/")[0] in blocks}
    part = {n: w for n, w in renamed.items() if not blocks or n.split("/")[0] in blocks}
    differences = [
        f"{name} should be {_kind(wanted.get(name))}, got {_kind(part.get(name))}"
        for name in sorted(wanted.keys() | part.keys())
        if _kind(wanted.get(name)) != _kind(part.get(name))
    ]
    if differences:
        hint = (
            ""
            if blocks
            else "; --blocks loads only some blocks, --rename old=new renames variables"
        )
        raise ScopeMismatch(f"these weights do not fit: {'; '.join(differences)}{hint}")
    return part


def _renamed(weights: dict[str, np.ndarray], pair: str) -> dict[str, np.ndarray]:
    old, equals, new = (part.strip("/ ") for part in pair.partition("="))
    if not (old and equals and new):
        raise ConfigError(f"--rename wants old=new, got {quoted(pair)}")
    result = {}
    for name, value in weights.items():
        begins = name == old or name.startswith(old + "/")
        result[new + name[len(old) :] if begins else name] = value
    if result.keys() == weights.keys():
        near = did_you_mean(old, weights)
        raise ConfigError(f"--rename: the weights have nothing named {quoted(old)}{near}")
    if len(result) < len(weights):
        names = in_one_line(pair)
        raise ConfigError(f"--rename {names}: two of the weights would have the same name")
    return result


def _kind(array: np.ndarray | None) -> str:
    return "absent" if array is None else f"{array.dtype.name}{array.shape}"
