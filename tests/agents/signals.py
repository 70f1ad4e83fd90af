"""An env that says of everything it shows to which episode and step it belongs.

    number    k, drawn anew for each episode: what it shows is (k / 1024, step / 16), as floats
    length    k % 7 + 1 steps; of an odd k it terminates, of an even one it is truncated
    legal     of 3 actions, a function of both, see `legal_of`

So whatever is sampled can be checked by itself, without knowing where it was stored.
"""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

NUMBERS = 4_096  # k is in [1, NUMBERS)


def shown_at(number, step):
    """What an episode shows at a step; both may be arrays [...], the result is [..., 2]."""
    return np.stack([np.float32(number) / 1_024, np.float32(step) / 16], axis=-1)


def told_by(shown):
    """[..., 2] what was shown -> numbers and steps, [...]."""
    return np.int64(shown[..., 0] * 1_024), np.int64(shown[..., 1] * 16)


def length_of(number):
    """Steps of an episode."""
    return number % 7 + 1


def legal_of(number, step):
    """Which actions are legal at a step, [..., 3]; at each of them one, two or three."""
    code = np.asarray(number + 3 * step) % 7 + 1
    return (code[..., np.newaxis] >> np.arange(3)) % 2 == 1


class Signals(gym.Env):
    """Pays for the lowest action that is legal; refuses what is not legal.

    Args:
      masks: whether infos have action masks.
      parts: whether it shows a dict: `signal`, its two numbers, and `camera`, a picture of them.
    """

    action_space = Discrete(3)

    def __init__(self, masks: bool = False, parts: bool = False):
        self._masks, self._parts = masks, parts
        signal = Box(0, 4, (2,), np.float32)
        camera = Box(0, 255, (6, 7, 2), np.uint8)
        self.observation_space = Dict({"signal": signal, "camera": camera}) if parts else signal

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._number, self._at = int(self.np_random.integers(1, NUMBERS)), 0
        return self._shown(), self._info()

    def step(self, action):
        legal = legal_of(self._number, self._at)
        assert not self._masks or legal[action], (action, legal)
        reward = float(action == np.argmax(legal))
        self._at += 1
        ended, odd = self._at == length_of(self._number), self._number % 2 == 1
        return self._shown(), reward, ended and odd, ended and not odd, self._info()

    def _shown(self):
        signal = shown_at(self._number, self._at)
        if not self._parts:
            return signal
        camera = np.zeros((6, 7, 2), np.uint8)
        camera[self._at % 6, self._number % 7] = self._number % 251, 255
        return {"signal": signal, "camera": camera}

    def _info(self):
        legal = legal_of(self._number, self._at).astype(np.int8)
        return {"action_mask": legal} if self._masks else {}


if "Signals-v0" not in gym.registry:
    gym.register("Signals-v0", Signals)
