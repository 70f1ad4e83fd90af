"""Population-based training: the table `[pbt]` of a config that lists members.

[pbt]
period = 5_000
perturb = ["learning_rate"]
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import FiniteFloat, field_validator

from targetnet.agents.config.files import PBT, load_toml, parsed_changes
from targetnet.agents.config.live_values import configured_values, number_knobs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.settings import Settings, key, parse
from targetnet.agents.config.synonyms import near_key
from targetnet.rl_core.errors import ConfigError, in_one_line, quoted
from targetnet.rl_core.hyperparameters import Knob
from targetnet.rl_core.schedules import SCHEDULES

_FLAG = "--pbt"
_LISTS = ("perturb", "factors")
_PAPER = ("Jaderberg et al. 2017",)


class PbtKeys(Settings):
    """The table `[pbt]` of a config with members.

    [Populations](../guides/populations.md#population-based-training) says how it works.
    """

    period: int = key(
        ...,
        "env steps from one exchange to the next; without a default",
        "env steps",
        ge=1,
        papers=_PAPER,
    )
    share: float = key(
        0.25,
        "share of the members that copies, and of those that are copied; at most 0.5",
        "1",
        papers=_PAPER,
        values="in (0, 0.5]",
    )
    perturb: tuple[str, ...] | None = key(
        None,
        "live values that a copying member takes over and changes; by default those in which the "
        "members differ",
        strict=False,
        values="list of texts",
    )
    factors: tuple[FiniteFloat, ...] = key(
        (0.8, 1.25), "one of them, drawn at random, multiplies each of these values", "1",
        strict=False, papers=_PAPER, values="list of numbers > 0",
    )  # fmt: skip
    score: Literal["evaluation", "training"] = key(
        "evaluation",
        "what members are compared by: the mean return of the latest greedy evaluation, or of the "
        "last training episodes",
    )

    @field_validator("share")
    @classmethod
    def _check_share(cls, share: float) -> float:
        if not 0 < share <= 0.5:
            raise ValueError(f"must be a number in (0, 0.5], got {quoted(share)}")
        return share

    @field_validator("perturb")
    @classmethod
    def _once_each(cls, perturb: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return perturb and tuple(dict.fromkeys(perturb))

    @field_validator("factors")
    @classmethod
    def _check_factors(cls, factors: tuple[float, ...]) -> tuple[float, ...]:
        if not factors or not all(factor > 0 for factor in factors):
            raise ValueError(f"must be numbers > 0, at least one, got {quoted(list(factors))}")
        return factors

    def copying(self, members: int) -> int:
        """Returns how many of so many members copy another one."""
        return math.floor(self.share * members + 1e-9)


def pbt_of(
    table: Any, given: Mapping[str, Any] | Iterable[str], where: str
) -> dict[str, Any] | None:
    """Returns what a config's table and the changes to it say; None if both say nothing.

    Args:
      table: of the config; None if it has none.
      given: names and values, or texts such as "period=5000" and "perturb=learning_rate,tau".
      where: what messages about the table begin with.

    Raises:
      ConfigError: either is malformed. The values are not checked.
    """
    if table is not None and not isinstance(table, Mapping):
        raise ConfigError(f"{where}: {PBT} must be a table, [{PBT}], got {quoted(table)}")
    if isinstance(given, Mapping):
        changes = dict(given)
    else:
        changes = {
            name: _listed(value) if name in _LISTS else value
            for name, value in parsed_changes(given, _FLAG).items()
        }
    if table is None and not changes:
        return None
    return {**(table or {}), **changes}


def checked_pbt(
    values: Mapping[str, Any],
    configs: Mapping[str, DqnConfig],
    differ: Sequence[str],
    where: str,
) -> PbtKeys:
    """Returns the settings, after a check that these members can be trained by them.

    Args:
      values: of the table.
      configs: the members', by name.
      differ: live values in which they differ; they are perturbed if the table names none.
      where: what messages begin with.

    Raises:
      ConfigError: a key is unknown or a value is wrong.
    """
    pbt: PbtKeys = parse(PbtKeys, dict(values), where)
    if named := [config.controller for config in configs.values() if config.controller]:
        raise ConfigError(
            f"{where}: members that copy one another cannot have a controller, got {named[0]!r}: "
            "both change live values; leave one of the two out"
        )
    if pbt.perturb is None:
        if not differ:
            raise ConfigError(
                f"{where}: perturb is missing: the members differ in no live value, so it must "
                "name those that are to be changed, such as perturb = ['learning_rate']"
            )
        pbt = pbt.model_copy(update={"perturb": tuple(differ)})
    for name in pbt.perturb or ():
        _require_perturbable(name, configs, f"{where}: perturb")
    if not pbt.copying(len(configs)):
        least = math.ceil(1 / pbt.share - 1e-9)
        raise ConfigError(
            f"{where}: share = {pbt.share:g} needs at least {least:,} members, got {len(configs):,}"
        )
    for name, config in configs.items():
        _require_times(pbt, config, f"{where}: {name}: period")
    return pbt


def knobs_of(config: DqnConfig, names: Iterable[str]) -> dict[str, Knob]:
    """Returns the live values with these names."""
    wanted = set(names)
    return {knob.name: knob for knob in number_knobs(config) if knob.name in wanted}


def _require_perturbable(name: str, configs: Mapping[str, DqnConfig], where: str) -> None:
    first = next(iter(configs.values()))
    known = [knob.name for knob in number_knobs(first)]
    if name == "exempt":
        raise ConfigError(f"{where}: exempt is a set of blocks, and no number")
    if name in first.without_effect():
        needs = first.without_effect()[name]
        raise ConfigError(f"{where}: {name} has no effect here: it needs {needs}")
    if name in DqnConfig.model_fields and name not in known:
        raise ConfigError(f"{where}: {name} is fixed when the graph is built, and no live value")
    if name not in known:
        raise ConfigError(
            f"{where}: there is no live value {in_one_line(name, 100)}{near_key(name, known)}"
        )
    for member, config in configs.items():
        if isinstance(configured_values(config).get(name), SCHEDULES):
            raise ConfigError(
                f"{where}: {member} has a schedule for {name}, and a change would end it; give it "
                "a number, or leave it out"
            )


def _require_times(pbt: PbtKeys, config: DqnConfig, where: str) -> None:
    if pbt.period >= config.env_steps:
        raise ConfigError(
            f"{where} must be less than env_steps = {config.env_steps:,}, or there is no exchange, "
            f"got {pbt.period:,}"
        )
    if pbt.score == "evaluation" and pbt.period < config.eval_period:
        raise ConfigError(
            f"{where} must be at least eval_period = {config.eval_period:,}, so that each exchange "
            f"has new evaluations, got {pbt.period:,}; or score = 'training'"
        )


def _listed(value: Any) -> Any:
    """Returns the values of a text such as learning_rate,tau or 0.8,1.2; other values as given."""
    if isinstance(value, list):
        return value
    if not isinstance(value, str):
        return [value]
    parts = [part.strip() for part in value.strip("[] ").split(",") if part.strip()]
    try:
        return list(load_toml(f"values = [{value.strip('[] ')}]", _FLAG)["values"])
    except (tomllib.TOMLDecodeError, KeyError):
        return parts  # bare words
