"""The metadata of a dataset, checked before Minari sees them.

A dataset may come from anybody. So its files are regular ones within its directory, its numbers
are bounded, and nothing that it names is imported: of its env's spec only the id, the time limit,
the arguments and the names of the wrappers are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from targetnet.rl_core.errors import RlCoreError, quoted, reason_of
from targetnet.rl_core.files import read_regular


class DataError(RlCoreError, OSError):
    """A dataset that cannot be written or read."""


class UnsafeData(Exception):
    """Something in a dataset's files that is not read; `Dataset` adds which dataset it is."""


METADATA = "metadata.json"
HDF5 = "hdf5"  # Minari's only format that its extra `hdf5` can read
_MOST_BYTES = 1 << 24  # of the file; an Atari picture's bounds take 1 MB
_MOST_NUMBERS = 1 << 23  # of one observation
_DEEPEST = 16  # dicts and tuples within each other
_NUMBERS = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64",
}  # fmt: skip


class Metadata(NamedTuple):
    """The checked metadata of a dataset.

    Attributes:
      observations, actions: spaces of one observation and one action.
      spec: of its env, without an entry point; None if it has none.
      episodes, env_steps: how many it says that it has.
      jpeg: whether pictures are stored as JPEG.
    """

    observations: gym.Space[Any]
    actions: gym.Space[Any]
    spec: EnvSpec | None
    episodes: int
    env_steps: int
    jpeg: bool


def file_within(directory: Path, file: Path) -> Path:
    """Returns the path of a dataset's file, without links.

    Raises:
      UnsafeData: a link leads out of the dataset's directory, or there is no such file.
    """
    name = file.relative_to(directory).as_posix()
    try:
        whole = file.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
        raise UnsafeData(f"{name} cannot be opened: {reason_of(error)}") from None
    if not whole.is_relative_to(directory.resolve()):
        raise UnsafeData(f"{name} is a link that leads out of the dataset's directory")
    return whole


def read_metadata(directory: Path, inner: Path) -> Metadata:
    """Reads the metadata of a dataset; imports nothing that it names.

    Args:
      directory: of the dataset, which no link may leave.
      inner: the directory within it that has the files, or the same.

    Raises:
      UnsafeData: they are not what Minari writes, or a number is out of bounds.
      OSError, ValueError: the file cannot be read.
    """
    path = file_within(directory, inner / METADATA)
    try:
        data = read_regular(path, most=_MOST_BYTES)
    except (OSError, ValueError) as error:
        raise UnsafeData(f"{METADATA} cannot be read: {reason_of(error)}") from None
    found = _parsed(METADATA, data)
    from minari import __version__, supported_dataset_versions

    version = found.get("minari_version")
    if version not in supported_dataset_versions:
        raise UnsafeData(
            f"Minari {__version__} does not read datasets of version {quoted(version)}; it reads "
            f"{', '.join(sorted(supported_dataset_versions))}"
        )
    if found.get("data_format") != HDF5:
        raise UnsafeData(f"wanted data_format {HDF5!r}, got {quoted(found.get('data_format'))}")
    return Metadata(
        _space(found, "observation_space"),
        _space(found, "action_space"),
        _spec(found.get("env_spec")),
        _whole(f"total_episodes in {METADATA}", found.get("total_episodes")),
        _whole(f"total_steps in {METADATA}", found.get("total_steps")),
        bool(found.get("jpeg_encoding", True)),
    )


def _parsed(what: str, text: str | bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnsafeData(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnsafeData(f"{what} must be a JSON object, got {quoted(found)}")
    return found


def _whole(what: str, value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UnsafeData(f"{what} must be a whole number >= {least}, got {quoted(value)}")
    return value


def _space(metadata: Mapping[str, Any], name: str) -> gym.Space[Any]:
    """Returns a space of the metadata; Minari would make the env to get one that is missing."""
    from minari.serialization import deserialize_space

    text = metadata.get(name)
    if not isinstance(text, str):
        raise UnsafeData(f"{METADATA} must have {name!r}, a text, got {quoted(text)}")
    form = _parsed(f"{name} in {METADATA}", text)
    _require_space(name, form, _DEEPEST)
    try:
        space: gym.Space[Any] = deserialize_space(form)
    except Exception as error:  # Minari and Gymnasium raise anything
        raise UnsafeData(f"{name} in {METADATA} is no space: {error}") from None
    return space


def _require_space(name: str, form: Any, depth: int) -> None:
    """Checks a serialized space before anything is allocated for it."""
    kind = form.get("type") if isinstance(form, dict) else form
    parts: Any = form.get("subspaces") if isinstance(form, dict) else None
    if kind in ("Dict", "Tuple") and depth:
        if not isinstance(parts, dict if kind == "Dict" else list):
            raise UnsafeData(f"{name} in {METADATA} is a {kind} without subspaces")
        for part in parts.values() if isinstance(parts, dict) else parts:
            _require_space(name, part, depth - 1)
    elif kind in ("Box", "MultiBinary"):
        shape = form.get("shape" if kind == "Box" else "n")
        sizes = shape if isinstance(shape, list) else [shape]
        for size in sizes:
            _whole(f"a length of {name} in {METADATA}", size)
        if math.prod(sizes) > _MOST_NUMBERS:
            raise UnsafeData(
                f"{name} in {METADATA} has the shape {quoted(shape)}, more than "
                f"{_MOST_NUMBERS:,} numbers"
            )
    elif kind not in ("Discrete", "MultiDiscrete", "Text"):
        raise UnsafeData(f"{name} in {METADATA} is no space of Minari: {quoted(kind)}")
    if kind in ("Box", "MultiDiscrete") and form.get("dtype") not in _NUMBERS:
        raise UnsafeData(f"{name} in {METADATA} has numbers of type {quoted(form.get('dtype'))}")


def _spec(text: Any) -> EnvSpec | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise UnsafeData(f"env_spec in {METADATA} must be a text, got {quoted(text)}")
    found = _parsed(f"env_spec in {METADATA}", text)
    env_id, kwargs = found.get("id"), found.get("kwargs") or {}
    limit, wrappers = found.get("max_episode_steps"), found.get("additional_wrappers") or []
    if limit is not None:
        limit = _whole(f"max_episode_steps of env_spec in {METADATA}", limit, 1)
    names = [of.get("name") if isinstance(of, dict) else of for of in wrappers]
    if not isinstance(kwargs, dict) or not all(isinstance(name, str) for name in (env_id, *names)):
        raise UnsafeData(f"env_spec in {METADATA} is no spec of an env: {quoted(text)}")
    try:
        return EnvSpec(
            str(env_id),
            max_episode_steps=limit,
            kwargs=kwargs,
            additional_wrappers=tuple(WrapperSpec(str(name), "", None) for name in names),
        )
    except gym.error.Error as error:
        raise UnsafeData(f"env_spec in {METADATA} is no spec of an env: {error}") from None
