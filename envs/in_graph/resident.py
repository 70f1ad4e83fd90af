"""Envs in the agent's graph, as `Envs` of a run: they have shapes, but the agent steps them.

Their state is in variables beside the agent's variables, so checkpoints save and restore it.
"""

from __future__ import annotations

import gymnasium as gym

from targetnet.envs.drivers import UnsteppedEnvs
from targetnet.envs.in_graph.gymnasium_env import observation_space
from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.envs.spaces import read_spaces
from targetnet.envs.stacks import stacked


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
        actions = gym.spaces.Discrete(rules.num_actions)
        spaces = read_spaces(env_id, observation_space(rules), actions)
        super().__init__(env_id, num_envs, stacked(spaces, frame_stack))
        self.rules = rules
