"""Spaces of several parts: dicts and tuples of arrays and numbers, packed into one row."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.envs.arrays import ArraySpace, array_space
from targetnet.envs.observations import Write, Writer, contract_error, what_came
from targetnet.envs.outcomes import ArraySpaces
from targetnet.rl_core.errors import EnvError, EnvFault, did_you_mean, quoted
from targetnet.rl_core.observation_parts import Part, placed

Path = tuple[Any, ...]  # keys from the outside to the inside


class Leaf(NamedTuple):
    """A space within others.

    Attributes:
      path: where it is.
      space: the same.
    """

    path: Path
    space: gym.Space[Any]

    @property
    def name(self) -> str:
        """Its keys with dots between them."""
        return ".".join(map(str, self.path))


def leaves(env_id: str, space: gym.Space[Any], keys: Sequence[str] = ()) -> list[Leaf]:
    """Returns the spaces within a space; of an array's, itself.

    Args:
      keys: those of the outermost dict or tuple that are wanted; empty: all.

    Raises:
      EnvError: there is no such key, or there are no keys at all.
    """
    found = [*_leaves((), space)]
    if not keys:
        return found
    known = list(dict.fromkeys(str(leaf.path[0]) for leaf in found if leaf.path))
    for key in keys:
        if key not in known:
            has = f"has {', '.join(known)}" if known else "is no dict and no tuple"
            raise EnvError(
                f"env {quoted(env_id)}: observation_keys names {quoted(key)}, but its observation "
                f"{has}{did_you_mean(key, known)}"
            )
    return [leaf for leaf in found if str(leaf.path[0]) in keys]


def _leaves(path: Path, space: gym.Space[Any]) -> Iterator[Leaf]:
    inside: Any = ()
    if isinstance(space, gym.spaces.Dict):
        inside = space.spaces.items()
    elif isinstance(space, gym.spaces.Tuple):
        inside = enumerate(space.spaces)
    else:
        yield Leaf(path, space)
    for key, one in inside:
        yield from _leaves((*path, key), one)


class Nest(NamedTuple):
    """Observations of several parts in the agent's form.

    Attributes:
      parts: their places in a row.
      given: shapes of what the env gives.
      dtype, size: of a row.
      writer: of whole observations into rows.
    """

    parts: tuple[Part, ...]
    given: tuple[tuple[int, ...], ...]
    dtype: np.dtype
    size: int
    writer: Writer


def nest_of(env_id: str, found: Sequence[Leaf]) -> Nest:
    """Packs spaces into rows.

    Raises:
      EnvError: one of them holds no array, or two have one name.
    """
    if not found:
        raise EnvError(f"env {quoted(env_id)} has an observation space without any part in it")
    no_arrays = {str(of.path[0]) for of in found if not isinstance(of.space, ArraySpaces)}
    keys = dict.fromkeys(str(of.path[0]) for of in found)
    others = [key for key in keys if key not in no_arrays]
    arrays = [array_space(env_id, leaf.space, leaf.name, others) for leaf in found]
    parts, dtype, size = placed([
        Part(leaf.name, of.shape, of.dtype, of.byte_bounds)
        for leaf, of in zip(found, arrays, strict=True)
    ])  # fmt: skip
    # Scopes of layers and inputs of exports are named after them, in any case of letters.
    plain = [re.sub(r"\W", "_", leaf.name, flags=re.ASCII).lower() for leaf in found]
    alike = [of.name for of, name in zip(found, plain, strict=True) if plain.count(name) > 1]
    if alike:
        raise EnvError(
            f"env {quoted(env_id)} has parts of observations whose names are too much alike: "
            f"{', '.join(alike)}; leave one out by observation_keys, or rename it (env_wrapper)"
        )

    def writer(rows: np.ndarray) -> Write:
        writes = [
            partial(_write_at, leaf.path, of.writer(part.of(rows)))
            for leaf, of, part in zip(found, arrays, parts, strict=True)
        ]

        def write(observation: Any) -> None:
            for one in writes:
                one(observation)

        return write

    return Nest(parts, tuple(of.given for of in arrays), dtype, size, writer)


def inner_writer(array: ArraySpace, path: Path) -> Writer:
    """Returns the writer of the only array that is wanted of an observation, at `path`."""
    if not path:
        return array.writer
    return lambda rows: partial(_write_at, path, array.writer(rows))


def at(observation: Any, path: Path) -> Any:
    """Returns what is at `path` of an observation.

    Raises:
      EnvContractError: nothing is.
    """
    for depth, key in enumerate(path):
        # A number is a place in a tuple, or the key of a dict that has such keys.
        kinds = Mapping if isinstance(key, str) else (tuple, list, Mapping)
        mistaken = not isinstance(observation, kinds)
        try:
            if mistaken:
                raise KeyError
            observation = observation[key]
        except (KeyError, IndexError):
            outer = ".".join(map(str, path[:depth]))
            where = f"at {outer!r} " if outer else ""
            raise contract_error(
                f"the observation must have {where}a part {key!r}, got {what_came(observation)}"
            ) from None
    return observation


def put_at(path: Path, part: Any) -> Any:
    """Returns an observation with nothing but this part at `path`."""
    for key in reversed(path):
        part = {key: part} if isinstance(key, str) else [None] * key + [part]
    return part


def _write_at(path: Path, write: Write, observation: Any) -> None:
    part = at(observation, path)
    try:
        write(part)
    except EnvFault as fault:
        fault.add(before=f"at {'.'.join(map(str, path))!r}, ")
        raise
