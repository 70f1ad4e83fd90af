"""Play of a trained policy, in a window or as a video."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.agents.config.envs import envs_beside
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.policy import Playing
from targetnet.agents.loops.evaluation import Returns, TooLong, Watch
from targetnet.agents.policy.load import load_policy
from targetnet.agents.saved.directory import PLAYED, RunDir
from targetnet.envs import Envs, Episode
from targetnet.rl_core.arguments import path_of, require_function, require_whole
from targetnet.rl_core.board.events import write_apart
from targetnet.rl_core.board.once import animation_event
from targetnet.rl_core.control.files import is_alive
from targetnet.rl_core.errors import EnvError, RlCoreError, in_one_line

_SEED_OFFSET = 2_000_003  # keeps the seeds of play apart from training and evaluation
_BOARD_FRAMES, _BOARD_SIDE = 300, 240  # length and side in pixels of the animation in TensorBoard
KINDS = (".mp4", ".gif")


class PlayError(RlCoreError, OSError):
    """Failure of a play: no display, no video library, a video or board that cannot be written."""


def play(
    run: Path | str,
    episodes: int = 1,
    *,
    video: Path | str | None = None,
    seed: int | None = None,
    averaged: bool = False,
    best: bool = False,
    to_board: bool = False,
    on_episode: Callable[[Episode], None] = lambda _: None,
    watch: Watch = lambda done, env_steps: None,
) -> Returns:
    """Plays the greedy policy and returns the undiscounted return of every episode.

    An episode that lasts the config's `eval_max_steps` env steps is cut off.

    Args:
      run: a run directory.
      episodes: number of episodes.
      video: path of an .mp4 or .gif for all episodes; None opens a window.
      seed: seed of the episodes; by default derived from the run's seed.
      averaged, best: choose the weights, as for `load_policy`.
      to_board: also shows the first frames in the Images tab of TensorBoard; opens no window.
      on_episode: called after each episode.
      watch: called after every step, as in `evaluate`.

    Raises:
      PlayError: no display, no video library, or the video cannot be written; or `to_board`, and
        the run is at work.
      EnvError: the env cannot render.
      RunDirError: there is no such run, or it has no such weights.
    """
    require_whole("episodes", episodes, 1)
    if seed is not None:
        require_whole("seed", seed, 0)
    require_function("on_episode", on_episode, "episode")
    video = None if video is None else path_of("video", video)
    directory = RunDir.open(path_of("run", run))
    config = directory.config()
    _require_playable(directory, video, to_board)
    mode = "rgb_array" if video or to_board else "human"
    if mode == "rgb_array":
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # lets pygame run without a screen
    seed = config.seed + _SEED_OFFSET if seed is None else seed
    with (
        load_policy(directory.path, averaged=averaged, best=best) as policy,
        contextlib.closing(_drawn(lambda: _drawing(config, seed, mode))) as envs,
        _video(video, envs.frames_per_second) as add,
        _board(directory, to_board, envs.frames_per_second, policy.env_step) as show,
    ):

        def draw() -> None:
            if mode == "rgb_array":
                frame = _picture(_drawn(envs.render), config.env_id)
                add(frame)
                show(frame)

        act, too_long = policy.greedy.playing(envs.num_envs), TooLong(envs, config.eval_max_steps)
        return _play(envs, act, too_long, episodes, draw, on_episode, watch)


def _require_playable(directory: RunDir, video: Path | None, to_board: bool) -> None:
    """Checks that a run can be shown where it shall be.

    Raises:
      PlayError: it cannot; says why.
    """
    if video and video.suffix not in KINDS:
        raise PlayError(f"a video is {' or '.join(KINDS)}, got {str(video)!r}")
    if not video and not to_board and not _has_display():
        raise PlayError("there is no display to open a window on; use --video FILE.mp4")
    if to_board:
        _require_at_rest(directory)


def _play(
    envs: Envs,
    act: Playing,
    too_long: TooLong,
    episodes: int,
    draw: Callable[[], None],
    on_episode: Callable[[Episode], None],
    watch: Watch,
) -> Returns:
    """Plays so many episodes; draws the first observation and each that a step leads to."""
    returns, env_steps = Returns(), 0
    step = _drawn(envs.reset)
    ended: tuple[Episode, ...] = ()
    while True:
        draw()
        returns.add(ended)
        for episode in ended:
            on_episode(episode)
        if len(returns) == episodes:
            return returns
        step = envs.step(act(step.observation, step.autoreset, step.legal))
        ended = step.episodes + too_long.cut(step)
        env_steps += 1
        watch(len(returns), env_steps)


def _drawn(call: Callable[[], Any]) -> Any:
    """Calls what makes an env draw, and tells in one line why it cannot."""
    try:
        return call()
    except Exception as error:
        cause = error.__cause__ or error
        why = f"{type(cause).__name__}: {in_one_line(cause)}"
        if isinstance(cause, ImportError | gym.error.DependencyNotInstalled):
            install = "pip install 'targetnet[video]'"
            raise PlayError(f"drawing needs a package ({why}); for pygame: {install}") from error
        if type(cause).__module__.partition(".")[0] == "pygame":
            raise PlayError(f"no window can be opened ({why}); use --video FILE.mp4") from error
        if isinstance(error, RlCoreError):
            raise
        raise PlayError(f"the env's render failed ({why}); correct the env") from error


def _drawing(config: DqnConfig, seed: int, mode: str) -> Envs:
    """Makes envs that draw; the config's envs could be made without."""
    try:
        return envs_beside(config, seed=seed, render_mode=mode)
    except EnvError:
        if config.vectorization in ("sync", "async"):
            raise
        raise EnvError(
            f"the vector env of {config.env_id!r} draws no pictures (no render_mode {mode!r})"
        ) from None


def _picture(frame: Any, env_id: str) -> np.ndarray:
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise EnvError(f"env {env_id!r} draws no pictures (no render_mode 'rgb_array')")
    even = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]  # H.264 needs even sides
    return np.ascontiguousarray(even, np.uint8)


@contextlib.contextmanager
def _video(path: Path | None, fps: float) -> Iterator[Callable[[np.ndarray], None]]:
    """Yields a function that adds a frame; the file gets its name once it is complete."""
    if path is None:
        yield lambda frame: None
        return
    try:
        import imageio.v2 as imageio
    except ImportError:
        raise PlayError("a video needs imageio: pip install 'targetnet[video]'") from None
    making = path.with_name(f".{path.stem}.making{path.suffix}")
    try:
        if path.suffix == ".gif":
            writer = imageio.get_writer(making, mode="I", duration=1_000 / fps, loop=0)
        else:
            writer = imageio.get_writer(making, fps=fps, macro_block_size=2, codec="libx264")
        with writer:
            yield writer.append_data
        making.replace(path)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, RlCoreError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise PlayError(f"cannot write {path}: {reason}") from None
    finally:
        with contextlib.suppress(OSError):
            making.unlink(missing_ok=True)


@contextlib.contextmanager
def _board(
    directory: RunDir, wanted: bool, fps: float, env_step: int
) -> Iterator[Callable[[np.ndarray], None]]:
    """Yields a function that adds a frame to a small animation in the run's Images tab."""
    frames: list[Any] = []
    if not wanted:
        yield lambda frame: None
        return
    from PIL import Image

    def add(frame: np.ndarray) -> None:
        if len(frames) < _BOARD_FRAMES:
            picture = Image.fromarray(frame)
            picture.thumbnail((_BOARD_SIDE, _BOARD_SIDE))
            frames.append(picture)

    yield add
    gif = io.BytesIO()
    frames[0].save(
        gif, "gif", save_all=True, append_images=frames[1:], duration=1_000 / fps, loop=0
    )
    _require_at_rest(directory)  # it may have been resumed meanwhile
    width, height = frames[0].size
    event = animation_event("play/episode", gif.getvalue(), width, height, env_step)
    write_apart(directory.path, event, PLAYED)


def _require_at_rest(directory: RunDir) -> None:
    """Refuses a run at work: TensorBoard's slow reader never goes back to an older file."""
    if is_alive(directory.control):
        raise PlayError(
            f"{directory.path} is at work, and TensorBoard follows one event file of a run; use "
            "--video FILE.mp4, or --to-board once it has ended"
        )


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
