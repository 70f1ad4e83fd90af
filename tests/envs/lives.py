"""Games of three lives, of which a lost one is an end for the learner alone."""

import gymnasium as gym
import numpy as np

ID = "tests.envs.lives:Lives-v0"
GO_ON, LOSE, TRUNCATE = range(3)


class Lives(gym.Env):
    """Shows the number of the step and the lives left, and pays the number of the step.

    Its actions say what happens; with `by_chance` a life is lost in one step of five, and the
    numbers that are shown are random.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, by_chance=False, masks=None):
        self.by_chance, self.masks = by_chance, masks
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.left = 0, 3
        self.resets += 1
        return self.shown(), self.info()

    def step(self, action):
        self.t += 1
        lost = self.np_random.random() < 0.2 if self.by_chance else action == LOSE
        self.left -= lost
        info = self.info() | ({"life_lost": True} if lost and self.left else {})
        truncated = not self.by_chance and action == TRUNCATE
        return self.shown(), float(self.t), bool(lost), truncated, info

    def shown(self):
        if self.by_chance:
            return self.np_random.normal(size=2).astype(np.float32)
        return np.float32([self.t, self.left])

    def info(self):
        return {} if self.masks is None else {"action_mask": self.masks[self.t]}


class VectorLives(gym.vector.VectorEnv):
    """The same games side by side; the step after a lost life is one like any other."""

    single_observation_space = Lives.observation_space
    single_action_space = Lives.action_space
    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.games = [Lives() for _ in range(num_envs)]

    def reset(self, *, seed=None, options=None):
        self.over = np.zeros(self.num_envs, bool)
        return np.stack([game.reset()[0] for game in self.games]), {}

    def step(self, actions):
        rows = [
            (game.reset()[0], 0.0, False, False, {}) if over else game.step(int(action))
            for game, over, action in zip(self.games, self.over, actions, strict=True)
        ]
        shown, paid, terminated, truncated, infos = zip(*rows, strict=True)
        lost = np.array(["life_lost" in info for info in infos])
        terminated, truncated = np.array(terminated), np.array(truncated)
        self.over = (terminated | truncated) & ~lost
        return np.stack(shown), np.array(paid), terminated, truncated, {"life_lost": lost}


if "Lives-v0" not in gym.registry:
    gym.register(
        "Lives-v0", "tests.envs.lives:Lives", vector_entry_point="tests.envs.lives:VectorLives"
    )
