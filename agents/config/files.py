"""Configs in TOML: shipped ones by name, any by path, with `name=value` changes on top."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tomli_w

from agents.config.model import DqnConfig
from agents.config.settings import parse
from rl_core.errors import ConfigError, did_you_mean, in_one_line, shown
from rl_core.regular_file import read_regular
from rl_core.seal import is_sealed_text

# What a run may have otherwise when it goes on: nothing that its past depends on.
_MAY_CHANGE = (
    "env_steps",
    "eval_period",
    "eval_episodes",
    "eval_max_steps",
    "final_eval_episodes",
    "checkpoint_seconds",
    "checkpoint_steps",
    "checkpoint_keep",
)
_MOST_BYTES = 1 << 20  # of a config; a real one has a few thousand
_MOST_DOTS = 5_000  # tomllib takes a time that goes with the square of a dotted name's length
_DEEPEST = 20  # tables and lists in each other: what reads a config next goes by recursion
_TOO_DEEP = f"is nested more than {_DEEPEST} deep"
_MOST_BASES = 20  # one on top of the other


def shipped_configs() -> dict[str, str]:
    """Name -> TOML text of every config that comes with the package."""
    found = [f for f in resources.files("configs").iterdir() if f.name.endswith(".toml")]
    return {f.name.removesuffix(".toml"): f.read_text() for f in sorted(found, key=_name)}


def load_config(source: str, changes: Iterable[str] = ()) -> DqnConfig:
    """The config of a shipped name or a TOML path, with `name=value` changes.

    A file may begin with another one, `base = "cartpole"` (a shipped name, or a path relative to
    the file), and say only what is different.

    Raises:
      ConfigError: no such config, malformed TOML, or a value that cannot be used.
    """
    values, where = _read(source)
    values = _with_base(values, where)
    for change in changes:
        name, value = _parse_change(change)
        values[name] = value
        where = source if name not in DqnConfig.model_fields else where
    return parse(DqnConfig, values, where)


def read_config(path: Path, absent: Mapping[str, Any] = MappingProxyType({})) -> DqnConfig:
    """The config in a TOML file, which is no link.

    Args:
      absent: values of keys that it may lack.

    Raises:
      ConfigError: it cannot be read or used, or has a seal (rl_core/seal.py) of another text.
    """
    text = _text_of(path, follow=False)
    try:
        is_sealed_text(text)
    except ValueError as error:
        raise ConfigError(f"cannot use {path}: {error}") from None
    values = _parse_toml(text, str(path))
    return parse(DqnConfig, {**absent, **_with_base(values, str(path))}, str(path))


def changed_config(config: DqnConfig, changes: Iterable[str]) -> DqnConfig:
    """The config with some "name=value" in it.

    Raises:
      ConfigError: a change is none, or does not fit.
    """
    values = config.model_dump() | dict(_parse_change(change) for change in changes)
    return parse(DqnConfig, values, "--set")


def require_can_go_on(before: DqnConfig, after: DqnConfig) -> None:
    """That a run begun with one config may go on with the other.

    Raises:
      ConfigError: something differs that the run's past depends on.
    """
    for name in DqnConfig.model_fields:
        was, is_ = getattr(before, name), getattr(after, name)
        # A run of version 0.1 goes on as it was begun, whatever later configs say.
        as_begun = name == "byte_scale" and was == "255"
        if name not in _MAY_CHANGE and was != is_ and not as_begun:
            raise ConfigError(
                f"{name} is {shown(was)} in this run and cannot become {shown(is_)} when it goes "
                f"on (only {', '.join(_MAY_CHANGE)} can; live values: targetnet set)"
            )


def dump_config(config: DqnConfig) -> str:
    """TOML that `read_config` reads back to an equal config."""
    return tomli_w.dumps(config.model_dump())


def config_name(source: str) -> str:
    """What runs of this config are called."""
    return Path(source).stem if _is_path(source) else source


def _read(source: str) -> tuple[dict[str, Any], str]:
    if _is_path(source):
        return _parse_toml(_text_of(Path(source), follow=True), source), source
    shipped = shipped_configs()
    if source not in shipped:
        raise ConfigError(
            f"no shipped config {shown(source)} (there are {', '.join(shipped)}) and no .toml path"
            + did_you_mean(source, shipped)
        )
    return _parse_toml(shipped[source], source), source


def _with_base(values: dict[str, Any], where: str) -> dict[str, Any]:
    """The values on top of those of their `base`, which may have one as well."""
    layers, places = [values], [where]
    while "base" in layers[-1]:
        below, place = _read(_base_of(layers[-1], places))
        layers.append(below)
        places.append(place)
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        merged |= {name: value for name, value in layer.items() if name != "base"}
    return merged


def _base_of(values: dict[str, Any], places: list[str]) -> str:
    """The name or path of what the config in the last of `places` begins with."""
    base, where = values["base"], in_one_line(places[-1], 200)
    if not isinstance(base, str):
        raise ConfigError(f"{where}: base must be a config's name or path, got {shown(base)}")
    source = str(Path(places[-1]).parent / base) if _is_path(base) else base
    if source in places:
        raise ConfigError(f"{where}: base = {shown(base)} leads back to where it began")
    # One that leads back by a longer way each time has a new path each time.
    if len(places) > _MOST_BASES:
        raise ConfigError(f"{where}: base leads through more than {_MOST_BASES} configs")
    return source


def _is_path(source: str) -> bool:
    return source.endswith(".toml") or "/" in source


def _text_of(path: Path, *, follow: bool) -> str:
    try:
        return read_regular(path, most=_MOST_BYTES, follow=follow).decode()
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except OSError as error:
        reason = str(error.strerror)
    except ValueError as error:  # a pipe, a device, too large; no path at all
        reason = in_one_line(error)
    raise ConfigError(f"cannot read config {shown(str(path))}: {reason}")


def _parse_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return _loaded(text, where)
    except tomllib.TOMLDecodeError as error:
        name = in_one_line(where, 200)
        raise ConfigError(f"{name} is not valid TOML: {in_one_line(error)}") from None


def _parse_change(change: str) -> tuple[str, Any]:
    name, equals, text = change.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set wants name=value, got {shown(change)}")
    try:
        values = _loaded(f"value = {text}", f"--set {name}")
    except tomllib.TOMLDecodeError:
        return name.strip(), text.strip()  # a bare word is a string, as in --set loss=squared
    if values.keys() != {"value"}:
        raise ConfigError(f"--set wants one name=value, got several lines: {shown(change)}")
    return name.strip(), values["value"]


def _loaded(text: str, where: str) -> dict[str, Any]:
    """TOML from outside.

    Raises:
      TOMLDecodeError: it is none.
      ConfigError: it is, but no config looks like that.
    """
    problem = ""
    if text.count(".") > _MOST_DOTS:
        problem = f"has more than {_MOST_DOTS:,} dots, which no config needs"
    else:
        try:
            values = tomllib.loads(text)
            problem = "" if _is_shallow(values) else _TOO_DEEP
        except tomllib.TOMLDecodeError:
            raise
        except RecursionError:
            problem = _TOO_DEEP
        except ValueError as error:
            # Python goes on with how to raise the limit of an integer's digits.
            problem = f"has a number that cannot be read: {in_one_line(str(error).split(';')[0])}"
    if problem:
        raise ConfigError(f"{in_one_line(where, 200)} {problem}")
    return values


def _is_shallow(values: Any) -> bool:
    level = [values]
    for _ in range(_DEEPEST):
        tables = [value for value in level if isinstance(value, dict)]
        level = [inner for value in level if isinstance(value, list) for inner in value]
        level += [inner for table in tables for inner in table.values()]
    return not any(isinstance(value, dict | list) for value in level)


def _name(file: Any) -> str:
    return file.name.removesuffix(".toml")
