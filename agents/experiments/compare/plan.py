"""The file of a comparison: envs, and arms that differ in some keys of their configs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from targetnet.agents.config.files import config_of, read_toml, read_values
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.settings import Settings, parse
from targetnet.agents.experiments.training_job import FIRST_FRESH_SEED
from targetnet.rl_core.errors import ConfigError, RlCoreError, did_you_mean, quoted

_LONGEST = 80  # bytes of a name
_DIGITS = 18  # of a seed


class SeedRange(Settings):
    """Seeds that follow one another."""

    first: int = Field(ge=0)
    count: int = Field(ge=1, le=1_000)

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


class EnvPart(Settings):
    """One env of a comparison.

    Attributes:
      config: of all arms, but for what they change: a path from this file on, ending in .toml, or a
        shipped name.
      seeds, tuning: fresh and tuning seeds, if not those of the comparison.
      held_out: its tuning seeds choose the baseline's arm alone; what is chosen for all envs is
        chosen without it.
      without: groups that are not trained here.
    """

    config: str
    seeds: SeedRange | None = None
    tuning: SeedRange | None = None
    held_out: bool = False
    without: tuple[str, ...] = Field((), strict=False)


class ArmGroup(Settings):
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
    def _check_values(self) -> ArmGroup:
        if bool(self.over) != bool(self.values):
            raise ValueError("over and values belong together")
        if self.choose and not self.over:
            raise ValueError("choose needs values to choose from")
        if self.at and len(self.at) != len(self.values):
            raise ValueError(f"at has {len(self.at)} numbers for {len(self.values)} values")
        return self

    @property
    def can_be_drawn(self) -> bool:
        """Says whether a picture can show all arms against a logarithmic axis."""
        at = self.at or self.values
        numbers = all(isinstance(x, int | float) and x > 0 for x in at)
        return bool(at) and numbers and not self.choose


class Section(Settings):
    """A section of the page.

    Attributes:
      title, text: Markdown; the numbers follow it.
      curves: groups whose scores are drawn against their values, on each env.
      axis: words of the pictures' horizontal axis; by default the key in which arms differ.
      quarters: groups for whose arms a table says what score each quarter of the run had.
      signs: groups for whose arms a table says what TensorBoard's curves showed while they ran.
      differences: groups that are compared with the baseline's best arm, on each env.
      against: a group with which they are compared besides, such as one that had as much tuning.
    """

    title: str
    text: str = ""
    curves: tuple[str, ...] = Field((), strict=False)
    axis: str = ""
    quarters: tuple[str, ...] = Field((), strict=False)
    signs: tuple[str, ...] = Field((), strict=False)
    differences: tuple[str, ...] = Field((), strict=False)
    against: str = ""


class ComparedArm(NamedTuple):
    """One arm: its group's name, and the number of its value."""

    group: str
    number: int


class RequestedRun(NamedTuple):
    """One run."""

    env: str
    arm: ComparedArm
    seed: int


class ComparisonPlan(Settings):
    """A comparison.

    Attributes:
      title, text: Markdown at the head of the page.
      seeds, tuning: fresh seeds, and those by which arms are chosen.
      together: runs that one process trains as a population.
      baseline: the group whose best arm on an env, by tuning seeds, is what others are compared
        with there.
      constants: further groups that change nothing while they run. Of the baseline's arms and
        theirs the best one on an env, by tuning seeds, is what others are compared with besides.
    """

    title: str
    text: str = ""
    seeds: SeedRange
    tuning: SeedRange
    together: int = Field(20, ge=1, le=1_000)
    baseline: str
    constants: tuple[str, ...] = Field((), strict=False)
    envs: dict[str, EnvPart]
    groups: dict[str, ArmGroup]
    sections: list[Section]

    @model_validator(mode="after")
    def _check_seeds(self) -> ComparisonPlan:
        for seeds in (self.tuning, *(env.tuning for env in self.envs.values() if env.tuning)):
            if seeds.numbers.stop > FIRST_FRESH_SEED:
                raise ValueError(
                    f"tuning seeds must be below {FIRST_FRESH_SEED:,}, got "
                    f"{seeds.numbers.stop - 1:,}"
                )
        for seeds in (self.seeds, *(env.seeds for env in self.envs.values() if env.seeds)):
            if seeds.first < FIRST_FRESH_SEED:
                raise ValueError(
                    f"fresh seeds are {FIRST_FRESH_SEED:,} or more, got {seeds.first:,}"
                )
        return self

    @model_validator(mode="after")
    def _check_names(self) -> ComparisonPlan:
        named = [self.baseline, *self.constants]
        named += [name for env in self.envs.values() for name in env.without]
        for of in self.sections:
            named += [*of.curves, *of.quarters, *of.signs, *of.differences]
            named += [of.against] if of.against else []
        for name in named:
            if name not in self.groups:
                raise ValueError(
                    f"there is no group {quoted(name)}{did_you_mean(name, self.groups)}"
                )
        for name in (*self.envs, *self.groups):
            if not _names_a_file(name):
                raise ValueError(
                    f"{quoted(name)} names files: at most {_LONGEST} letters, digits, - and _"
                )
        arms = [self.name(arm) for group in self.groups for arm in self.arms(group)]
        twice = [name for name in arms if arms.count(name) > 1]
        if twice:
            raise ValueError(f"two arms are called {quoted(twice[0])}: their files would be one")
        return self

    @model_validator(mode="after")
    def _check_uses(self) -> ComparisonPlan:
        if not self.choosing:
            raise ValueError("every env is held out: there is none to choose on")
        baseline = self.groups[self.baseline]
        if not baseline.over or baseline.choose:
            raise ValueError("baseline must name a group with values, and without choose = true")
        for name, env in self.envs.items():
            if self.baseline in env.without:
                raise ValueError(f"{name} is without the baseline, with which all is compared")
        for name in self.constants:
            if name not in self.tuned_groups:
                raise ValueError(
                    f"constants: {name} has no tuning seeds; set choose = true in [groups.{name}]"
                )
        for name, group in self.groups.items():
            if "seed" in (group.over, *group.set):
                raise ValueError(f"{name} sets the seed: seeds are those of the comparison")
            if group.choose and not any(name in self.groups_on(env) for env in self.choosing):
                raise ValueError(f"no env that is not held out has {name}: it cannot be chosen")
        for section in self.sections:
            for name in section.curves:
                if not self.groups[name].can_be_drawn:
                    raise ValueError(
                        f"{name} cannot be drawn: a curve's arms stand at numbers above 0 (values, "
                        "or at), and none of them is chosen"
                    )
            keys = {self.groups[name].over for name in section.curves}
            if len(keys) > 1 and not section.axis:
                raise ValueError(
                    f"the curves of {quoted(section.title)} are over {' and '.join(sorted(keys))}: "
                    "axis must say what they are drawn against"
                )
            for name in (*section.differences, *([section.against] if section.against else ())):
                if not self.groups[name].choose and len(self.arms(name)) > 1:
                    raise ValueError(f"{name} has several arms: choose = true compares one of them")
        return self

    @property
    def choosing(self) -> list[str]:
        """Names of the envs on which arms are chosen for all."""
        return [name for name, env in self.envs.items() if not env.held_out]

    @property
    def tuned_groups(self) -> list[str]:
        """Names of the groups whose arms are all trained with tuning seeds."""
        return [name for name, of in self.groups.items() if of.choose or name == self.baseline]

    def arms(self, group: str) -> list[ComparedArm]:
        """Returns the arms of a group."""
        return [ComparedArm(group, i) for i in range(len(self.groups[group].values) or 1)]

    def groups_on(self, env: str) -> list[str]:
        """Returns the names of the groups that are trained on an env."""
        return [name for name in self.groups if name not in self.envs[env].without]

    def fresh(self, env: str) -> range:
        """Returns the fresh seeds of an env."""
        return (self.envs[env].seeds or self.seeds).numbers

    def tuned(self, env: str) -> range:
        """Returns the tuning seeds of an env."""
        return (self.envs[env].tuning or self.tuning).numbers

    def value(self, arm: ComparedArm) -> Any:
        """Returns the value in which an arm differs from its group; None if it is alone."""
        values = self.groups[arm.group].values
        return values[arm.number] if values else None

    def changes(self, arm: ComparedArm) -> dict[str, Any]:
        """Returns what an arm changes in an env's config."""
        group = self.groups[arm.group]
        return group.set | ({group.over: self.value(arm)} if group.over else {})

    def name(self, arm: ComparedArm) -> str:
        """Returns words for the page and the file of rows: hard-100."""
        value = self.value(arm)
        if value is None:
            return arm.group
        word = str(value).replace(".", "")
        return f"{arm.group}-{value if _names_a_file(word) else arm.number + 1}"


def _names_a_file(text: str) -> bool:
    letters = text.replace("-", "").replace("_", "")
    return len(text.encode()) <= _LONGEST and letters.isalnum()


class LoadedPlan(NamedTuple):
    """A comparison, with the config of every arm on every env, each file read once."""

    plan: ComparisonPlan
    configs: Mapping[tuple[str, ComparedArm], DqnConfig]

    def config(self, env: str, arm: ComparedArm, seed: int) -> DqnConfig:
        """Returns the config of one run."""
        return self.configs[env, arm].model_copy(update={"seed": seed})

    def name(self, run: RequestedRun) -> str:
        """Returns the name of a run, such as CartPole/hard-100/5003."""
        return f"{run.env}/{self.plan.name(run.arm)}/{run.seed}"

    def run_named(self, text: str) -> RequestedRun:
        """Returns the run that has a name.

        Raises:
          RlCoreError: there is none.
        """
        plan, parts = self.plan, text.split("/")
        if len(parts) != 3 or not parts[2].isdecimal() or len(parts[2]) > _DIGITS:
            raise RlCoreError(f"--verify wants ENV/ARM/SEED, got {quoted(text)}")
        env, name, seed = parts
        if env not in plan.envs:
            near = did_you_mean(env, plan.envs)
            raise RlCoreError(f"--verify: there is no env {quoted(env)}{near}")
        arms = {plan.name(arm): arm for group in plan.groups_on(env) for arm in plan.arms(group)}
        if name not in arms:
            near = did_you_mean(name, arms)
            raise RlCoreError(f"--verify: there is no arm {quoted(name)}{near}")
        return RequestedRun(env, arms[name], int(seed))


def load_plan(path: Path) -> LoadedPlan:
    """Loads a comparison, and the config of every arm.

    Raises:
      ConfigError: the file, or an env's config, cannot be read or used.
    """
    plan: ComparisonPlan = parse(ComparisonPlan, read_toml(path), str(path))
    configs = {}
    for env, part in plan.envs.items():
        source = path.parent / part.config if part.config.endswith(".toml") else part.config
        values, where = read_values(source)
        for arm in [arm for group in plan.groups_on(env) for arm in plan.arms(group)]:
            changes = plan.changes(arm) | {"seed": plan.fresh(env).stop - 1}
            try:
                config = config_of(values, changes, where)
            except ConfigError as error:
                raise ConfigError(f"{plan.name(arm)} on {env}: {error}") from None
            if config.loop == "remote":
                raise ConfigError(
                    f"{plan.name(arm)} on {env}: loop = 'remote' has actors of its own, and the "
                    "runs of a comparison are members of populations"
                )
            configs[env, arm] = config
    return LoadedPlan(plan, configs)
