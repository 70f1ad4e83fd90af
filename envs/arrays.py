"""Spaces of single arrays and numbers in the agent's form."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.envs.observations import (
    Writer,
    bits_writer,
    box_writer,
    channels_last_writer,
    one_hot_writer,
    one_hots_writer,
)
from targetnet.envs.outcomes import require_array_observations
from targetnet.rl_core.errors import EnvError, quoted

FLOAT32 = np.dtype(np.float32)
# Stored without conversion: in a replay they take a quarter of the memory of float32.
KEPT_DTYPES = (np.dtype(np.uint8), np.dtype(np.bool_))


class ArraySpace(NamedTuple):
    """Observations of one array or number in the agent's form.

    Attributes:
      shape, dtype: as stored.
      writer: of them.
      given: shape as the env gives them; () if Discrete.
      byte_bounds: (low, high) of uint8; None: 0 and 255, or no bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    writer: Writer
    given: tuple[int, ...]
    byte_bounds: tuple[np.ndarray, np.ndarray] | None = None


def array_space(
    env_id: str, space: gym.Space[Any], name: str = "", others: Sequence[str] = ()
) -> ArraySpace:
    """Returns the agent's form of a space.

    A Box of uint8 or bool keeps its dtype, any other Box becomes float32. A Discrete space becomes
    one-hot float32, a MultiDiscrete one one-hot rows side by side, and MultiBinary becomes bools.
    Images with channels or stacked frames first, uint8 [C, H, W] with C at most half of H and W,
    become [H, W, C], the form that the networks expect.

    Args:
      name, others: as for `require_array_observations`.

    Raises:
      EnvError: it holds neither arrays nor numbers, or nothing at all.
    """
    of = require_array_observations(env_id, space, name, others)
    if isinstance(of, gym.spaces.Discrete):
        return ArraySpace((int(of.n),), FLOAT32, one_hot_writer(of), ())
    if isinstance(of, gym.spaces.MultiDiscrete):
        return ArraySpace((int(of.nvec.sum()),), FLOAT32, one_hots_writer(of), of.shape)
    if isinstance(of, gym.spaces.MultiBinary):
        return ArraySpace(of.shape, np.dtype(np.bool_), bits_writer(of.shape), of.shape)
    if 0 in of.shape:
        raise EnvError(
            f"env {quoted(env_id)} shows nothing: its observation{f' at {name!r}' if name else ''} "
            f"has the shape {of.shape}; a wrapper (env_wrapper) can show a constant"
        )
    dtype = of.dtype if of.dtype in KEPT_DTYPES else FLOAT32
    shape, bounds = of.shape, _byte_bounds(of)
    if _is_image_with_channels_first(of):
        writer = channels_last_writer(shape, dtype)
        if bounds is not None and bounds[0].ndim:
            bounds = np.moveaxis(bounds[0], 0, -1), np.moveaxis(bounds[1], 0, -1)
        return ArraySpace((*shape[1:], shape[0]), dtype, writer, shape, bounds)
    return ArraySpace(shape, dtype, box_writer(shape, dtype), shape, bounds)


def _byte_bounds(space: gym.spaces.Box) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns low and high of uint8 observations, as scalars if all elements have equal bounds."""
    low, high = space.low, space.high
    if space.dtype != np.uint8 or (not low.any() and (high == 255).all()):
        return None
    if (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return np.array(low.flat[0]), np.array(high.flat[0])
    return low, high


def _is_image_with_channels_first(space: gym.spaces.Box) -> bool:
    shape = space.shape
    return space.dtype == np.uint8 and len(shape) == 3 and 2 * shape[0] <= min(shape[1:])
