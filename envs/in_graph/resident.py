"""Envs in the agent's graph, as `Envs` of a run: they have shapes, but the agent steps them.

Their state is in variables beside the agent's variables, so checkpoints save and restore it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from targetnet.envs.actions import ActionForm
from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.envs.spaces import Spaces
from targetnet.envs.stacks import stacked
from targetnet.envs.unstepped import UnsteppedEnvs


class ResidentEnvs(UnsteppedEnvs):
    """N envs with the same rules, stepped by the agent.

    Args:
      env_id, rules: of the env.
      num_envs: N.
      frame_stack: frames of an observation.

    Attributes:
      rules: the rules of the env.
    """

    reason = "its state is in the agent's graph, and the agent itself steps it"

    def __init__(self, env_id: str, rules: InGraphEnv, num_envs: int, frame_stack: int = 1) -> None:
        spaces = Spaces(
            tuple(rules.observation_shape),
            np.dtype(rules.observation_dtype),
            _never_written,
            ActionForm(rules.num_actions),
            given_shape=tuple(rules.observation_shape),
        )
        super().__init__(env_id, num_envs, stacked(spaces, frame_stack))
        self.rules = rules


def _never_written(rows: np.ndarray) -> Any:
    raise AssertionError("the graph holds the observations")
