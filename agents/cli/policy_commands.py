"""The commands eval, play and export, which use a run's weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from targetnet.agents.run.process import quiet_import
from targetnet.rl_core.errors import RlCoreError, escaped, quoted

if TYPE_CHECKING:
    from rich.console import Console

_INT64 = 2**63


@dataclass(frozen=True)
class Eval:
    """Play a trained policy on new episodes, greedily by default, and print their returns.

    Example: targetnet eval runs/cartpole-1 --episodes 20
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    episodes: Annotated[int, arg(metavar="N")] = 100
    """Number of episodes."""
    seed: Annotated[int | None, arg(metavar="S", help_behavior_hint="")] = None
    """Seed of the episodes. By default derived from the run's seed."""
    epsilon: Annotated[float, arg(metavar="P")] = 0.0
    """Probability of a uniformly random action, such as 0.001."""
    ema: bool = False
    """Use the averaged weights."""
    best: bool = False
    """Use the weights of the checkpoint with the best evaluation."""
    json: bool = False
    """Print one JSON object: episodes, mean, std, min, max, and how many were cut off."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.saved.directory import RunDir

        _require_episodes(self.episodes, self.seed)
        config = RunDir.open(self.run).config()
        with quiet_import(onednn=config.onednn):
            from targetnet.agents.loops.evaluation import cut_note, evaluate
            from targetnet.agents.policy.load import load_policy
            from targetnet.agents.run.display import evaluation_shown
            from targetnet.agents.run.outcome import summary
        with (
            load_policy(self.run, averaged=self.ema, best=self.best) as policy,
            evaluation_shown(_stderr_console(), self.episodes) as watch,
        ):
            returns = evaluate(
                policy, config, self.episodes, seed=self.seed, epsilon=self.epsilon, watch=watch
            )
        result = summary(returns)
        if self.json:
            print(json.dumps(result))
        else:
            kind = f"return with epsilon {self.epsilon:g}" if self.epsilon else "greedy return"
            console.print(
                f"{kind} {result['mean']:,.1f} +- {result['std']:,.1f} "
                f"({returns.counted('mean and std')}{cut_note(returns.cut, config)})",
                highlight=False,
                soft_wrap=True,
            )
        return 0


@dataclass(frozen=True)
class Play:
    """Show a trained policy in a window, or write a video of it.

    Example: targetnet play runs/cartpole-1 --video cartpole.mp4
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    episodes: Annotated[int, arg(metavar="N")] = 1
    """Number of episodes."""
    video: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write this .mp4 or .gif instead of opening a window."""
    seed: Annotated[int | None, arg(metavar="S", help_behavior_hint="")] = None
    """Seed of the episodes. By default derived from the run's seed."""
    ema: bool = False
    """Use the averaged weights."""
    best: bool = False
    """Use the weights of the checkpoint with the best evaluation."""
    to_board: bool = False
    """Also show the first frames in the Images tab of TensorBoard."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.saved.directory import RunDir

        _require_episodes(self.episodes, self.seed)
        config = RunDir.open(self.run).config()
        with console.status("importing TensorFlow"), quiet_import(onednn=config.onednn):
            from targetnet.agents.loops.evaluation import cut_note
            from targetnet.agents.policy.play import play
            from targetnet.agents.run.display import evaluation_shown

        with evaluation_shown(_stderr_console(), self.episodes) as watch:
            returns = play(
                self.run, self.episodes, video=self.video, seed=self.seed, averaged=self.ema,
                best=self.best, to_board=self.to_board, watch=watch,
                on_episode=lambda episode: console.print(
                    f"episode {episode.number + 1}: return {episode.episode_return:,.1f}, "
                    f"{episode.length:,} env steps{' (cut there)' if episode.cut else ''}",
                    highlight=False,
                ),
            )  # fmt: skip
        cut = cut_note(returns.cut, config)
        console.print(f"mean return {sum(returns) / len(returns):,.1f}{cut}", highlight=False)
        if self.video:
            console.print(
                escaped(f"video: {self.video}"), highlight=False, markup=False, soft_wrap=True
            )
        return 0


@dataclass(frozen=True)
class Export:
    """Write a run's greedy policy to files that do not need this project.

    Example: targetnet export runs/cartpole-1 policy --to onnx
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    dir: Annotated[Positional[Path], arg(metavar="DIR")]
    """A new or empty directory."""
    to: Annotated[str, arg(metavar="savedmodel|frozen|tflite|onnx|safetensors")]
    """File format."""
    ema: bool = False
    """Write the averaged weights."""
    best: bool = False
    """Write the weights of the checkpoint with the best evaluation."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.saved.directory import RunDir

        onednn = RunDir.open(self.run).config().onednn
        with console.status("importing TensorFlow"), quiet_import(onednn=onednn):
            from targetnet.agents.policy.export import export

        with console.status(f"writing {self.to}"):
            out = export(self.run, self.to, self.dir, averaged=self.ema, best=self.best)
        for path in sorted(p for p in out.rglob("*") if p.is_file()):
            console.print(escaped(str(path)), highlight=False, markup=False, soft_wrap=True)
        return 0


def _stderr_console() -> Console:
    """Returns a console on standard error; standard output is for the result alone."""
    from rich.console import Console

    return Console(stderr=True)


def _require_episodes(episodes: int, seed: int | None) -> None:
    if not 1 <= episodes < _INT64:
        raise RlCoreError(
            f"--episodes must be a whole number >= 1 that fits into int64, got {quoted(episodes)}"
        )
    if seed is not None and not 0 <= seed < _INT64:
        raise RlCoreError(
            f"--seed must be a whole number >= 0 that fits into int64, got {quoted(seed)}"
        )
