"""Trains a healthy run and some sick ones, and draws the pictures of docs/guides/curves.md.

python docs/plot_healthy_and_sick.py runs/healthy_and_sick docs/pictures/curves

The first directory keeps the runs; those that are there already are not trained again.
"""

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from targetnet import load_config, read_curve, train
from targetnet.rl_core.board.tags import TAGS

HEALTHY = "cartpole-plain"
# What each sick run changes in the config `cartpole-plain`.
SICK: dict[str, dict[str, Any]] = {
    "learning_rate = 0.1": {"learning_rate": 0.1},
    "sync_period = 1, learning_rate = 0.02": {"sync_period": 1, "learning_rate": 0.02},
    "sync_period = 4000": {"sync_period": 4_000},
    "epsilon = 0, learn_start = 100": {"epsilon": 0.0, "learn_start": 100},
    "replay_capacity = 300": {"replay_capacity": 300, "learn_start": 300},
    "learn_period = 2, updates_per_learn = 1": {"learn_period": 2, "updates_per_learn": 1},
}
RATE, NO_LAG, LAG, GREEDY, FORGETS, SINGLE = SICK
PICTURES = {
    "episode/return": (GREEDY, RATE),
    "evaluation/return": (FORGETS, RATE),
    "learn/loss": (RATE, GREEDY),
    "learn/td_error_mean_abs": (RATE, LAG),
    "learn/q_mean": (NO_LAG, LAG),
    "learn/q_max": (NO_LAG, GREEDY),
    "learn/gradient_norm": (NO_LAG, GREEDY),
    "target/age": (LAG,),
    "target/distance": (RATE, LAG),
    "live/epsilon": (GREEDY,),
    "speed/env_steps_per_second": (SINGLE,),
}


def run_of(runs: Path, name: str) -> Path:
    """Returns the directory of a run, and trains it if it is not there."""
    run = runs / name.replace(" = ", "_").replace(", ", "-")
    if not run.exists():
        changes = {"log_period": 500, "eval_period": 2_500, "final_eval_episodes": 10}
        train(load_config(HEALTHY, changes | SICK.get(name, {})), run)
    return run


def draw(tag: str, runs: dict[str, Path], picture: Path) -> None:
    unit = next(known.unit for known in TAGS if known.name == tag)
    figure = Figure(figsize=(3.2 * len(runs), 2.3), layout="constrained")
    for axis, (name, run) in zip(figure.subplots(1, len(runs)), runs.items(), strict=True):
        axis.plot(
            *zip(*read_curve(run, tag, most=2_000).points, strict=True), linewidth=1, clip_on=False
        )
        axis.lines[0].set_color("#2a7f4f" if name == HEALTHY else "#c8401a")
        axis.set_title(f"healthy: {name}" if name == HEALTHY else name, fontsize=8, pad=9)
        axis.tick_params(labelsize=7)
        axis.yaxis.get_offset_text().set_fontsize(7)
        axis.set_ylim(bottom=0)
        axis.set_xticks([0, 25_000, 50_000], ["0", "25,000", "50,000"])
        axis.grid(alpha=0.3)
        axis.set_xlabel("env steps", fontsize=7)
    figure.suptitle(f"{tag} [{unit}]", fontsize=9)
    figure.savefig(picture, dpi=80)


def main(runs: Path, pictures: Path) -> None:
    pictures.mkdir(parents=True, exist_ok=True)
    for tag, sick in PICTURES.items():
        shown = {name: run_of(runs, name) for name in (HEALTHY, *sick)}
        draw(tag, shown, pictures / f"{tag.replace('/', '_')}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
