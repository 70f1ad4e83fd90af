"""Scaling and clipping of rewards before the agent learns from them."""

import math
from typing import NamedTuple

import numpy as np

from rl_core.errors import EnvError


class RewardTransform(NamedTuple):
    """A transform from raw rewards to the rewards that the agent learns from.

        learned = min(max(raw * scale, -limit), limit)

    Scale 1 and limit 1 are the clipping of Mnih et al. (2015),
    https://doi.org/10.1038/nature14236. The arithmetic is in float64; NaN stays NaN.
    """

    scale: float
    limit: float

    def one(self, raw: float) -> float:
        """Transforms one raw reward; NumPy would take ten times as long for a single number."""
        return min(max(raw * self.scale, -self.limit), self.limit)

    def all(self, raw: np.ndarray) -> np.ndarray:
        """Transforms raw rewards, [N], to [N] float64."""
        scaled = np.multiply(raw, self.scale, dtype=np.float64)
        return np.clip(scaled, -self.limit, self.limit)


def reward_transform(scale: float, clip: float | None) -> RewardTransform | None:
    """Returns the transform of rewards; None if it would change nothing.

    Args:
      scale: > 0, factor of every reward.
      clip: > 0, bound of the scaled rewards' size; None does not clip.

    Raises:
      EnvError: `scale` or `clip` is not a finite number > 0.
    """
    for name, value in {"reward_scale": scale, "reward_clip": clip}.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise EnvError(f"{name} must be a finite number > 0, got {value}")
    if scale == 1.0 and clip is None:
        return None
    return RewardTransform(scale, math.inf if clip is None else clip)
