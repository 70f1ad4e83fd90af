"""The plan of a sweep: all that decides its trials, kept in its directory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from targetnet.agents.config.combinations import without_replay_keys
from targetnet.agents.config.files import read_sealed, stored_text
from targetnet.agents.config.live_values import live_knobs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.settings import Settings, parse
from targetnet.agents.experiments.sweep.space import Param, Range, Space
from targetnet.agents.experiments.training_job import FIRST_FRESH_SEED
from targetnet.rl_core.errors import ConfigError, RunDirError, quoted


class SweepPlan(Settings):
    """All that decides the trials of a sweep.

    Attributes:
      config: the config that all trials have in common, as in its file.
      over: what is searched, as `Space` takes it.
      sampler: proposes the values.
      seed: of the sampler.
      seeds: number of tuning seeds of each trial.
      score: a trial's score: the mean of its greedy curve, or its last point.
      prune: whether trials that are worse than the median of the earlier ones are stopped.
      together: trials of one process.
      ahead: processes at work at once, when the sweep began. A process's trials are proposed from
        those that are at least so many processes older, so finishing order does not matter.
    """

    config: dict[str, Any]
    over: list[str]
    sampler: Literal["tpe", "random", "grid"]
    seed: int = Field(ge=0)
    seeds: int = Field(ge=1, le=FIRST_FRESH_SEED)
    score: Literal["curve", "final"]
    prune: bool
    together: int = Field(ge=1)
    ahead: int = Field(ge=1)

    @cached_property
    def base(self) -> DqnConfig:
        base: DqnConfig = parse(DqnConfig, without_replay_keys(self.config), "sweep")
        return base

    @cached_property
    def space(self) -> Space:
        return Space(self.base, self.over)

    def require_usable(self) -> None:
        """Checks what concerns several of the fields.

        Raises:
          ConfigError: they cannot be used together.
        """
        if self.sampler == "grid":
            self.grid()
        live = {knob.name for knob in live_knobs(self.base)}
        for name in self.space.axes:
            if self.together > 1 and name.partition(".")[0] not in live:
                raise ConfigError(
                    f"--together {self.together}: trials of one process share a graph and may "
                    f"differ in live values alone, and {name} is none"
                )

    def grid(self) -> dict[str, list[Param]]:
        """Returns the values of each key, of which a grid has all combinations.

        Raises:
          ConfigError: a key has a range.
        """
        lists = {}
        for name, axis in self.space.axes.items():
            if isinstance(axis, Range):
                raise ConfigError(
                    f"--over {name}: a grid wants a list of values for each key: "
                    f"{name}=VALUE,VALUE,..."
                )
            lists[name] = list(axis.values)
        return lists

    def most_trials(self) -> int | None:
        """Returns how many trials there can be; None if there is no end."""
        return math.prod(map(len, self.grid().values())) if self.sampler == "grid" else None

    def seeds_of(self, trial: int) -> list[int]:
        """Returns the tuning seeds of a trial; trials that are alike have different ones."""
        first = trial * self.seeds
        return [seed % FIRST_FRESH_SEED for seed in range(first, first + self.seeds)]

    def text(self) -> str:
        """Returns the text of a file that `read_plan` reads back."""
        return stored_text(self.model_dump())

    def differences(self, other: SweepPlan) -> Iterator[str]:
        """Yields what another plan of the same directory has differently, in words."""
        for name in ("over", "sampler", "seed", "seeds", "score", "prune", "together"):
            was, is_ = getattr(self, name), getattr(other, name)
            if was != is_:
                yield f"{name} is {quoted(was)} there, not {quoted(is_)}"
        # A key that one of them lacks is newer than it. Its default is what was done before.
        default = DqnConfig().model_dump(mode="json", exclude_none=True)
        mine, theirs = without_replay_keys(self.config), without_replay_keys(other.config)
        for name in sorted(mine.keys() | theirs.keys()):
            was, is_ = (of.get(name, default.get(name)) for of in (mine, theirs))
            if was != is_:
                yield f"{name} is {quoted(was)} there, not {quoted(is_)}"


def read_plan(path: Path) -> SweepPlan:
    """Reads a plan's file.

    Raises:
      RunDirError: it is damaged or not there.
    """
    try:
        plan: SweepPlan = parse(SweepPlan, read_sealed(path), str(path))
    except ConfigError as error:
        raise RunDirError(str(error)) from None
    return plan
