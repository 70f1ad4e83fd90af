"""Configs in TOML: shipped ones by name, any by path, with `name=value` changes on top.

Imports: agents.config, agents.settings, rl_core.errors, rl_core.seal. Never tensorflow.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w

from agents.config import DqnConfig
from agents.settings import parse
from rl_core.errors import ConfigError, did_you_mean
from rl_core.seal import is_sealed_text

# What a run may have otherwise when it goes on: nothing that its past depends on.
_MAY_CHANGE = (
    "env_steps",
    "eval_period",
    "eval_episodes",
    "final_eval_episodes",
    "checkpoint_seconds",
    "checkpoint_steps",
    "checkpoint_keep",
)


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


def read_config(path: Path) -> DqnConfig:
    """The config in a TOML file.

    Raises:
      ConfigError: it cannot be read or used, or has a seal (rl_core/seal.py) of another text.
    """
    text = _text_of(path)
    try:
        is_sealed_text(text)
    except ValueError as error:
        raise ConfigError(f"cannot use {path}: {error}") from None
    values = _parse_toml(text, str(path))
    return parse(DqnConfig, _with_base(values, str(path)), str(path))


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
        if name not in _MAY_CHANGE and was != is_:
            raise ConfigError(
                f"{name} is {was!r} in this run and cannot become {is_!r} when it goes on (only "
                f"{', '.join(_MAY_CHANGE)} can; live values: targetnet set)"
            )


def dump_config(config: DqnConfig) -> str:
    """TOML that `read_config` reads back to an equal config."""
    return tomli_w.dumps(config.model_dump())


def config_name(source: str) -> str:
    """What runs of this config are called."""
    return Path(source).stem if _is_path(source) else source


def _read(source: str) -> tuple[dict[str, Any], str]:
    if _is_path(source):
        return _parse_toml(_text_of(Path(source)), source), source
    shipped = shipped_configs()
    if source not in shipped:
        raise ConfigError(
            f"no shipped config {source!r} (there are {', '.join(shipped)}) and no .toml path"
            + did_you_mean(source, shipped)
        )
    return _parse_toml(shipped[source], source), source


def _with_base(values: dict[str, Any], where: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values on top of those of their `base`, which may have one as well."""
    if "base" not in values:
        return values
    base = values["base"]
    if not isinstance(base, str):
        raise ConfigError(f"{where}: base must be a config's name or path, got {base!r}")
    if _is_path(base):
        base = str(Path(where).parent / base)
    if base in (*above, where):
        raise ConfigError(f"{where}: base = {values['base']!r} leads back to where it began")
    below, base_where = _read(base)
    rest = {name: value for name, value in values.items() if name != "base"}
    return _with_base(below, base_where, (*above, where)) | rest


def _is_path(source: str) -> bool:
    return source.endswith(".toml") or "/" in source


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read config {str(path)!r}: {reason}") from None


def _parse_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not valid TOML: {error}") from None


def _parse_change(change: str) -> tuple[str, Any]:
    name, equals, text = change.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set wants name=value, got {change!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string, as in --set loss=squared
    return name.strip(), value


def _name(file: Any) -> str:
    return file.name.removesuffix(".toml")
