"""The weights with which a run began, if they came from another run.

They are kept in the run directory, because a repeat, or a resume without a checkpoint, begins with
the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from targetnet.agents.saved.directory import RunDir, write_file
from targetnet.rl_core.checkpoint.weights_file import WeightsError, read_weights, weights_bytes
from targetnet.rl_core.errors import RunDirError

INITIAL = "initial.safetensors"


def save_initial(run: RunDir, weights: Mapping[str, np.ndarray]) -> None:
    """Writes the weights that are not random; removes those of a run that was here before.

    Raises:
      RunDirError: it cannot be done.
    """
    path = run.path / INITIAL
    if weights:
        write_file(path, weights_bytes(weights))
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot remove {path}: {error.strerror}") from None


def load_initial(run: RunDir) -> dict[str, np.ndarray]:
    """The weights that are not random; none if all were.

    Raises:
      RunDirError: they are damaged.
    """
    try:
        return read_weights(run.path / INITIAL, ours=True)
    except FileNotFoundError:
        return {}
    except WeightsError as error:
        raise RunDirError(str(error)) from None
