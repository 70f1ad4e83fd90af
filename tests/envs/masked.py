"""Envs that say in several ways which actions are legal, and refuse all others."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

ID = "tests.envs.masked:Masked-v0"
NUM_ACTIONS = 4


class Masked(gym.Env):
    """Shows two random numbers; two of four actions are legal, others each time.

    Ends by chance. Where it is over nothing is legal, and its method fails.

    Args:
      by: what says so: any of info, part and method. All but `right` say that all are.
      name: of the part.
      limit: steps after which an episode is truncated.
      size: of what the part's space says.
    """

    action_space = Discrete(NUM_ACTIONS)

    def __init__(self, by=("part",), right="", name="action_mask", limit=9, size=NUM_ACTIONS):
        self.by, self.right, self.name, self.limit = by, right or by[0], name, limit
        self.calls = 0
        numbers = Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space: Any = numbers
        if "part" in by:
            self.observation_space = Dict({"observation": numbers, name: MultiBinary(size)})
        if "method" in by:
            self.action_masks = self.of_method

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.shown(over=False)

    def step(self, action):
        assert self.legal[action], (action, self.legal)
        self.t += 1
        over = bool(self.np_random.random() < 0.1)
        observation, info = self.shown(over)
        return observation, float(action), over, self.t == self.limit, info

    def shown(self, over):
        self.over, self.legal = over, np.zeros(NUM_ACTIONS, np.int8)
        if not over:
            self.legal[self.np_random.permutation(NUM_ACTIONS)[:2]] = 1
        numbers = self.np_random.normal(size=2).astype(np.float32)
        info = {"action_mask": self.said("info")} if "info" in self.by else {}
        if "part" in self.by:
            said = np.resize(self.said("part"), self.observation_space[self.name].shape)
            return {"observation": numbers, self.name: said}, info
        return numbers, info

    def said(self, way):
        return self.legal.copy() if way == self.right else np.ones(NUM_ACTIONS, np.int8)

    def of_method(self):
        self.calls += 1
        if self.over:
            raise RuntimeError("the game is over")
        return self.said("method").astype(bool)


class MaskedVector(gym.vector.VectorEnv):
    """N of them; the method gives the masks of all."""

    single_action_space = Masked.action_space
    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs, by=("part",)):
        self.num_envs, self.by = num_envs, by
        self.games = [Masked(by=by) for _ in range(num_envs)]
        self.single_observation_space = self.games[0].observation_space
        if "method" in by:
            self.action_masks = lambda: np.stack([game.legal for game in self.games])

    def reset(self, *, seed=None, options=None):
        self.over = np.zeros(self.num_envs, bool)
        return self.together([game.reset(seed=seed + i)[0] for i, game in enumerate(self.games)])

    def step(self, actions):
        rows = [
            (game.reset()[0], 0.0, False, False) if over else game.step(action)[:4]
            for game, over, action in zip(self.games, self.over, actions, strict=True)
        ]
        shown, *rest = zip(*rows, strict=True)
        paid, terminated, truncated = map(np.array, rest)
        self.over = terminated | truncated
        shown, info = self.together(shown)
        return shown, paid, terminated, truncated, info

    def together(self, shown):
        if "part" not in self.by:
            return np.stack(shown), {}
        return {name: np.stack([one[name] for one in shown]) for name in shown[0]}, {}


class ByFunction(gym.Wrapper):
    """Has the method `action_masks`, as sb3-contrib's ActionMasker: of a function of the env."""

    def __init__(self, env, function):
        super().__init__(env)
        self._function = function

    def action_masks(self):
        return self._function(self.env)


def masker(env):
    """An env wrapper for a config, with two wrappers around it."""
    inner = ByFunction(env, lambda env: env.unwrapped.of_method())
    return gym.wrappers.TransformReward(gym.wrappers.TimeLimit(inner, 100), float)


if "Masked-v0" not in gym.registry:
    gym.register(
        "Masked-v0", "tests.envs.masked:Masked", vector_entry_point="tests.envs.masked:MaskedVector"
    )
