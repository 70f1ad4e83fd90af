"""Envs whose actions are several numbers at once; what is best in each depends on what is seen."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, MultiBinary, MultiDiscrete


class Lamps(gym.Env):
    """Nine lamps, and which of them ought to burn; an action says of each whether to switch it.

    The share of lamps that are right is paid. Then others are wanted. To switch a lamp is right if
    two numbers that are seen differ: neither of them alone says anything. Of a random action half
    are right, and of the best one all.
    """

    observation_space = Box(0, 1, (18,), np.float32)

    def __init__(self, binary: bool = False):
        self.action_space: Any = MultiBinary(9) if binary else MultiDiscrete([2] * 9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._lamps, self._wanted = self.np_random.integers(0, 2, (2, 9))
        return self._seen(), {}

    def step(self, action):
        assert action.dtype == self.action_space.dtype and self.action_space.contains(action)
        self._lamps = self._lamps ^ action
        reward = np.mean(self._lamps == self._wanted)
        self._wanted = self.np_random.integers(0, 2, 9)
        return self._seen(), float(reward), False, False, {}

    def _seen(self):
        return np.concatenate([self._lamps, self._wanted]).astype(np.float32)


class Levers(gym.Env):
    """Three levers of 3, 1 and 4 positions, from -1, 5 and 0 on; of each some may be locked.

    Pays 1 for a lever at the position shown, less how far away the others are; ends by chance.
    """

    observation_space = Box(-1, 5, (3,), np.float32)
    action_space = MultiDiscrete([3, 1, 4], start=[-1, 5, 0])

    def __init__(self, masks: bool = True):
        self._masks = masks

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._show()

    def step(self, action):
        assert self.action_space.contains(action)
        for a, first, legal in zip(action, self.action_space.start, self._legal, strict=True):
            assert not self._masks or legal[a - first], (action, self._legal)
        away = np.abs(action - self._wanted)
        reward = float(np.sum(away == 0) - np.sum(away))
        ended = bool(self.np_random.random() < 0.1)
        observation, info = self._show()
        return observation, reward, ended, False, info

    def _show(self):
        sizes, first = self.action_space.nvec, self.action_space.start
        self._legal = []
        for n in sizes:
            legal = self.np_random.integers(0, 2, n).astype(np.int8)
            legal[self.np_random.integers(n)] = 1
            self._legal.append(legal)
        self._wanted = first + [self.np_random.choice(np.flatnonzero(of)) for of in self._legal]
        info = {"action_mask": tuple(self._legal)} if self._masks else {}
        return self._wanted.astype(np.float32), info


for name in ("Lamps", "Levers"):
    if f"{name}-v0" not in gym.registry:
        gym.register(f"{name}-v0", f"tests.agents.lamps:{name}", max_episode_steps=20)
