"""MinAtar: five small Atari-like games (Young & Tian 2019, https://arxiv.org/abs/1903.03176).

The games come from the package MinAtar; the env around them is ours. Our episode depends only on
the seed of its reset and on its actions. In the package's env, a sticky action in the first step
repeats the last action of the previous episode.
"""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
# The paper has no time limit. Without a limit an evaluation could last for ever: Seaquest's
# submarine is safe where it begins. Targets bootstrap at a truncation, so the limit does not
# change what the agent learns.
MAX_EPISODE_STEPS = 20_000
CELL = 16  # pixels
# Black for an empty cell, then one colour per channel.
PALETTE = np.array(
    [
        (0, 0, 0),
        (86, 180, 233),
        (230, 159, 0),
        (120, 94, 160),
        (0, 158, 115),
        (240, 228, 66),
        (213, 94, 0),
        (204, 121, 167),
        (0, 114, 178),
        (150, 220, 130),
        (245, 245, 245),
    ],
    np.uint8,
)


class MinAtarEnv(gym.Env[Any, Any]):
    """One MinAtar game; observations are bool planes [10, 10, C], one plane per kind of object.

    Args:
      game: one of GAMES.
      use_minimal_action_set: True allows only the actions with an effect in this game, False all
        six.
      sticky_action_prob: probability with which the previous action is repeated, as in Machado
        et al. (2018), https://arxiv.org/abs/1709.06009. Before the first action of an episode,
        the previous action is "do nothing".
      difficulty_ramping: True makes the game harder with time, if the game supports it.
      render_mode: "rgb_array" draws [160, 160, 3] uint8.

    Raises:
      ModuleNotFoundError: the package MinAtar is not installed.
      ValueError: there is no such game, or the probability is outside [0, 1].
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        game: str,
        use_minimal_action_set: bool = True,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        if game not in GAMES:
            raise ValueError(f"game must be one of {', '.join(GAMES)}, got {game!r}")
        if not 0 <= sticky_action_prob <= 1:
            raise ValueError(f"sticky_action_prob must be in [0, 1], got {sticky_action_prob}")
        self._game = _rules_of(game).Env(ramping=difficulty_ramping)
        self._sticky_action_prob = sticky_action_prob
        self._actions = self._game.minimal_action_set() if use_minimal_action_set else range(6)
        self._last_action = 0
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(len(self._actions))
        shape = tuple(self._game.state_shape())
        self.observation_space = gym.spaces.Box(0, 1, shape, np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            # A RandomState and not self.np_random: the games call methods of RandomState.
            self._game.random = np.random.RandomState(seed)
        self._game.reset()
        self._last_action = 0
        return self._game.state(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._game.random.rand() >= self._sticky_action_prob:
            self._last_action = self._actions[action]
        reward, terminated = self._game.act(self._last_action)
        return self._game.state(), float(reward), terminated, False, {}

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        planes = self._game.state()  # [10, 10, C]
        # Of several objects in a cell the last channel is drawn, as in the package's display.
        seen = np.max(planes * np.arange(1, planes.shape[-1] + 1), axis=-1)  # [10, 10]
        return PALETTE[seen].repeat(CELL, axis=0).repeat(CELL, axis=1)  # [160, 160, 3]


def _rules_of(game: str) -> ModuleType:
    """Loads the package's module of one game from its file.

    A normal import would run the package's __init__, which imports seaborn, pandas and pyplot for
    its display and takes 1.5 seconds.
    """
    package = find_spec("minatar")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'minatar'", name="minatar")
    path = Path(package.submodule_search_locations[0], "environments", f"{game}.py")
    spec = spec_from_file_location(f"minatar.environments.{game}", path)
    assert spec is not None and spec.loader is not None  # true for every path that ends in .py
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _spec(game: str, version: int) -> EnvSpec:
    name = game.title().replace("_", "")
    return EnvSpec(
        f"MinAtar/{name}-v{version}",
        entry_point="targetnet.envs.minatar:MinAtarEnv",
        max_episode_steps=MAX_EPISODE_STEPS,
        kwargs={"game": game, "use_minimal_action_set": version == 1},
    )


# The package's ids: version 0 has all six actions, version 1 only the actions with an effect.
SPECS = {spec.id: spec for spec in (_spec(game, version) for game in GAMES for version in (0, 1))}
