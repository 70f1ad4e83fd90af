"""The table of all TensorBoard tags (name, unit, meaning, kind) and its docs page.

targetnet.rl_core.board.events refuses a tag that is not in the table, so every curve on a board has
a unit and a description. The x axis of every tag is the env step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from targetnet.rl_core.errors import UnknownName, did_you_mean

Kind = Literal["scalar", "histogram", "text", "image"]


@dataclass(frozen=True)
class Tag:
    """One curve, histogram, text or image. TensorBoard groups tags by the part before the slash."""

    name: str
    unit: str
    meaning: str
    kind: Kind = "scalar"


TAGS = (
    Tag(
        "episode/return",
        "reward",
        "Undiscounted sum of the rewards of one finished training episode, with exploration.",
    ),
    Tag("episode/length", "env steps", "Env steps of one finished training episode."),
    Tag(
        "evaluation/return",
        "reward",
        "Mean undiscounted return of the greedy policy over one round of evaluation episodes.",
    ),
    Tag(
        "evaluation/return_ema",
        "reward",
        "As evaluation/return, but with the averaged (EMA) weights, on the same episodes.",
    ),
    Tag("evaluation/length", "env steps", "Mean length of the episodes of one greedy evaluation."),
    Tag(
        "play/episode",
        "frames",
        "Animation of the first frames of `targetnet play --to-board`.",
        "image",
    ),
    Tag("learn/loss", "1", "Mean loss over the batch of the latest update."),
    Tag(
        "learn/td_error_mean_abs",
        "reward",
        "Mean absolute TD error (target - estimate) in the batch of the latest update.",
    ),
    Tag(
        "learn/td_error",
        "reward",
        "TD errors (target - estimate) in the batch of the latest update.",
        kind="histogram",
    ),
    Tag(
        "learn/q_mean",
        "reward",
        "Mean online value of the taken actions in the batch of the latest update.",
    ),
    Tag(
        "learn/q_max",
        "reward",
        "Largest online action value in the batch of the latest update; overestimation raises it.",
    ),
    Tag("learn/gradient_norm", "1", "Global L2 norm of the gradient, before any clipping."),
    Tag("learn/updates", "updates", "Updates (gradient steps) done since the run began."),
    Tag("live/epsilon", "probability", "Present probability of a random action."),
    Tag("live/learning_rate", "1", "Present learning rate."),
    Tag("live/sync_period", "updates", "Present age at which online is copied to the target."),
    Tag("live/arm", "index", "Index of the freeze schedule's present arm; 0 without a schedule."),
    Tag(
        "target/age",
        "updates",
        "Age of the target at each copy: the updates since the copy before. Of many copies ten are "
        "shown for each point of other curves.",
    ),
    Tag(
        "target/period",
        "updates",
        "With sync_growth: the age at which online is copied to the target, as it has grown.",
    ),
    Tag(
        "target/fit",
        "1",
        "With sync_fit: mean squared TD error of the latest updates, over what it was after the "
        "last copy; below sync_fit the target is copied.",
    ),
    Tag(
        "target/distance",
        "1",
        "Global L2 norm of online - target over all their variables; 0 right after a hard copy.",
    ),
    Tag(
        "speed/env_steps_per_second",
        "env steps / s",
        "Env steps per second of training since the previous point, learning included.",
    ),
    Tag(
        "speed/updates_per_second",
        "updates / s",
        "Updates per second of training since the previous point, env steps included.",
    ),
    Tag(
        "population/copied",
        "number",
        "Number of the member that was copied, at each copy in population-based training.",
    ),
    Tag("run/config", "-", "The configuration the run was started with.", kind="text"),
    Tag(
        "control/changes",
        "-",
        "Changes and commands during the run, with their time and author.",
        kind="text",
    ),
)

_BY_NAME = {tag.name: tag for tag in TAGS}


def weights_tag(name: str) -> Tag:
    """Returns the tag of the histogram of one variable's weights."""
    return Tag(f"weights/{name}", "1", f"Weights {name} of the online network.", "histogram")


def gradients_tag(name: str) -> Tag:
    """Returns the tag of the histogram of the gradient by one variable."""
    meaning = f"Gradient of the loss by {name}, in the next update's batch, before any clipping."
    return Tag(f"gradients/{name}", "1", meaning, "histogram")


def live_tag(name: str, unit: str) -> Tag:
    """Returns the tag of one live value's curve, which has a step at each change."""
    meaning = (
        f"Present value of {name}, if the config has a schedule for it or somebody has set it."
    )
    return Tag(f"live/{name}", unit, meaning)


def tag_named(name: str, kind: Kind, more: Mapping[str, Tag] = MappingProxyType({})) -> Tag:
    """Returns the tag with this name and kind from TAGS or `more`.

    Raises:
      UnknownName: no tag has this name, or it has another kind.
    """
    tag = _BY_NAME.get(name) or more.get(name)
    if tag is None:
        near = did_you_mean(name, [*_BY_NAME, *more])
        raise UnknownName(f"no TensorBoard tag is named {name!r}{near}")
    if tag.kind != kind:
        raise UnknownName(f"no {kind} tag is named {name!r}: it is a {tag.kind}")
    return tag


def as_markdown() -> str:
    """Returns the docs page of all tags."""
    lines = [
        "# TensorBoard tags",
        "",
        "<!-- Generated from rl_core/board/tags.py by make docs. -->",
        "",
        "The x axis of every tag is the env step: one transition of one env.",
        "",
        "| tag | kind | unit | meaning |",
        "|---|---|---|---|",
    ]
    tags = [*TAGS, live_tag("<name>", "its own")]
    tags += [weights_tag("<variable>"), gradients_tag("<variable>")]
    lines += [f"| `{tag.name}` | {tag.kind} | {tag.unit} | {tag.meaning} |" for tag in tags]
    return "\n".join(lines) + "\n"
