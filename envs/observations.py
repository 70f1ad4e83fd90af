"""Writers of observations into rows, with checks and conversion.

Every observation of every step is checked, so the first checks are the cheapest possible: a copy
that accepts only the right dtype and shape, and one operation over all numbers. Only if these fail
does a slower check look at each number.
"""

import math
from collections.abc import Callable
from struct import Struct
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.rl_core.errors import EnvContractError, EnvNotFinite, in_one_line
from targetnet.rl_core.machine import check_memory

Write = Callable[[Any], None]  # writes one observation into a row, or N observations into N rows
Writer = Callable[[np.ndarray], Write]  # row or rows -> function that writes into them

ADVICE = "; correct the env"
LARGEST = 3.4028234663852886e38  # largest float32
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_FEW = 32  # up to this many numbers, Python is faster than NumPy


def contract_error(problem: str) -> EnvContractError:
    """Returns the error for an env that violates gymnasium's interface."""
    return EnvContractError(problem + ADVICE)


def not_finite(what: str, value: Any, place: str = "") -> EnvNotFinite:
    """Returns the error for a number that is NaN, infinite or beyond float32."""
    return EnvNotFinite(f"{what} must be finite in float32, got {float(value):g}{place}{ADVICE}")


def box_writer(shape: tuple[int, ...], dtype: np.dtype) -> Writer:
    """Returns the writer of observations of `shape` into rows of the same shape and `dtype`."""

    def writer(rows: np.ndarray) -> Write:
        lead = rows.shape[: rows.ndim - len(shape)]
        if dtype != _FLOAT32:
            return _exact_write(rows, (*lead, *shape), dtype)
        if rows.ndim == 1 and not lead and rows.size <= _FEW:
            return _write_few(rows)
        return _write_floats(rows, lead)

    return writer


def channels_last_writer(shape: tuple[int, ...], dtype: np.dtype) -> Writer:
    """Returns the writer of observations [C, H, W] into rows [H, W, C]."""

    def writer(rows: np.ndarray) -> Write:
        wanted = (*rows.shape[: rows.ndim - len(shape)], *shape)

        def write(observation: Any) -> None:
            array = _fitting(observation, wanted, dtype)  # [..., C, H, W]
            # One channel at a time: one transposed copy of all channels takes four times as long.
            for channel in range(rows.shape[-1]):
                rows[..., channel] = array[..., channel, :, :]

        return write

    return writer


def one_hot_writer(space: gym.spaces.Discrete) -> Writer:
    """Returns the writer of the numbers of `space` into one-hot rows."""
    first, count = int(space.start), int(space.n)
    check_memory(8 * count, f"one-hot numbers of {count:,} kinds", advice="show a Box instead")
    values = space.start + np.arange(count)  # [n]

    def writer(rows: np.ndarray) -> Write:
        lead = rows.shape[:-1]
        kinds = () if lead else (int, np.integer)

        def write(observation: Any) -> None:
            # As a Python number: one without a sign cannot be compared with what is below 0.
            if isinstance(observation, kinds) and 0 <= (place := int(observation) - first) < count:
                rows[...] = 0.0
                rows[place] = 1.0
                return
            array = as_array(observation)
            if array.shape != lead or array.dtype.kind not in "biu":
                wanted = f"{lead[0]} whole numbers" if lead else "a whole number"
                raise contract_error(
                    f"the observation must be {wanted}, got {what_came(observation)}"
                )
            ones = array[..., np.newaxis] == values  # [..., n]
            if np.count_nonzero(ones) != array.size:
                raise _outside(array, ones.any(axis=-1), first, first + count - 1)
            rows[...] = ones

        return write

    return writer


def one_hots_writer(space: gym.spaces.MultiDiscrete) -> Writer:
    """Returns the writer of several numbers into one-hot rows that lie side by side."""
    # Unsigned numbers would make floats of the places, and wrap around below the first.
    first, counts = (of.reshape(-1).astype(np.int64) for of in (space.start, space.nvec))
    places = np.concatenate([[0], np.cumsum(counts)[:-1]])

    def writer(rows: np.ndarray) -> Write:
        lead = rows.shape[:-1]
        shape = (*lead, *space.shape)

        def write(observation: Any) -> None:
            array = as_array(observation)
            if array.shape != shape or array.dtype.kind not in "biu":
                raise contract_error(
                    f"the observation must be whole numbers of shape {shape}, got "
                    f"{what_came(observation)}"
                )
            numbers = array.reshape(*lead, -1).astype(np.int64) - first
            good = (numbers >= 0) & (numbers < counts)
            if not good.all():
                flat = array.reshape(-1, len(counts))
                env, place = np.argwhere(~good.reshape(flat.shape))[0]
                low = int(first[place])
                error = contract_error(
                    f"the observation must be at {place} a whole number from {low} to "
                    f"{low + int(counts[place]) - 1}, got {flat[env, place]}"
                )
                error.env = int(env) if lead else None
                raise error
            rows[...] = 0.0
            np.put_along_axis(rows, numbers + places, 1.0, axis=-1)

        return write

    return writer


def bits_writer(shape: tuple[int, ...]) -> Writer:
    """Returns the writer of zeros and ones of a shape into rows of bools."""

    def writer(rows: np.ndarray) -> Write:
        wanted = (*rows.shape[: rows.ndim - len(shape)], *shape)

        def write(observation: Any) -> None:
            array = as_array(observation)
            if array.shape != wanted or array.dtype.kind not in "biu":
                raise contract_error(
                    f"the observation must be zeros and ones of shape {wanted}, got "
                    f"{what_came(observation)}"
                )
            if ((array != 0) & (array != 1)).any():
                raise contract_error(f"the observation must be zeros and ones, got {array.max()}")
            rows[...] = array

        return write

    return writer


def _outside(array: np.ndarray, good: np.ndarray, low: int, high: int) -> EnvContractError:
    env = int(np.argmin(good))  # 0 for []
    error = contract_error(
        f"the observation must be a whole number from {low} to {high}, got {array.flat[env]}"
    )
    error.env = env if array.shape else None
    return error


def _exact_write(rows: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Write:
    """Returns the write for uint8 and bool rows, which are always finite."""

    def write(observation: Any) -> None:
        rows[...] = _fitting(observation, shape, dtype)

    return write


def _write_few(row: np.ndarray) -> Write:
    """Returns the write for one row of few float32 numbers."""
    careful, shape = _careful_write(row, ()), row.shape
    view, unpack, hypot, infinity = row.data, Struct(f"{row.size}f").unpack, math.hypot, math.inf
    strict = True

    def write(observation: Any) -> None:
        nonlocal strict
        if strict:
            try:
                view[:] = observation  # a memoryview refuses a different dtype or shape
            except (TypeError, ValueError):
                strict = False  # an env that gives float64 or lists once does so always
            else:
                if hypot(*unpack(view)) < infinity:
                    return
        elif (
            observation.__class__ is np.ndarray
            and observation.dtype is _FLOAT64
            and observation.shape == shape
            and hypot(*observation.tolist()) <= LARGEST
        ):
            row[...] = observation
            return
        careful(observation)

    return write


def _write_floats(rows: np.ndarray, lead: tuple[int, ...]) -> Write:
    """Returns the write for float32 rows of any shape."""
    careful = _careful_write(rows, lead)
    shape, size, finite = rows.shape, rows.size, np.empty(rows.shape, np.bool_)

    def write(observation: Any) -> None:
        if (
            observation.__class__ is np.ndarray
            and observation.dtype is _FLOAT32
            and observation.shape == shape
            and np.count_nonzero(np.isfinite(observation, finite)) == size
        ):
            rows[...] = observation
        else:
            careful(observation)

    return write


def _careful_write(rows: np.ndarray, lead: tuple[int, ...]) -> Write:
    """Returns the slow write for float32 rows: takes every allowed value, explains all others."""

    def write(observation: Any) -> None:
        array = _fitting(observation, rows.shape, _FLOAT32)
        if array.dtype.kind == "f":
            _require_finite(array, lead)
        rows[...] = array

    return write


def _fitting(observation: Any, shape: tuple[int, ...], stored: np.dtype) -> np.ndarray:
    """Returns `observation` as an array of a shape and dtype that can be stored."""
    if observation.__class__ is np.ndarray:
        array = observation
    else:
        try:
            array = np.asarray(observation)
        except (TypeError, ValueError):  # for example a list of lists of different lengths
            raise contract_error(
                f"the observation must be an array of shape {shape}, got {what_came(observation)}"
            ) from None
    if array.shape != shape:
        raise contract_error(
            f"the observation must be of shape {shape}, got {what_came(observation)}"
        )
    if array.dtype is not stored and not can_store(stored, array.dtype):
        raise contract_error(f"the observation must be of dtype {stored}, got {array.dtype}")
    return array


def can_store(stored: np.dtype, given: np.dtype) -> bool:
    """Returns True if numbers of dtype `given` can be stored as `stored` without being cut off."""
    return given == stored or (stored == _FLOAT32 and given.kind in "biuf")


def finite_in_float32(array: np.ndarray) -> np.ndarray:
    """Returns a bool array of the same shape: True where a number is finite in float32."""
    good = np.isfinite(array)
    if array.dtype.itemsize > _FLOAT32.itemsize:
        good &= np.abs(array) <= LARGEST
    return good


def _require_finite(array: np.ndarray, lead: tuple[int, ...]) -> None:
    good = finite_in_float32(array)
    if good.all():
        return
    place = [int(i) for i in np.argwhere(~good)[0]]
    within = place[len(lead) :]
    fault = not_finite("the observation", array[tuple(place)], f" at {within}" if within else "")
    fault.env = place[0] if lead else None
    raise fault


def as_array(given: Any) -> np.ndarray:
    """Returns what NumPy makes of what an env gives: an object where it can make no array of it."""
    try:
        return np.asarray(given)
    except (TypeError, ValueError):  # such as lists of different lengths
        return np.asarray(None)


def what_came(value: Any) -> str:
    """Returns a short description of a wrong value, for an error message."""
    if isinstance(value, np.ndarray):
        return f"shape {value.shape}" if value.shape else f"the single number {value}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return in_one_line(repr(value))
