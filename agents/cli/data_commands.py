"""The command record, which writes a dataset of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from targetnet.agents.run.process import quiet_import
from targetnet.rl_core.errors import escaped

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Record:
    """Write episodes of a run's policy, or its replay memory, as a Minari dataset.

    Example: targetnet record runs/cartpole-1 data/cartpole-v0 --episodes 50
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """A new directory, named as Minari names datasets: data/cartpole-v0."""
    episodes: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Number of episodes. By default 100, if --env-steps is not given."""
    env_steps: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Number of env steps."""
    epsilon: Annotated[float, arg(metavar="E")] = 0.0
    """Probability of a random action. By default the policy is greedy."""
    seed: Annotated[int | None, arg(metavar="S", help_behavior_hint="")] = None
    """Seed of the episodes and of the random actions. By default derived from the run's seed."""
    ema: bool = False
    """Use the averaged weights."""
    best: bool = False
    """Use the weights of the checkpoint with the best evaluation."""
    replay: bool = False
    """Write the replay memory of the last checkpoint instead of new episodes."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.saved.directory import RunDir

        config = RunDir.open(self.run).config()
        with console.status("importing TensorFlow"), quiet_import(onednn=config.onednn):
            from targetnet.agents.data.record import record

        with console.status("recording"):
            made = record(
                self.run, self.out, episodes=self.episodes, env_steps=self.env_steps,
                epsilon=self.epsilon, seed=self.seed, averaged=self.ema, best=self.best,
                replay=self.replay,
            )  # fmt: skip
        episodes = "1 episode" if made.episodes == 1 else f"{made.episodes:,} episodes"
        console.print(
            escaped(
                f"{made.path}: {episodes}, {made.env_steps:,} env steps, mean "
                f"return {made.mean_return:,.1f}; Minari's id is {made.dataset_id}"
            ),
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
        return 0
