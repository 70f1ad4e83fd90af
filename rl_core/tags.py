"""The one table of TensorBoard tags: name, unit, meaning, kind; and its docs page.

A tag that is not here cannot be written (rl_core.events refuses it), so whatever a board shows
has a unit and a sentence. The x axis of every tag is the env step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from rl_core.errors import UnknownName, did_you_mean

Kind = Literal["scalar", "histogram", "text", "image"]


@dataclass(frozen=True)
class Tag:
    """One curve, histogram or text. TensorBoard groups by what precedes the slash of `name`."""

    name: str
    unit: str
    meaning: str
    kind: Kind = "scalar"


TAGS = (
    Tag(
        "episode/return",
        "reward",
        "Sum of the rewards of one finished training episode, exploration included, undiscounted.",
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
        "The same with the averaged weights, on the same episodes.",
    ),
    Tag(
        "play/episode",
        "frames",
        "What `targetnet play --to-board` showed; in the run's subdirectory `play`.",
        "image",
    ),
    Tag("learn/loss", "1", "Mean loss over the batch of one update, the one at this point."),
    Tag(
        "learn/td_error_mean_abs",
        "reward",
        "Mean size of the TD errors (target - estimate) in that update's batch.",
    ),
    Tag(
        "learn/td_error",
        "reward",
        "The TD errors (target - estimate) in that update's batch.",
        kind="histogram",
    ),
    Tag("learn/q_mean", "reward", "Mean over that batch of the online value of the action taken."),
    Tag(
        "learn/q_max",
        "reward",
        "Largest online action value in that batch; overestimation shows here.",
    ),
    Tag("learn/gradient_norm", "1", "Global L2 norm of the gradient, before any clipping."),
    Tag("learn/updates", "updates", "Updates (gradient steps) done since the run began."),
    Tag("live/epsilon", "probability", "Probability of a random action, as now in force."),
    Tag("live/learning_rate", "1", "The learning rate now in force."),
    Tag("live/sync_period", "updates", "Age at which the target is copied, as now in force."),
    Tag("live/arm", "index", "Index of the freeze schedule's arm in training; 0 without one."),
    Tag("target/age", "updates", "Updates since the target was last copied from online."),
    Tag(
        "target/distance",
        "1",
        "Global L2 norm of online - target over all their variables; 0 right after a hard copy.",
    ),
    Tag(
        "speed/env_steps_per_second",
        "env steps / s",
        "Env steps per second of wall time since the previous point, learning included.",
    ),
    Tag("run/config", "-", "The configuration the run was started with.", kind="text"),
    Tag(
        "control/changes",
        "-",
        "What was changed or done while the run went on, when and by whom.",
        kind="text",
    ),
)

_BY_NAME = {tag.name: tag for tag in TAGS}


def control_tag(name: str, unit: str) -> Tag:
    """The curve of one live value: a step wherever it was set while the run went on."""
    return Tag(f"control/{name}", unit, f"The live value {name}, a step wherever it was set.")


def tag_named(name: str, kind: Kind, more: Mapping[str, Tag] = MappingProxyType({})) -> Tag:
    """The tag of that name and kind, in TAGS or in `more`.

    Raises:
      UnknownName: there is none, or it is of another kind.
    """
    tag = _BY_NAME.get(name) or more.get(name)
    if tag is None:
        near = did_you_mean(name, [*_BY_NAME, *more])
        raise UnknownName(f"no TensorBoard tag is named {name!r}{near}")
    if tag.kind != kind:
        raise UnknownName(f"no {kind} tag is named {name!r}: it is a {tag.kind}")
    return tag


def as_markdown() -> str:
    """The docs page of all tags."""
    lines = [
        "# TensorBoard tags",
        "",
        "Generated from `rl_core/tags.py` by `make docs`; edit the table there.",
        "",
        "The x axis of every tag is the env step: one transition of one env.",
        "",
        "| tag | kind | unit | meaning |",
        "|---|---|---|---|",
    ]
    tags = [*TAGS, control_tag("<name>", "its own")]
    lines += [f"| `{tag.name}` | {tag.kind} | {tag.unit} | {tag.meaning} |" for tag in tags]
    return "\n".join(lines) + "\n"
