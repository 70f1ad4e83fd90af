"""Conversion of an env's spaces for the agent: rows of one stored dtype, and actions from 0."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.envs.actions import ActionForm, action_form
from targetnet.envs.arrays import array_space
from targetnet.envs.masks import (
    AUTO,
    BY_METHOD,
    METHOD,
    OFF,
    PART,
    MaskSource,
    part_with_masks,
)
from targetnet.envs.nests import Leaf, Path, inner_writer, leaves, nest_of
from targetnet.envs.observations import Writer
from targetnet.rl_core.observation_parts import Part


class Spaces(NamedTuple):
    """One env's observations and actions in the agent's form."""

    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype  # as stored
    writer: Writer  # of what the env shows next
    actions: ActionForm
    given_shape: tuple[int, ...]  # of an observation as the env gives it; () if Discrete
    byte_bounds: tuple[np.ndarray, np.ndarray] | None = None  # None: 0 and 255, or no bytes
    stack: int = 1  # frames of an observation; `given_shape` begins with them if there are several
    complete: Writer | None = None  # of whole observations, of all frames; None: `writer`
    parts: tuple[Part, ...] = ()  # of packed observations; (): they are one array
    leaves: tuple[Leaf, ...] = ()  # the env's own spaces of each part, or of the only array
    given_shapes: tuple[tuple[int, ...], ...] = ()  # of each part, as `given_shape`
    own: tuple[gym.Space[Any], gym.Space[Any]] | None = None  # of observations and actions
    masks: MaskSource | None = None  # where the env says which actions are legal; None: nowhere

    @property
    def paths(self) -> tuple[Path, ...]:
        """Path of each part, or of the only array, in what the env gives."""
        return tuple(leaf.path for leaf in self.leaves)


def read_spaces(
    env_id: str,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    keys: Sequence[str] = (),
    masks: str = AUTO,
) -> Spaces:
    """Returns the agent's form of an env's spaces.

    Arrays become what `targetnet.envs.arrays.array_space` says. Of a dict or a tuple, if more than
    one array is wanted, each is a part of a packed row (`targetnet.rl_core.observation_parts`).

    Args:
      keys: of a dict or a tuple, those that are wanted; empty: all.
      masks: where the env says which actions are legal, see `targetnet.envs.masks`. A part that
        says so is left out, unless it is named in `keys` or is the only one.

    Raises:
      EnvError: the agent cannot be trained with these spaces.
    """
    found = leaves(env_id, observation_space, keys)
    actions = action_form(env_id, action_space)
    source = part_with_masks(env_id, observation_space, actions, masks)
    if source is not None and source.path is not None and str(source.path[0]) not in keys:
        path = source.path
        found = [leaf for leaf in found if leaf.path[: len(path)] != path] or found
    spaces = spaces_of(env_id, found, action_space)
    return spaces._replace(own=(observation_space, action_space), masks=source)


def spaces_of(env_id: str, found: Sequence[Leaf], action_space: gym.Space[Any]) -> Spaces:
    """Returns the agent's form of the parts that are wanted, or of the only array, and of actions.

    Raises:
      EnvError: the agent cannot be trained with these spaces.
    """
    actions = action_form(env_id, action_space)
    if len(found) != 1:
        nest = nest_of(env_id, found)
        return Spaces(
            (nest.size,), nest.dtype, nest.writer, actions, (), parts=nest.parts,
            leaves=tuple(found), given_shapes=nest.given,
        )  # fmt: skip
    (leaf,) = found
    array = array_space(env_id, leaf.space, leaf.name)
    writer = inner_writer(array, leaf.path)
    return Spaces(
        array.shape, array.dtype, writer, actions, array.given, array.byte_bounds, leaves=(leaf,)
    )


def where_masks_are(spaces: Spaces, wanted: str) -> str | None:
    """Returns a line about masks in another form than Gymnasium's; None if there is nothing to say.

    Args:
      spaces: of an env.
      wanted: value of `action_masks`.
    """
    found, parts = spaces.masks, {leaf.path: leaf.space for leaf in spaces.leaves}
    if found == BY_METHOD:
        return (
            f"the env's method {METHOD}() says which actions are legal; to allow all: "
            f'action_masks = "{OFF}"'
        )
    if found is not None and found.path is not None:
        seen = any(path[: len(found.path)] == found.path for path in parts)
        rest = "" if seen else ", which is no input of the network"
        return f'legal actions are those of {found.name}{rest}; for all: action_masks = "{OFF}"'
    if found is None and wanted == AUTO and (PART,) in parts:
        return (
            f"the part {PART!r} of an observation is an input of the network, no mask: its shape "
            f"is {parts[PART,].shape}, and a mask has {spaces.actions.outputs:,} numbers"
        )
    return None


class _QuickDiscrete(gym.spaces.Discrete):
    """A Discrete space with a fast `contains` for plain ints."""

    members: range

    def contains(self, x: Any) -> bool:
        return (type(x) is int and x in self.members) or super().contains(x)


def make_contains_quick(space: gym.Space[Any] | None) -> None:
    """Makes `space.contains` fast if `space` is Discrete; its answers stay the same.

    Some envs call `contains` at every step. Gymnasium's version asks NumPy for the bounds of int64
    on each call, which takes a third of a step of CartPole.
    """
    if type(space) is not gym.spaces.Discrete:
        return
    members = range(int(space.start), int(space.start) + int(space.n))
    if members[-1] <= np.iinfo(space.dtype).max:  # else Gymnasium says no, or raises before 1.4
        # Change the class and keep the object: it has a random state, and wrappers may share it.
        space.__class__ = _QuickDiscrete
        assert isinstance(space, _QuickDiscrete)
        space.members = members
