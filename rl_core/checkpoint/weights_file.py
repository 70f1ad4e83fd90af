"""A network's weights as one safetensors file, a format that other tools can read.

safetensors has no checksum, so our files carry one in their metadata. A file without a checksum
comes from another tool, and is accepted where such a file may be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from targetnet.rl_core.errors import RlCoreError, in_one_line, reason_of
from targetnet.rl_core.files import open_regular


class WeightsError(RlCoreError, ValueError):
    """A weights file that is damaged or of another format."""


def weights_bytes(weights: Mapping[str, np.ndarray]) -> bytes:
    """Returns the content of a weights file; equal weights give equal bytes."""
    # Not `ascontiguousarray`, which gives a scalar an axis.
    arrays = {name: np.asarray(weights[name], order="C") for name in sorted(weights)}
    return save(arrays, metadata={"sha256": _digest(arrays)})


def read_weights(path: Path, *, follow: bool = False, ours: bool = False) -> dict[str, np.ndarray]:
    """Reads a weights file; returns name -> array.

    Args:
      path: path of the file.
      follow: True follows a symbolic link, as for a path that the user typed.
      ours: True refuses a file without a checksum, as in a run's directory.

    Raises:
      FileNotFoundError: there is no such file.
      WeightsError: the file cannot be read, is no safetensors file, or is damaged.
    """
    try:
        with open_regular(path, follow=follow) as file:
            data = file.read()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise WeightsError(f"cannot read {in_one_line(path, 200)}: {reason_of(error)}") from None
    return weights_in(data, path, ours=ours)


def weights_in(data: bytes, path: Path, *, ours: bool = False) -> dict[str, np.ndarray]:
    """Returns the weights in the content of a weights file, name -> array.

    Raises:
      WeightsError: it is no safetensors file, or it is damaged; names `path`.
    """
    try:
        weights = load(data)
        size = int.from_bytes(data[:8], "little")
        wanted = json.loads(data[8 : 8 + size]).get("__metadata__", {}).get("sha256")
        if wanted is None and ours:
            raise ValueError("it is damaged: its checksum is missing")
        if wanted is not None and wanted != _digest(weights):
            raise ValueError("it is damaged: not what was written")
    except (ValueError, AttributeError, KeyError, SafetensorError) as error:
        raise WeightsError(f"cannot read {in_one_line(path, 200)}: {reason_of(error)}") from None
    return weights


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
