"""Initial weights from another run, or from a .safetensors file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from targetnet.agents.policy.trained_policy import trained
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.checkpoint.weights_file import read_weights
from targetnet.rl_core.errors import (
    ConfigError,
    RunDirError,
    ScopeMismatch,
    did_you_mean,
    in_one_line,
    quoted,
)


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
