"""Decides an exchange: who copies whom, and how the live values change.

Truncation selection and perturbation of Population Based Training, Jaderberg et al. (2017),
https://arxiv.org/abs/1711.09846, appendix A.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from targetnet.agents.config.pbt import PbtKeys
from targetnet.rl_core.errors import BoundsError
from targetnet.rl_core.hyperparameters import Knob
from targetnet.rl_core.random import Stream


class MemberScore(NamedTuple):
    """A member before an exchange.

    Attributes:
      score: None if it has none yet; then it is left out.
      values: its live values that are perturbed.
    """

    score: float | None
    values: Mapping[str, Any]


class MemberCopy(NamedTuple):
    """A member's copy: of `giver`, with the live values that it has from then on."""

    giver: str
    values: dict[str, Any]


def decided(
    pbt: PbtKeys,
    seed: int,
    number: int,
    members: Mapping[str, MemberScore],
    knobs: Mapping[str, Knob],
) -> dict[str, MemberCopy]:
    """Returns the members that copy another one, and what.

    The lowest share copies the highest: each draws one of them. Of equal scores the member with
    the lower number is the lower one. Nobody copies a member that is no better. All that is random
    depends on the seed, the exchange and the member's number alone.

    Args:
      seed: of the population; number: of the exchange.
      members: by name, such as m03.
      knobs: of the live values that are perturbed.
    """
    scored = {name: of for name, of in members.items() if of.score is not None}
    ranked = sorted(scored, key=lambda name: (scored[name].score, _number(name)))
    count = pbt.copying(len(ranked))
    givers = ranked[len(ranked) - count :]
    stream, chosen = Stream(seed, f"pbt/{number}"), {}
    for name in sorted(ranked[:count], key=_number):
        draws = stream.uniform_in_numpy(_number(name), 1, (1 + len(knobs),))[0].tolist()
        giver = givers[int(draws[0] * count)]
        if _score(scored[giver]) <= _score(scored[name]):
            continue
        values = {
            knob.name: perturbed(
                knob, scored[giver].values[knob.name], pbt.factors[int(draw * len(pbt.factors))]
            )
            for knob, draw in zip(knobs.values(), draws[1:], strict=True)
        }
        chosen[name] = MemberCopy(giver, values)
    return chosen


def perturbed(knob: Knob, value: float, factor: float) -> Any:
    """Returns a live value times a factor.

    A whole number stays whole, and changes by at least 1. What would leave the bounds becomes the
    bound; where the bound itself is not allowed, the value stays as it is.
    """
    wanted = value * factor
    if not math.isfinite(wanted):
        return value
    if knob.whole:
        near = round(wanted)
        if near == value and wanted != value:
            near += 1 if wanted > value else -1
        wanted = near
    for candidate in (wanted, _clipped(knob, wanted)):
        try:
            return knob.check(candidate)
        except BoundsError:
            continue
    return value


def _clipped(knob: Knob, value: float) -> float:
    low = knob.at_least if knob.at_least is not None else knob.above
    high = knob.at_most if knob.at_most is not None else knob.below
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)


def _number(name: str) -> int:
    return int(name.removeprefix("m"))


def _score(standing: MemberScore) -> float:
    assert standing.score is not None
    return standing.score
