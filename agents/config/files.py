"""Configs in TOML: finds, reads, changes and writes them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel

from targetnet.agents.config.combinations import without_replay_keys
from targetnet.agents.config.live_values import live_names
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.settings import parse
from targetnet.envs.old_gym import old_atari
from targetnet.rl_core.arguments import require_a
from targetnet.rl_core.errors import ArgumentError, ConfigError, did_you_mean, in_one_line, quoted
from targetnet.rl_core.files import read_regular
from targetnet.rl_core.seal import (
    SEAL_LINE,
    WRITTEN_BY,
    is_sealed_text,
    sealed_text,
    this_version,
)
from targetnet.rl_core.validation import require_known

# Keys that may change when a run is resumed: nothing in its past depends on them.
MAY_CHANGE = (
    "env_steps",
    "eval_period",
    "eval_episodes",
    "eval_max_steps",
    "final_eval_episodes",
    "checkpoint_seconds",
    "checkpoint_steps",
    "checkpoint_keep",
    "log_to",
    "check_env",
    "offline",  # where the dataset is; it stays the same one
    "begin_with",  # likewise
)
MEMBERS = "members"  # lists those of a population, see targetnet.agents.config.members
# Until 0.2 our packages were at the top level, where no package of the user's could be.
_OUR_MODULE = re.compile(r"^(?:agents|envs|rl_core)(?=[.:])")
_NAMES_A_MODULE = ("env_id", "env_wrapper", "network", "controller")
# An argument of the wrapper "atari", and what True was until 0.2.
_LIFE_LOSS, _RESTART = "terminal_on_life_loss", "restart"
# Values of keys that the config of an older run does not have.
_OF_OLDER_RUNS = {"byte_scale": "255", "action_masks": "info", "check_env": False}
PBT = "pbt"  # the table of population-based training, see targetnet.agents.config.pbt
# The end of a message about such a table where one run is trained.
PBT_ALONE = f"has the table [{PBT}], which is for a population: list members, or give --members"
_MOST_BYTES = 1 << 20  # largest config file; a real one has a few thousand
_MOST_DOTS = 5_000  # tomllib's time grows with the square of the length of a dotted name
_DEEPEST = 20  # levels of nested tables and lists: later readers of a config recurse
_TOO_DEEP = f"is nested more than {_DEEPEST} deep"
_MOST_BASES = 20  # configs in a chain of `base`
# An id of Gymnasium, such as CartPole-v1 or ALE/Pong-v5; a config's name has no version.
_ENV_ID = re.compile(r"(?:\w[\w.-]{0,99}[:/]){0,3}\w[\w.-]{0,99}-v[0-9]{1,9}")


def shipped_configs() -> dict[str, str]:
    """Returns the TOML text of every config in the package, by name."""
    found = [f for f in resources.files("targetnet.configs").iterdir() if f.name.endswith(".toml")]
    return {f.name.removesuffix(".toml"): f.read_text() for f in sorted(found, key=_name)}


def is_env_id(source: str) -> bool:
    """Returns True if this is an env's id in the place of a config: its defaults are meant."""
    if not _ENV_ID.fullmatch(source):
        return False
    # os.path says no where Path raises an error: of a name that is too long.
    return "/" not in source or not os.path.isfile(source)  # noqa: PTH113


def shipped_for(env_id: str) -> list[str]:
    """Returns the names of the shipped configs of an env."""
    return [name for name in shipped_configs() if load_config(name).env_id == env_id]


def load_config(source: str | Path, changes: Mapping[str, Any] | Iterable[str] = ()) -> DqnConfig:
    """Loads a config by shipped name, TOML path or env id, and applies changes.

    An env's id, such as `CartPole-v1` or `module:MyEnv-v0`, is a config with the defaults.

    Changes are name -> value, as in `{"seed": 3}`, or texts in TOML's notation: `["seed=3"]`.

    With `base = "cartpole"` (a shipped name, or a path relative to the file) a file takes all
    values from another config and lists only its differences. Schedules in shares of the run get
    the env steps of this run, also where the file is the config of another run, which has both.

    Raises:
      ConfigError: there is no such config, the TOML is malformed, or a value cannot be used.
    """
    values, where = read_values(source)
    if MEMBERS in values:
        raise ConfigError(
            f"{in_one_line(where, 200)} lists the members of a population, which targetnet train "
            "takes; here the config of one run is wanted"
        )
    if PBT in values:
        raise ConfigError(f"{in_one_line(where, 200)} {PBT_ALONE}")
    return config_of(values, changes, where)


def read_values(source: str | Path) -> tuple[dict[str, Any], str]:
    """Returns all that a config says, with what it takes from its `base`, and where it says so.

    Raises:
      ConfigError: as for `load_config`; values are not checked.
    """
    values, where = _read(_as_source(source))
    return _with_base(values, where), where


def config_of(
    values: Mapping[str, Any], changes: Mapping[str, Any] | Iterable[str], where: str
) -> DqnConfig:
    """Returns the config of a run that begins with these values.

    Args:
      values: of a file; changes: as for `load_config`.
      where: what messages begin with.

    Raises:
      ConfigError: as for `load_config`.
    """
    values = dict(values)
    for name, value in parsed_changes(changes).items():
        change_value(values, name, value)
    config: DqnConfig = parse(DqnConfig, DqnConfig.in_shares(values), where)
    return config


def read_toml(path: str | Path) -> dict[str, Any]:
    """Returns what a TOML file of a user's says.

    Raises:
      ConfigError: it cannot be read, or is no TOML.
    """
    return _parse_toml(_text_of(Path(path), follow=True), str(path))


def read_sealed(path: Path) -> dict[str, Any]:
    """Returns what a config's file that has a seal says; refuses a symbolic link.

    Raises:
      ConfigError: the file cannot be read, or its seal (rl_core/seal.py) does not match its text.
    """
    text = _text_of(path, follow=False)
    try:
        is_sealed = is_sealed_text(text)
    except ValueError as error:
        raise ConfigError(f"cannot use {path}: {error}") from None
    values = _parse_toml(text, str(path))
    if not is_sealed and WRITTEN_BY in values:
        raise ConfigError(
            f"cannot use {path}: its first line, which shows whether the rest was changed, is "
            "missing; to train a changed config, copy it out of the run's directory"
        )
    return _with_base(_as_of_now(values), str(path))


def names_version(path: Path) -> bool:
    """Says whether a stored config names the version that wrote it: from 1.0 on.

    Raises:
      ConfigError: it cannot be read, or is no TOML.
    """
    return WRITTEN_BY in _parse_toml(_text_of(path, follow=False), str(path))


def stored_text(values: Mapping[str, Any]) -> str:
    """Returns a sealed TOML text that `read_sealed` reads back, with the version that wrote it."""
    return sealed_text(tomli_w.dumps({WRITTEN_BY: this_version(), **values}))


def _as_of_now(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of a stored file as this version writes them."""
    is_older = WRITTEN_BY not in values
    now = {name: value for name, value in values.items() if name != WRITTEN_BY}
    if "env_id" in now:  # a run's or a population's
        now = _OF_OLDER_RUNS | now
    now = without_replay_keys(now)
    if not is_older:
        return now
    now = _with_short_chunks(_renamed(now))
    kwargs = now.get("env_wrapper_kwargs")
    if now.get("env_wrapper") == "atari" and isinstance(kwargs, dict):
        now["env_wrapper_kwargs"] = _restarting(kwargs)
    return now


def _with_short_chunks(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values with the chunk of 0.2, which ended before the ring was overwritten."""
    names = ("chunk", "replay_capacity", "num_envs")
    numbers = [values.get(name, DqnConfig.model_fields[name].default) for name in names]
    is_compiled = values.get("loop") == "compiled" and not values.get("rollout")
    if not is_compiled or not all(type(number) is int for number in numbers):
        return values
    chunk, capacity, num_envs = numbers
    return values | {"chunk": max(1, min(chunk, capacity // max(1, num_envs) * 3 // 4))}


def _restarting(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns arguments of the wrapper "atari" with what True meant until 0.2 in its place."""
    return kwargs | {_LIFE_LOSS: _RESTART} if kwargs.get(_LIFE_LOSS) is True else kwargs


def _renamed(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _renamed(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, name) for inner in value]
    names_a_module = name in _NAMES_A_MODULE and isinstance(value, str)
    return _OUR_MODULE.sub(r"targetnet.\g<0>", value) if names_a_module else value


def read_config(path: Path) -> DqnConfig:
    """Reads the config of a run; refuses a symbolic link.

    Raises:
      ConfigError: the file cannot be read or used, or its seal (rl_core/seal.py) does not match
        its text.
    """
    return parse(DqnConfig, read_sealed(path), str(path))


def parsed_changes(
    changes: Mapping[str, Any] | Iterable[str], flag: str = "--set"
) -> dict[str, Any]:
    """Returns the names and values of changes, given as such or as texts `name=value`.

    Args:
      flag: by which texts are given, for messages.

    Raises:
      ArgumentError: the changes are neither.
      ConfigError: a text is not of the form `name=value`.
    """
    if isinstance(changes, Mapping):
        return dict(changes)
    if isinstance(changes, str) or not isinstance(changes, Iterable):
        raise ArgumentError(
            "changes must be names with values, as in {'seed': 3}, or a list of texts, as in "
            f"['seed=3'], got {quoted(changes)}"
        )
    return dict(_parse_change(change, flag) for change in changes)


def changed_config(
    config: DqnConfig, changes: Mapping[str, Any] | Iterable[str]
) -> tuple[DqnConfig, dict[str, Any]]:
    """Applies changes to the config of a run that goes on.

    Returns:
      The config with its keys changed, and the changes of live values. Those are made in the run:
      the config stays as the run's past was made with it.

    Raises:
      ConfigError: there is no such key or live value, or a key's value cannot be used.
    """
    live, changes = live_names(config), parsed_changes(changes)
    keys = {name: value for name, value in changes.items() if name not in live}
    require_known(DqnConfig, keys, "--set", also=live)
    changed: DqnConfig = parse(DqnConfig, dict(config) | keys, "--set")
    values = {name: value for name, value in changes.items() if name in live}
    for name, value in values.items():
        if isinstance(value, Mapping | BaseModel):
            raise ConfigError(
                f"--set: a run that goes on keeps its schedules; {name} can be set to a value, or "
                f"to 'auto', got {quoted(value)}"
            )
    return changed, values


def require_can_go_on(before: DqnConfig, after: DqnConfig) -> DqnConfig:
    """Returns the config of a run that began with `before` and goes on with `after`.

    Schedules in shares of the run keep the env steps that they had, so that the run's past can be
    repeated.

    Raises:
      ConfigError: the configs differ in a key that the run's past depends on.
    """
    if after.offline and not before.offline:
        raise ConfigError("offline cannot be set on resume: this run began without offline")
    if after.begin_with and not before.begin_with:
        raise ConfigError("begin_with cannot be set on resume: this run began without begin_with")
    if before.begin_with and not after.begin_with:
        raise ConfigError(
            "this run began with demonstrations (begin_with), and goes on with the same ones: name "
            f"{quoted(before.begin_with)} again"
        )
    for name in DqnConfig.model_fields:
        was, is_ = getattr(before, name), getattr(after, name)
        if name not in MAY_CHANGE and not _is_as_begun(name, was, is_):
            raise ConfigError(
                f"{name} is {quoted(was)} in this run and cannot become {quoted(is_)} on resume"
                + _what_can_change(name)
            )
    changes = {name: getattr(after, name) for name in MAY_CHANGE}
    config: DqnConfig = parse(DqnConfig, dict(before) | changes, "resume")
    return config


def _what_can_change(name: str) -> str:
    if any(name == knob.name for knob in DqnConfig.knobs()):
        return f"; to change it from here on: targetnet resume RUN --set {name}=..."
    return f" (only {', '.join(MAY_CHANGE)} and live values can)"


def _is_as_begun(name: str, was: Any, is_: Any) -> bool:
    # An older run keeps what it did, whatever later configs say.
    if name in _OF_OLDER_RUNS and was == _OF_OLDER_RUNS[name]:
        return True
    if name == "env_wrapper_kwargs" and isinstance(was, dict) and isinstance(is_, dict):
        is_ = _restarting(is_) if was.get(_LIFE_LOSS) == _RESTART else is_
    return DqnConfig.in_shares({name: was}) == DqnConfig.in_shares({name: is_})


def dump_config(config: DqnConfig) -> str:
    """Returns TOML text that `read_config` reads back as an equal config."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def config_name(source: str | Path) -> str:
    """Returns the name that runs of this config get."""
    source = str(source)
    if is_env_id(source):
        return re.split("[:/]", source)[-1]
    return Path(source).stem if _is_path(source) else source


def as_config(config: DqnConfig | Path | str) -> DqnConfig:
    """Returns the config itself, or loads it by shipped name or TOML path.

    Raises:
      ArgumentError: it is none of these.
      ConfigError: as for `load_config`.
    """
    return config if isinstance(config, DqnConfig) else load_config(config)


def _as_source(source: object) -> str:
    if isinstance(source, DqnConfig):
        raise ArgumentError("a config's name or path is wanted, got a DqnConfig: it is loaded")
    if not isinstance(source, str | Path):
        raise ArgumentError(
            "a config must be a DqnConfig, a shipped config's name or the path of a TOML file, "
            f"got {quoted(source)}"
        )
    return str(source)


def _read(source: str) -> tuple[dict[str, Any], str]:
    if is_env_id(source):
        if now := old_atari(source):
            raise ConfigError(f"{source} is an env; {now}; for example: targetnet train atari-dqn")
        return {"env_id": source}, source
    if _is_path(source):
        text = _text_of(Path(source), follow=True)
        values = _parse_toml(text, source)
        is_stored = WRITTEN_BY in values or text.startswith(SEAL_LINE)
        return _as_of_now(values) if is_stored else values, source
    shipped = shipped_configs()
    if source not in shipped:
        raise ConfigError(
            f"no shipped config {quoted(source)} and no path of a .toml file "
            f"(shipped: {', '.join(shipped)}){did_you_mean(source, shipped)}"
        )
    return _parse_toml(shipped[source], source), source


def _with_base(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Returns the values merged over the values of their `base`, which may have a base too."""
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
    """Returns the name or path of the config that `values` name as their base.

    `places` is the chain of configs so far; `values` come from the last one.
    """
    base, where = values["base"], in_one_line(places[-1], 200)
    if not isinstance(base, str):
        raise ConfigError(f"{where}: base must be a config's name or path, got {quoted(base)}")
    source = str(Path(places[-1]).parent / base) if _is_path(base) else base
    if is_env_id(base) and not os.path.isfile(source):  # noqa: PTH113
        source = base
    if source in places:
        raise ConfigError(
            f"{where}: base = {quoted(base)} leads back to a config of the same chain"
        )
    # A loop whose path grows each time (a/../a/../...) has a new path each time.
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
    except ValueError as error:  # a pipe, a device, a file that is too large, or not a valid path
        reason = in_one_line(error)
    raise ConfigError(f"cannot read config {quoted(str(path))}: {reason}")


def _parse_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return load_toml(text, where)
    except tomllib.TOMLDecodeError as error:
        name = in_one_line(where, 200)
        raise ConfigError(f"{name} is not valid TOML: {in_one_line(error)}") from None


def _parse_change(change: str, flag: str) -> tuple[str, Any]:
    require_a(str, "a change", change, "a text, as in 'seed=3'")
    name, equals, text = change.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{flag} wants name=value, got {quoted(change)}")
    try:
        values = load_toml(f"value = {text}", f"{flag} {name}")
    except tomllib.TOMLDecodeError:
        return name.strip(), text.strip()  # a bare word is a string: --set loss=squared
    if values.keys() != {"value"}:
        raise ConfigError(f"{flag} wants one name=value, got several lines: {quoted(change)}")
    return name.strip(), values["value"]


def change_value(values: dict[str, Any], name: str, value: Any) -> None:
    """Changes a key of a config, or the default of an own live value."""
    own = values.get("live")
    if isinstance(own, dict) and isinstance(own.get(name), dict):
        values["live"] = own | {name: own[name] | {"default": value}}
    else:
        values[name] = value


def load_toml(text: str, where: str) -> dict[str, Any]:
    """Parses TOML that a user wrote.

    Raises:
      TOMLDecodeError: the text is not TOML.
      ConfigError: the text is TOML, but too large or too deep for a config.
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
            # After the semicolon Python explains how to raise its limit of digits.
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
