"""Envs whose every row is known beforehand, registered as test/<name>-v0."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

GO_ON, TERMINATE, TRUNCATE = 0, 1, 2
NEXT_STEP = gym.vector.AutoresetMode.NEXT_STEP


class Scripted(gym.Env):
    """Ends as its action says; observes the step number and is paid it, or `pay`.

    It hands out the same array at every step, as an env may.
    """

    observation_space = gym.spaces.Box(0, np.inf, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, pay: Any = None, tape: list[str] | None = None):
        self.pay = pay
        self.tape = [] if tape is None else tape
        self.buffer = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.tape.append(f"reset {seed}")
        self.buffer[0] = 0
        return self.buffer, {}

    def step(self, action):
        assert type(action) is int
        self.tape.append(f"step {action}")
        self.buffer[0] += 1
        reward = float(self.buffer[0]) if self.pay is None else self.pay
        return self.buffer, reward, action == TERMINATE, action == TRUNCATE, {}

    def close(self):
        self.tape.append("close")


class ScriptedVector(gym.vector.VectorEnv):
    """N of Scripted as one vector env; it pays 99 on the step that resets, as some do."""

    single_observation_space = Scripted.observation_space
    single_action_space = Scripted.action_space

    def __init__(self, num_envs, pay: Any = None, tape: list[str] | None = None, mode=NEXT_STEP):
        self.num_envs = num_envs
        self.metadata = {} if mode is None else {"autoreset_mode": mode}
        self.pay = pay
        self.tape = [] if tape is None else tape

    def reset(self, *, seed=None, options=None):
        self.tape.append(f"reset {seed}")
        self.t = np.zeros((self.num_envs, 1), np.float32)
        self.ended = np.zeros(self.num_envs, bool)
        return self.t, {}

    def step(self, actions):
        self.t += 1
        self.t[self.ended] = 0
        paid = self.t[:, 0] if self.pay is None else np.full(self.num_envs, self.pay)
        reward = np.where(self.ended, 99, paid)
        terminated = (actions == TERMINATE) & ~self.ended
        truncated = (actions == TRUNCATE) & ~self.ended
        self.ended = terminated | truncated
        return self.t, reward, terminated, truncated, {}

    def close(self, **kwargs):
        self.tape.append("close")


class Masked(Scripted):
    """The same with a mask from `masks` for each step of an episode; None gives none."""

    def __init__(self, masks: Any = ([1, 1, 1],), start: int = 0):
        super().__init__()
        self.masks = masks
        self.action_space = gym.spaces.Discrete(3, start=start)

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self.info()

    def step(self, action):
        return *super().step(action - int(self.action_space.start))[:4], self.info()

    def info(self):
        mask = self.masks[min(int(self.buffer[0]), len(self.masks) - 1)]
        return {} if mask is None else {"action_mask": mask}


class MaskedVector(ScriptedVector):
    """The same with one of `infos` for each call of reset and step, the last one for ever."""

    def __init__(self, num_envs, infos: Any):
        super().__init__(num_envs)
        self.infos = infos

    def reset(self, *, seed=None, options=None):
        self.calls = 0
        return super().reset(seed=seed)[0], self.info()

    def step(self, actions):
        return *super().step(actions)[:4], self.info()

    def info(self):
        self.calls += 1
        return self.infos[min(self.calls, len(self.infos)) - 1]


class Fixed(gym.Env):
    """Always gives the one observation; is paid the action it gets. Spaces as you like."""

    def __init__(
        self,
        observation: Any = 0.5,
        observation_space: gym.Space[Any] = gym.spaces.Box(0, 1, ()),  # noqa: B008
        action_space: gym.Space[Any] = gym.spaces.Discrete(2),  # noqa: B008
        tape: list[str] | None = None,
    ):
        self.observation = observation
        self.observation_space = observation_space
        self.action_space = action_space
        self.tape = [] if tape is None else tape

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        return self.observation, action, False, False, {}

    def close(self):
        self.tape.append("close")


@pytest.fixture(autouse=True)
def registered_envs() -> Iterator[None]:
    gym.register("test/Scripted-v0", Scripted, vector_entry_point=ScriptedVector)
    gym.register("test/Limited-v0", Scripted, max_episode_steps=2)
    gym.register("test/Masked-v0", Masked, vector_entry_point=MaskedVector)
    gym.register("test/Fixed-v0", Fixed)
    yield
    for name in ("test/Scripted-v0", "test/Limited-v0", "test/Masked-v0", "test/Fixed-v0"):
        del gym.registry[name]
