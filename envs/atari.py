"""ALE's games as agents are trained on them."""

from typing import Any

import gymnasium as gym
from gymnasium.wrappers import AtariPreprocessing

from targetnet.envs.outcomes import LIFE_LOST
from targetnet.rl_core.errors import quoted

RESTART = "restart"  # of `terminal_on_life_loss`


def quiet_ale() -> None:
    """Keeps ALE from greeting with each game that it loads.

    Raises:
      ImportError: it is not installed.
    """
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Warning)


def preprocessed(
    env: gym.Env[Any, Any],
    *,
    noop_max: int = 0,
    frame_skip: int = 4,
    screen_size: int = 84,
    terminal_on_life_loss: bool | str = False,
    grayscale_obs: bool = True,
    fire_reset: bool = False,
) -> gym.Env[Any, Any]:
    """Puts Gymnasium's AtariPreprocessing around one of ALE's games.

    The defaults are those of Machado et al. (2018), https://arxiv.org/abs/1709.06009, with the
    sticky actions and the time limit that the games have by themselves. Frames are not stacked
    here, but by `frame_stack`; rewards are not clipped, but by `reward_clip`.

    Args:
      env: made with `frameskip=1`, because frames are skipped here.
      noop_max: most steps without an action with which an episode begins, drawn anew each time.
      frame_skip: frames that an action lasts; shown is the brighter of the last two, pixel by
        pixel.
      screen_size: pixels of a picture's height and width.
      terminal_on_life_loss: True: a lost life is an end for the learner, and the game goes on
        (`LifeLoss`). "restart": it ends the episode, and the game begins anew.
      grayscale_obs: whether pictures are gray, [H, W]; else [H, W, 3].
      fire_reset: whether games that have a fire button begin with a press of it, and so does each
        life after a lost one that is an end.

    Raises:
      ValueError: it is no such game, skips frames by itself, or a value is none of those above.
      DependencyNotInstalled: OpenCV is not there.
    """
    if not hasattr(env.unwrapped, "ale"):
        raise ValueError("it is none of ALE's games")
    if getattr(env.unwrapped, "_frameskip", None) != 1:
        raise ValueError("the wrapper skips frames itself: set env_kwargs = { frameskip = 1 }")
    if terminal_on_life_loss not in (False, True, RESTART):
        raise ValueError(
            f"terminal_on_life_loss must be true, false or {RESTART!r}, got "
            f"{quoted(terminal_on_life_loss)}"
        )
    game: gym.Env[Any, Any] = AtariPreprocessing(
        env, noop_max=noop_max, frame_skip=frame_skip, screen_size=screen_size,
        terminal_on_life_loss=terminal_on_life_loss == RESTART, grayscale_obs=grayscale_obs,
    )  # fmt: skip
    if terminal_on_life_loss is True:
        game = LifeLoss(game)
    if fire_reset and "FIRE" in env.unwrapped.get_action_meanings():  # type: ignore[attr-defined]
        game = FireReset(game)
    return game


class LifeLoss(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Marks lost lives: `terminated`, and `info["life_lost"]` as long as the game goes on.

    The game does not notice: the same actions show and pay the same as without this wrapper. The
    drivers begin a life as Dopamine begins an episode of its agent, with what was shown last and
    without the frames before: Castro et al. (2018), https://arxiv.org/abs/1812.06110.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        # First, as in Gymnasium's own wrappers: so that the env's spec tells how to make it again.
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._lives = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        self._lives = self._left()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, self._lives = self._lives, self._left()
        if self._lives < before and not terminated:
            return observation, reward, True, truncated, info | {LIFE_LOST: True}
        return observation, reward, terminated, truncated, info

    def _left(self) -> int:
        return int(self.unwrapped.ale.lives())  # type: ignore[attr-defined]


class FireReset(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Presses the fire button where a game begins, and where `LifeLoss` says that a life does."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        self._fire = meanings.index("FIRE")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        observation, _, terminated, truncated, info = self.env.step(self._fire)
        if terminated or truncated:  # by the very first step: such a game begins without it
            return self.env.reset(seed=seed, options=options)
        return observation, result[1] | info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = observation, reward, terminated, truncated, info = self.env.step(action)
        if truncated or not info.get(LIFE_LOST):
            return result
        observation, more, terminated, truncated, after = self.env.step(self._fire)
        # Over for good if the game ended meanwhile. Otherwise the lost life is still an end.
        over = terminated and not after.get(LIFE_LOST)
        info = after if over else after | {LIFE_LOST: True}
        return observation, float(reward) + float(more), True, truncated, info


class VectorLifeLoss(gym.vector.VectorWrapper):
    """Marks lost lives of ALE's vector env with `life_loss_info`, as `LifeLoss` does."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(actions)
        lost = terminated & (info["lives"] > 0)
        return observation, reward, terminated, truncated, info | {LIFE_LOST: lost}
