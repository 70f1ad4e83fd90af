"""Envs in the agent's graph, as `Envs` of a run: they have shapes, but the agent steps them.

Their state is in variables beside the agent's variables, so checkpoints save and restore it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from envs.actions import ActionForm
from envs.in_graph.interface import InGraphEnv
from envs.interface import Envs, Episode, Step
from envs.spaces import Spaces
from envs.stacks import stacked
from rl_core.errors import EnvError


class ResidentEnvs(Envs):
    """N envs with the same rules, stepped by the agent.

    Args:
      env_id, rules: of the env.
      num_envs: N.
      frame_stack: frames of an observation.

    Attributes:
      rules: the rules of the env.
    """

    def __init__(self, env_id: str, rules: InGraphEnv, num_envs: int, frame_stack: int = 1) -> None:
        spaces = Spaces(
            tuple(rules.observation_shape),
            np.dtype(rules.observation_dtype),
            _never_written,
            ActionForm(rules.num_actions),
            given_shape=tuple(rules.observation_shape),
        )
        super().__init__(env_id, num_envs, stacked(spaces, frame_stack), has_action_masks=False)
        self.rules = rules

    def reset(self) -> Step:
        raise _stepped_by_agent(self.env_id)

    def step(self, actions: np.ndarray) -> Step:
        raise _stepped_by_agent(self.env_id)

    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        raise _stepped_by_agent(self.env_id)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> tuple[Step | None, list[str]]:
        return None, []

    def render(self) -> Any:
        return None

    def close(self) -> None:
        pass


def _never_written(rows: np.ndarray) -> Any:
    raise AssertionError("the graph holds the observations")


def _stepped_by_agent(env_id: str) -> EnvError:
    return EnvError(f"the agent itself steps {env_id!r}: its state is in the agent's graph")
