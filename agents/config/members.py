"""The members of a population: configs that differ in the seed and in live values alone.

A file lists them, each with what it has of its own:

    base = "cartpole"
    [[members]]
    sync_period = 25
    [[members]]
    sync_period = 50

A table [pbt] says how they copy one another (targetnet.agents.config.pbt).

Or they are given as texts, each with the values of one key: ["sync_period=25,50"].
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from targetnet.agents.config.files import (
    MAY_CHANGE,
    MEMBERS,
    PBT,
    PBT_ALONE,
    change_value,
    changed_config,
    config_of,
    load_config,
    load_toml,
    read_sealed,
    read_values,
    stored_text,
)
from targetnet.agents.config.live_values import live_knobs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.own_live import OwnLive
from targetnet.agents.config.pbt import PbtKeys, checked_pbt, pbt_of
from targetnet.agents.config.synonyms import near_key
from targetnet.rl_core.errors import ConfigError, in_one_line, quoted

_MOST = 1_000


class Members(NamedTuple):
    """A population's configs.

    Attributes:
      base: what all have in common; its seed is the first one.
      own: name of each member, such as m03 -> the keys that it has of its own.
      configs: name -> config.
      pbt: how they copy one another; None: not at all.
    """

    base: DqnConfig
    own: dict[str, dict[str, Any]]
    configs: dict[str, DqnConfig]
    pbt: PbtKeys | None = None

    def with_changes(self, changes: Mapping[str, Any] | Iterable[str]) -> Members:
        """Returns them with keys changed as `changed_config` does; live values stay."""
        configs = {n: changed_config(config, changes)[0] for n, config in self.configs.items()}
        changed = Members(changed_config(self.base, changes)[0], self.own, configs)
        return changed.with_pbt(self.pbt_values(), PBT)

    def pbt_values(self) -> dict[str, Any] | None:
        """Returns the table of population-based training; None without."""
        return None if self.pbt is None else self.pbt.model_dump()

    def with_pbt(self, values: Mapping[str, Any] | None, where: str) -> Members:
        """Returns them with these settings of population-based training; None: without.

        Raises:
          ConfigError: they cannot be used with these members.
        """
        if values is None:
            return self._replace(pbt=None)
        names = dict.fromkeys(name for own in self.own.values() for name in own if name != "seed")
        return self._replace(pbt=checked_pbt(values, self.configs, [*names], where))


def load_members(
    source: str | Path,
    changes: Mapping[str, Any] | Iterable[str] = (),
    given: Sequence[str] = (),
    seeds: int | None = None,
    pbt: Mapping[str, Any] | Iterable[str] = (),
) -> Members | None:
    """Loads a config and the members that it lists, or that are given.

    Args:
      source, changes: as for `load_config`; the changes hold for all members.
      given: texts such as "sync_period=25,50,100": one member for each value, or for each
        combination of the values of several texts, of which the last varies fastest.
      seeds: each of them this many times, with seeds from the config's on; None is once, with
        its own.
      pbt: settings of population-based training: names and values, or texts such as
        "period=5000". They change those of the config's table.

    Returns:
      The members; None if there are none, as in a config of one run.

    Raises:
      ConfigError: as for `load_config`; or a member has a key that is no live value, two are
        alike, or one needs another graph; or they cannot copy one another in this way.
    """
    values, where = read_values(source)
    tables, place = values.pop(MEMBERS, None), in_one_line(where, 200)
    with_pbt = pbt_of(values.pop(PBT, None), pbt, place)
    if given:
        tables, where_members = _product(given), "--members"
    else:
        where_members = f"{place}: members"
    if tables is None and seeds is None:
        if with_pbt is not None:
            raise ConfigError("--pbt needs --members or --seeds" if pbt else f"{place} {PBT_ALONE}")
        return None
    base = config_of(values, changes, where)
    members = _members(base, [{}] if tables is None else tables, where_members, seeds)
    return members.with_pbt(with_pbt, PBT)


def as_members(
    config: Members | DqnConfig | Path | str,
    given: Sequence[str] = (),
    seeds: int | None = None,
    pbt: Mapping[str, Any] | Iterable[str] = (),
) -> Members:
    """Returns members themselves, or makes them; of one run, if a config has none.

    Raises:
      ConfigError: as for `load_members`.
    """
    if isinstance(config, Members | DqnConfig):
        if isinstance(config, DqnConfig):
            tables = _product(given) if given else [{}]
            config = _members(config, tables, "--members", seeds)
        return config.with_pbt(pbt_of(config.pbt_values(), pbt, PBT), PBT)
    found = load_members(config, (), given, seeds, pbt)
    return found or as_members(load_config(config))


def with_seeds(config: DqnConfig, seeds: Sequence[int]) -> Members:
    """Returns members that differ in their seeds alone.

    Raises:
      ConfigError: as for `load_members`.
    """
    return _members(config, [{"seed": seed} for seed in seeds], "seeds", None)


def members_text(members: Members) -> str:
    """Returns the text of a file that `read_members` reads back."""
    values = members.base.model_dump(exclude_none=True)
    if members.pbt is not None:
        values[PBT] = members.pbt.model_dump()
    return stored_text(values | {MEMBERS: list(members.own.values())})


def population_text(configs: Sequence[DqnConfig]) -> str:
    """Returns the text of a file with these configs as members, for `load_members`.

    They are of one form: they differ in the seed and in live values.
    """
    dumped = [config.model_dump(exclude_none=True) for config in configs]
    return tomli_w.dumps(dumped[0] | {MEMBERS: [_unlike(dumped[0], of) for of in dumped]})


def _unlike(first: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Returns what a member has of its own beside the first one; its seed in any case."""
    own = {n: v for n, v in values.items() if n == "seed" or v != first.get(n)}
    live = own.pop("live", {})
    return own | {name: of["default"] for name, of in live.items() if of != first["live"][name]}


def read_members(path: Path) -> Members:
    """Reads a file with `members_text`; refuses a symbolic link.

    Raises:
      ConfigError: the file cannot be read or used, or is not what was written.
    """
    values = read_sealed(path)
    tables = values.pop(MEMBERS, [])
    pbt = pbt_of(values.pop(PBT, None), (), str(path))
    base = config_of(values, (), str(path))
    return _members(base, tables, f"{path}: members", None).with_pbt(pbt, f"{path}: {PBT}")


def require_one_form(configs: Mapping[str, DqnConfig]) -> None:
    """Checks that one graph serves all.

    Raises:
      ConfigError: there is no config, or two differ in what the graph is built from.
    """
    if not configs:
        raise ConfigError("a population needs at least one member")
    if any(config.loop == "remote" for config in configs.values()):
        raise ConfigError(
            "loop = 'remote' has actors of its own and cannot be a population's; train its members "
            "as runs of their own"
        )
    if any(config.offline for config in configs.values()):
        raise ConfigError(
            "offline learns from a dataset, and members of a population step envs; train such runs "
            "on their own"
        )
    if any(config.begin_with for config in configs.values()):
        raise ConfigError(
            "begin_with fills the replay of one run, and members of a population begin with none; "
            "train such runs on their own"
        )
    (first, of_first), *_ = configs.items()
    for name, config in configs.items():
        key = built_otherwise(of_first, config)
        if key == "n_step" and config.is_recurrent:
            raise ConfigError(
                "n_step sets how long the sequences of a recurrent layer are, so members must have "
                f"the same largest n_step: {first} and {name} have {of_first.longest_step} and "
                f"{config.longest_step}"
            )
        if key is not None:
            values = [getattr(of, key) for of in (of_first, config)]
            raise ConfigError(
                f"members may differ in the seed and in live values, not in {key}: {first} "
                f"and {name} have {values[0]!r} and {values[1]!r}"
            )


def built_otherwise(config: DqnConfig, other: DqnConfig) -> str | None:
    """Returns a key in which two configs differ and need two graphs; None: one serves both."""
    # A value such as 0 may switch off what others have in the graph, and is not live then.
    free = {"seed", *MAY_CHANGE, *(_live(config) & _live(other))}
    for key in [key for key in DqnConfig.model_fields if key not in free]:
        values = [getattr(of, key) for of in (config, other)]
        if values[0] != values[1] and not (key == "live" and _same_but_defaults(*values)):
            return key
    same_steps = config.longest_step == other.longest_step
    return "n_step" if config.is_recurrent and not same_steps else None


def names_for(count: int) -> list[str]:
    """Returns the names of so many members, such as m00, m01."""
    digits = max(2, len(str(count - 1)))
    return [f"m{number:0{digits}}" for number in range(count)]


def _product(given: Sequence[str]) -> list[dict[str, Any]]:
    axes: dict[str, list[Any]] = {}
    for text in given:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name or not values:
            raise ConfigError(f"--members wants NAME=VALUE,VALUE,..., got {quoted(text)}")
        if name in axes:
            raise ConfigError(f"--members has {quoted(name)} twice: name all its values at once")
        axes[name] = _list_of(values)
        _require_at_most(math.prod(map(len, axes.values())), "--members")
    return [dict(zip(axes, one, strict=True)) for one in itertools.product(*axes.values())]


def _list_of(text: str) -> list[Any]:
    try:
        values = load_toml(f"values = [{text}]", "--members")
    except tomllib.TOMLDecodeError:
        return [value.strip() for value in text.split(",")]  # bare words
    if values.keys() != {"values"}:
        raise ConfigError(
            f"--members wants the values of one key, got several lines: {quoted(text)}"
        )
    return list(values["values"])


def _members(base: DqnConfig, tables: Any, where: str, seeds: int | None) -> Members:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{where} must be tables, [[members]], got {quoted(tables)}")
    if not tables:
        raise ConfigError(f"{where}: a population needs at least one member")
    if seeds is not None and seeds < 1:
        raise ConfigError(f"--seeds must be a whole number >= 1, got {seeds}")
    _require_at_most(len(tables) * (seeds or 1), where)
    base = base.with_shared_defaults(itertools.chain.from_iterable(tables))
    own = [{**table, **seed} for table in tables for seed in _seeds(base, table, where, seeds)]
    named = dict(zip(names_for(len(own)), own, strict=True))
    configs = {name: _config(base, each, f"{where}: {name}") for name, each in named.items()}
    _require_all_different(configs, named, where)
    require_one_form(configs)
    return Members(base, named, configs)


def _require_at_most(count: int, where: str) -> None:
    """Checks the number of members, before anything is made for each of them."""
    if count > _MOST:
        raise ConfigError(f"{where}: a population has at most {_MOST:,} members, got {count:,}")


def _seeds(
    base: DqnConfig, table: Mapping[str, Any], where: str, seeds: int | None
) -> list[dict[str, int]]:
    if seeds is None:
        return [{}]
    if "seed" in table:
        raise ConfigError(f"{where}: either the members have a seed of their own, or --seeds")
    return [{"seed": base.seed + number} for number in range(seeds)]


def _config(base: DqnConfig, own: Mapping[str, Any], where: str) -> DqnConfig:
    names = {"seed", *_live(base)}
    for name in own:
        if name in base.without_effect():
            needs = base.without_effect()[name]
            raise ConfigError(f"{where}: {name} has no effect here: it needs {needs}")
        if name not in names:
            raise ConfigError(
                f"{where}: members may differ in the seed and in live values, and "
                f"{in_one_line(name, 100)} is neither{near_key(name, names)}"
            )
    values = base.model_dump(exclude_none=True)
    for name, value in own.items():
        change_value(values, name, value)
    return config_of(values, (), where)


def _require_all_different(
    configs: Mapping[str, DqnConfig], own: Mapping[str, Mapping[str, Any]], where: str
) -> None:
    seen: list[tuple[str, DqnConfig]] = []
    for name, config in configs.items():
        for other, before in seen:
            if config == before:
                what = ", ".join(f"{key}={value}" for key, value in own[name].items())
                raise ConfigError(
                    f"{where}: {other} and {name} are alike ({what or 'the config as it is'}): "
                    "give each its own values or seed, or --seeds"
                )
        seen.append((name, config))


def _live(config: DqnConfig) -> set[str]:
    return {knob.name for knob in live_knobs(config)}


def _same_but_defaults(first: Mapping[str, OwnLive], second: Mapping[str, OwnLive]) -> bool:
    """Says whether own live values differ in nothing but what they begin with."""
    forms = [
        {name: own.model_dump(exclude={"default"}) for name, own in of.items()}
        for of in (first, second)
    ]
    return forms[0] == forms[1]
