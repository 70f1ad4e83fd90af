"""Action masks: masks of legal actions from an env's infos, checked and stored.

The convention is that of gymnasium's Taxi: `reset` and `step` both give `info["action_mask"]`,
[A] of 0 and 1, for the observation in the same result. Entry 0 is the first action of the action
space, whatever its number. A vector env gives [N, A], and may mark in `info["_action_mask"]`, [N],
the envs that gave a mask.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from envs.observations import contract_error
from rl_core.errors import EnvContractError, in_one_line

NONE = "none, though the first reset gave one"


def finds_masks(env_id: str, info: Any, shape: tuple[int, ...]) -> bool:
    """Returns True if the `info` of a first reset has masks.

    Raises:
      EnvError: the masks are invalid or do not have `shape`, [A] or [N, A].
    """
    if mask_in(info) is None:
        return False
    try:
        write_legal(np.empty(shape, np.bool_), info, ended=False)
    except EnvContractError as error:
        env = error.env or 0
        owner = f"envs 0 to {shape[0] - 1}" if shape[1:] and error.env is None else f"env {env}"
        error.add(before=f"{owner} ({env_id}): ")
        raise
    return True


def write_legal(rows: np.ndarray, info: Any, ended: Any) -> None:
    """Writes the masks of `info` into `rows`.

    If an episode ended without a legal action, every action is marked legal, because no action is
    chosen there. Without the end of an episode, a mask must have a legal action.

    Args:
      rows: [A] bool, the row of one env, or [N, A] bool, the rows of a vector env.
      info: the info dict that came with the observations.
      ended: [] or [N] bool: the episode ended.

    Raises:
      EnvContractError: a mask is missing, has the wrong shape, has entries other than 0 and 1, or
        has no legal action although the episode did not end.
    """
    given = mask_in(info)
    if given is None:
        raise _refusal(rows, NONE)
    mask = np.asarray(given)
    if mask.shape != rows.shape or mask.dtype.kind not in "biuf":
        got = f"one of shape {mask.shape} and dtype {mask.dtype}"
        raise _refusal(rows, got)
    if rows.ndim == 2:
        present = np.asarray(info.get("_action_mask", True), np.bool_)  # [] or [N]
        if not present.all():
            raise _refusal(rows, NONE, int(np.argmin(present)))

    np.not_equal(mask, 0, out=rows)
    # An entry other than 0 and 1, or NaN, differs from the bool that is stored for it.
    strange = rows != mask
    some = np.logical_or.reduce(rows, axis=-1)  # [] or [N]
    # count_nonzero takes a fifth of the time of any() and all(), which matters at every step.
    if np.count_nonzero(strange) or np.count_nonzero(some) < some.size:
        good = ~strange.any(axis=-1) & (some | ended)
        if not good.all():
            first = int(np.argmin(good))  # 0 for []
            got = in_one_line(mask.reshape(-1, rows.shape[-1])[first].tolist())
            raise _refusal(rows, got, first)
        rows[~some] = True


def mask_in(info: Any) -> Any:
    """Returns the mask in an info dict; None if there is none."""
    return info.get("action_mask") if isinstance(info, Mapping) else None


def _refusal(rows: np.ndarray, got: str, env: int | None = None) -> EnvContractError:
    error = contract_error(
        f"info['action_mask'] must be 0 or 1 for each of "
        f"{' envs and '.join(map(str, rows.shape))} actions, with at least one 1 unless the "
        f"episode ended, got {got}"
    )
    error.env = env if rows.ndim == 2 else None
    return error
