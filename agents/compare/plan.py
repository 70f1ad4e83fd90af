"""The file of a comparison: envs, and arms that differ in some keys of their configs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from agents.config.files import load_config, read_toml
from agents.config.model import DqnConfig
from agents.config.settings import Settings, parse
from rl_core.errors import ConfigError, did_you_mean, shown

# Seeds below are for choosing, those from here on for scores that nothing was chosen by.
FIRST_FRESH_SEED = 1_000


class Seeds(Settings):
    """Seeds that follow one another."""

    first: int = Field(ge=0)
    count: int = Field(ge=1, le=1_000)

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


class EnvPart(Settings):
    """One env of a comparison.

    Attributes:
      config: of all arms, but for what they change: a path, from the file on, or a shipped name.
      seeds, tuning: fresh and tuning seeds, if not those of the comparison.
      held_out: its tuning seeds choose the baseline's arm alone; what is chosen for all envs is
        chosen without it.
      without: groups that are not trained here.
    """

    config: str
    seeds: Seeds | None = None
    tuning: Seeds | None = None
    held_out: bool = False
    without: tuple[str, ...] = Field((), strict=False)


class Group(Settings):
    """Arms that differ in one key.

    Attributes:
      label: words for the page.
      set: what all of them change in the env's config.
      over: the key in which they differ; empty for a single arm.
      values: of that key, one for each arm.
      at: numbers at which a picture shows them, by default the values.
      choose: one of them is chosen on tuning seeds, for all envs together, and it alone is trained
        with fresh seeds. Otherwise all are.
    """

    label: str
    set: dict[str, Any] = Field(default_factory=dict)
    over: str = ""
    values: list[Any] = Field(default_factory=list)
    at: list[float] = Field(default_factory=list)
    choose: bool = False

    @model_validator(mode="after")
    def _check_values(self) -> Group:
        if bool(self.over) != bool(self.values):
            raise ValueError("over and values belong together")
        if self.choose and not self.over:
            raise ValueError("choose needs values to choose from")
        if self.at and len(self.at) != len(self.values):
            raise ValueError(f"at has {len(self.at)} numbers for {len(self.values)} values")
        return self


class Section(Settings):
    """A section of the page.

    Attributes:
      title, text: Markdown; the numbers follow it.
      curves: groups whose scores are drawn against their values, on each env.
      differences: groups that are compared with the baseline's best arm, on each env.
    """

    title: str
    text: str = ""
    curves: tuple[str, ...] = Field((), strict=False)
    differences: tuple[str, ...] = Field((), strict=False)


class Arm(NamedTuple):
    """One arm: its group's name, and the number of its value."""

    group: str
    number: int


class Plan(Settings):
    """A comparison.

    Attributes:
      title, text: Markdown at the head of the page.
      seeds, tuning: fresh seeds, and those by which arms are chosen.
      together: runs that one process trains as a population.
      baseline: the group whose best arm on an env, by tuning seeds, is what others are compared
        with there.
    """

    title: str
    text: str = ""
    seeds: Seeds
    tuning: Seeds
    together: int = Field(20, ge=1, le=1_000)
    baseline: str
    envs: dict[str, EnvPart]
    groups: dict[str, Group]
    sections: list[Section]

    @model_validator(mode="after")
    def _check_seeds(self) -> Plan:
        for seeds in (self.tuning, *(env.tuning for env in self.envs.values() if env.tuning)):
            if seeds.numbers.stop > FIRST_FRESH_SEED:
                raise ValueError(f"tuning seeds are below {FIRST_FRESH_SEED:,}")
        for seeds in (self.seeds, *(env.seeds for env in self.envs.values() if env.seeds)):
            if seeds.first < FIRST_FRESH_SEED:
                raise ValueError(
                    f"fresh seeds are {FIRST_FRESH_SEED:,} or more, got {seeds.first:,}"
                )
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Plan:
        named = [self.baseline]
        named += [name for env in self.envs.values() for name in env.without]
        named += [name for of in self.sections for name in (*of.curves, *of.differences)]
        for name in named:
            if name not in self.groups:
                raise ValueError(
                    f"there is no group {shown(name)}{did_you_mean(name, self.groups)}"
                )
        for name in (*self.envs, *self.groups):
            if not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"{shown(name)} names files: letters, digits, - and _ only")
        if not self.choosing:
            raise ValueError("every env is held out: there is none to choose on")
        if not self.groups[self.baseline].over or self.groups[self.baseline].choose:
            raise ValueError("the baseline's best arm differs from env to env: it has values")
        return self

    @property
    def choosing(self) -> list[str]:
        """Names of the envs on which arms are chosen for all."""
        return [name for name, env in self.envs.items() if not env.held_out]

    def arms(self, group: str) -> list[Arm]:
        """Returns the arms of a group."""
        return [Arm(group, i) for i in range(len(self.groups[group].values) or 1)]

    def groups_on(self, env: str) -> list[str]:
        """Returns the names of the groups that are trained on an env."""
        return [name for name in self.groups if name not in self.envs[env].without]

    def fresh(self, env: str) -> range:
        """Returns the fresh seeds of an env."""
        return (self.envs[env].seeds or self.seeds).numbers

    def tuned(self, env: str) -> range:
        """Returns the tuning seeds of an env."""
        return (self.envs[env].tuning or self.tuning).numbers

    def value(self, arm: Arm) -> Any:
        """Returns the value in which an arm differs from its group; None if it is alone."""
        values = self.groups[arm.group].values
        return values[arm.number] if values else None

    def name(self, arm: Arm) -> str:
        """Returns words for the page, which are also those of its file: hard-100."""
        value = self.value(arm)
        if value is None:
            return arm.group
        return f"{arm.group}-{value if isinstance(value, int | float | str) else arm.number + 1}"


class Loaded(NamedTuple):
    """A comparison, and where its file is."""

    plan: Plan
    path: Path

    def config(self, env: str, arm: Arm, seed: int) -> DqnConfig:
        """Returns the config of one run.

        Raises:
          ConfigError: the env's config, or a change of the arm, cannot be used.
        """
        group, source = self.plan.groups[arm.group], self.plan.envs[env].config
        changes = dict(group.set)
        if group.over:
            changes[group.over] = self.plan.value(arm)
        beside = self.path.parent / source
        try:
            return load_config(str(beside) if beside.exists() else source, changes | {"seed": seed})
        except ConfigError as error:
            raise ConfigError(f"{self.plan.name(arm)} on {env}: {error}") from None


def load_plan(path: Path) -> Loaded:
    """Loads a comparison, and checks the config of every arm.

    Raises:
      ConfigError: the file cannot be read or used.
    """
    plan: Plan = parse(Plan, read_toml(path), str(path))
    loaded = Loaded(plan, path)
    for env in plan.envs:
        for group in plan.groups_on(env):
            for arm in plan.arms(group):
                loaded.config(env, arm, 0)
    return loaded
