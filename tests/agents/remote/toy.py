"""An env of short episodes whose every transition says whose it is, for actors.

Importing this module registers RemoteToy-v0: `env_id = "tests.agents.remote.toy:RemoteToy-v0"`.
"""

import os
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

ID = "tests.agents.remote.toy:RemoteToy-v0"
NUM_ACTIONS = 3


class Toy(gym.Env):
    """Shows (its episode, the step); pays step + action / 10; ends after 2 to 6 steps.

    Every second episode terminates, the others are truncated.

    Args:
      masks: whether one action is illegal at each step.
      seconds: that a step takes.
      fails: share of the episodes, one in so many, whose second step raises; 0: none.
      forgets: whether an episode differs each time.
      held_by: path of a file; the env is not made as long as it exists.
      closes: a directory, in which an env that is closed makes a file.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(NUM_ACTIONS)

    def __init__(self, masks=False, seconds=0.0, fails=0, forgets=False, held_by="", closes=""):
        self.closes, self.shown = closes, False
        self.masks, self.seconds, self.fails, self.forgets = masks, seconds, fails, forgets
        while held_by and Path(held_by).exists():
            time.sleep(0.05)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = True
        self.episode, self.t = (time.time_ns() if self.forgets else seed) % 9973, 0
        return self._shown(), self._info()

    def step(self, action):
        if self.seconds:
            time.sleep(self.seconds)
        self.t += 1
        if self.fails and self.t == 2 and self.episode % self.fails == 0:
            raise RuntimeError("the toy is broken")
        over = self.t >= 2 + self.episode % 5
        terminated = over and self.episode % 2 == 0
        return (
            self._shown(),
            self.t + action / 10,
            terminated,
            over and not terminated,
            self._info(),
        )

    def close(self):
        if self.closes and self.shown:
            Path(self.closes, f"{os.getpid()}-{id(self)}").touch()

    def _shown(self):
        return np.array([self.episode, self.t], np.float32)

    def _info(self):
        if not self.masks:
            return {}
        mask = np.ones(NUM_ACTIONS, np.int8)
        mask[self.t % NUM_ACTIONS] = 0
        return {"action_mask": mask}


gym.register("RemoteToy-v0", lambda **how: Toy(**how))
