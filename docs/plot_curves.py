"""Draws a run's curves from its event file: what TensorBoard shows, as one picture.

python docs/plot_curves.py runs/cartpole-1 docs/curves.png
"""

import sys
import types
from pathlib import Path

# TensorBoard reads event files without importing TensorFlow when this module exists.
sys.modules["tensorboard.compat.notf"] = types.ModuleType("tensorboard.compat.notf")

# ruff: noqa: E402
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from targetnet.rl_core.board.tags import TAGS

SHOWN = (
    "episode/return",
    "evaluation/return",
    "learn/q_mean",
    "learn/td_error_mean_abs",
    "target/age",
    "target/distance",
    "live/epsilon",
    "live/learning_rate",
)


def curve(events: EventAccumulator, tag: str) -> tuple[list[int], list[float]]:
    if tag in events.Tags()["scalars"]:
        points = events.Scalars(tag)
        return [p.step for p in points], [p.value for p in points]
    points = events.Tensors(tag)
    return [p.step for p in points], [
        float(tensor_util.make_ndarray(p.tensor_proto)) for p in points
    ]


def main(run: Path, picture: Path) -> None:
    events = EventAccumulator(str(run), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    units = {tag.name: tag.unit for tag in TAGS}
    figure = Figure(figsize=(14, 5.5), layout="constrained")
    axes = figure.subplots(2, 4, sharex=True)
    for axis, tag in zip(axes.flat, SHOWN, strict=True):
        axis.plot(*curve(events, tag), linewidth=1, color="#d9541a")
        axis.set_title(f"{tag} [{units[tag]}]", fontsize=10)
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("env steps")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
