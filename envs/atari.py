"""ALE's games as agents are trained on them."""

from typing import Any

import gymnasium as gym
from gymnasium.wrappers import AtariPreprocessing


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
    terminal_on_life_loss: bool = False,
    grayscale_obs: bool = True,
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
      terminal_on_life_loss: whether a lost life ends the episode.
      grayscale_obs: whether pictures are gray, [H, W]; else [H, W, 3].

    Raises:
      ValueError: it is no such game, or skips frames by itself.
      DependencyNotInstalled: OpenCV is not there.
    """
    if not hasattr(env.unwrapped, "ale"):
        raise ValueError("it is none of ALE's games")
    if getattr(env.unwrapped, "_frameskip", None) != 1:
        raise ValueError("the wrapper skips frames itself: set env_kwargs = { frameskip = 1 }")
    return AtariPreprocessing(
        env, noop_max=noop_max, frame_skip=frame_skip, screen_size=screen_size,
        terminal_on_life_loss=terminal_on_life_loss, grayscale_obs=grayscale_obs,
    )  # fmt: skip
