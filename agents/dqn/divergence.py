"""Learning that diverged: which error says so, and its one line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.chunks import Chunk
from targetnet.rl_core.errors import Diverged
from targetnet.rl_core.graph.finite import LARGEST_RATE

_NAMES = ("loss", "gradient norm")


class DivergedInChunk(Diverged):
    """Learning diverged in a chunk of the compiled loop.

    Attributes:
      chunk: what was made before.
    """

    def __init__(self, text: str, chunk: Chunk) -> None:
        super().__init__(text)
        self.chunk = chunk


def diverged(
    signs: Sequence[float], updates: int, learning_rate: float, config: DqnConfig
) -> Diverged:
    """The error about an update that was not made.

    Args:
      signs: of the update, as `targetnet.rl_core.graph.finite.signs_of` gives them.
      updates: how many were made before.
    """
    found = [f"the {name} is {value:g}" for name, value in zip(_NAMES, signs, strict=False)
             if not np.isfinite(value)]  # fmt: skip
    if learning_rate > LARGEST_RATE:
        found.append(f"a learning rate above {LARGEST_RATE:g} can carry weights out of float32")
    # Other operations may round what only just overflowed to a finite number.
    what = " and ".join(found) or "the loss or the gradient norm is not finite"
    squared = ", or loss = huber" if config.loss == "squared" else ""
    clip = "max_grad_norm" if config.max_grad_norm else "max_grad_norm > 0 (it is off)"
    return Diverged(
        f"learning diverged at update {updates + 1:,}: {what} (learning_rate {learning_rate:g}); "
        f"the weights are those of update {updates:,}. "
        f"Try a smaller learning_rate or {clip}{squared}"
    )
