"""Action masks: masks of legal actions from an env's infos, checked and stored.

The convention is that of gymnasium's Taxi: `reset` and `step` both give `info["action_mask"]`,
[A] of 0 and 1, for the observation in the same result. Entry 0 is the first action of the action
space, whatever its number. A vector env gives [N, A], and may mark in `info["_action_mask"]`, [N],
the envs that gave a mask.

With several branches A is the sum over them. A mask may also have the form that the action space's
`sample` takes: of MultiDiscrete a tuple of arrays, one for each branch, nested as its numbers are;
of MultiBinary an array of its shape, with 2 where both are legal, else the only legal number. A
vector env gives each array with N in front, or N masks as objects.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from targetnet.envs.actions import ActionForm
from targetnet.envs.observations import as_array, contract_error
from targetnet.rl_core.errors import EnvContractError, in_one_line

NONE = "none, though the first reset gave one"


def finds_masks(env_id: str, info: Any, form: ActionForm, num_envs: int | None = None) -> bool:
    """Returns True if the `info` of a first reset has masks.

    Args:
      form: of the env's actions.
      num_envs: N of a vector env; None: a single env.

    Raises:
      EnvError: the masks are invalid.
    """
    if mask_in(info) is None:
        return False
    shape = (form.outputs,) if num_envs is None else (num_envs, form.outputs)
    try:
        write_legal(np.empty(shape, np.bool_), info, False, form)
    except EnvContractError as error:
        env = error.env or 0
        owner = f"envs 0 to {shape[0] - 1}" if shape[1:] and error.env is None else f"env {env}"
        error.add(before=f"{owner} ({env_id}): ")
        raise
    return True


def write_legal(rows: np.ndarray, info: Any, ended: Any, form: ActionForm) -> None:
    """Writes the masks of `info` into `rows`.

    If an episode ended without a legal action, every action is marked legal, because no action is
    chosen there. Without the end of an episode, a mask must have a legal action. With branches,
    that holds for each branch.

    Args:
      rows: [A] bool, the row of one env, or [N, A] bool, the rows of a vector env.
      info: the info dict that came with the observations.
      ended: [] or [N] bool: the episode ended.
      form: of the env's actions.

    Raises:
      EnvContractError: a mask is missing, has the wrong shape, has entries other than 0 and 1, or
        has no legal action although the episode did not end.
    """
    given = mask_in(info)
    if given is None:
        raise _refusal(rows, NONE, form)
    mask = _flat(given, rows, form) if form.branches else as_array(given)
    if mask.shape != rows.shape or mask.dtype.kind not in "biuf":
        got = f"one of shape {mask.shape} and dtype {mask.dtype}"
        raise _refusal(rows, got, form)
    if rows.ndim == 2:
        present = np.asarray(info.get("_action_mask", True), np.bool_)  # [] or [N]
        if not present.all():
            raise _refusal(rows, NONE, form, int(np.argmin(present)))

    np.not_equal(mask, 0, out=rows)
    # An entry other than 0 and 1, or NaN, differs from the bool that is stored for it.
    strange = rows != mask
    if form.branches:
        starts = np.cumsum((0, *form.branches[:-1]))
        some = np.logical_or.reduceat(rows, starts, axis=-1)  # [D] or [N, D]
    else:
        some = np.logical_or.reduce(rows, axis=-1)  # [] or [N]
    # count_nonzero takes a fifth of the time of any() and all(), which matters at every step.
    if np.count_nonzero(strange) or np.count_nonzero(some) < some.size:
        enough = some.all(axis=-1) if form.branches else some
        good = ~strange.any(axis=-1) & (enough | ended)
        if not good.all():
            first = int(np.argmin(good))  # 0 for []
            got = in_one_line(mask.reshape(-1, rows.shape[-1])[first].tolist())
            raise _refusal(rows, got, form, first)
        if form.branches:
            rows |= np.repeat(~some, form.branches, axis=-1)
        else:
            rows[~some] = True


def _flat(given: Any, rows: np.ndarray, form: ActionForm) -> np.ndarray:
    """Returns a mask of several branches, which may have another form, in that of `rows`."""
    lead = rows.shape[:-1]
    if isinstance(given, np.ndarray) and given.dtype == object and given.shape == lead != ():
        # Those of single envs, as Gymnasium's vector envs collect what is no array. `_action_mask`
        # says where one is missing.
        legal = np.ones(form.outputs, np.bool_)
        return np.stack([
            legal if one is None else _of_row(_flat(one, row, form), row, form)
            for one, row in zip(given, rows, strict=True)
        ])  # fmt: skip
    if isinstance(given, tuple) and not all(map(_is_number, given)):
        pieces = [*_pieces(given)]
        if [piece.shape for piece in pieces] != [(*lead, n) for n in form.branches]:
            shapes = in_one_line([piece.shape for piece in pieces])
            raise _refusal(rows, f"a tuple of arrays of the shapes {shapes}", form)
        return np.concatenate(pieces, axis=-1)
    mask = as_array(given)
    if form.binary and mask.shape == (*lead, *form.shape) and mask.dtype.kind in "biuf":
        number = mask.reshape(*lead, -1)  # [D] or [N, D]
        good = np.isin(number, (0, 1, 2)).all(axis=-1)  # [] or [N]
        if not good.all():
            env = int(np.argmin(good))
            got = in_one_line(number.reshape(-1, number.shape[-1])[env].tolist())
            raise _refusal(rows, got, form, env)
        return np.stack([number != 1, number != 0], axis=-1).reshape(rows.shape)
    return mask


def _of_row(mask: np.ndarray, row: np.ndarray, form: ActionForm) -> np.ndarray:
    if mask.shape == row.shape and mask.dtype.kind in "biuf":
        return mask
    raise _refusal(row, f"one of shape {mask.shape} and dtype {mask.dtype}", form)


def _pieces(given: Any) -> Iterator[np.ndarray]:
    """Yields the arrays of a tuple of tuples, in their order."""
    if isinstance(given, tuple) and not all(map(_is_number, given)):
        for one in given:
            yield from _pieces(one)
    else:
        yield as_array(given)


def _is_number(given: Any) -> bool:
    return np.ndim(given) == 0 if not isinstance(given, tuple | list) else False


def mask_in(info: Any) -> Any:
    """Returns the mask in an info dict; None if there is none."""
    return info.get("action_mask") if isinstance(info, Mapping) else None


def _refusal(
    rows: np.ndarray, got: str, form: ActionForm, env: int | None = None
) -> EnvContractError:
    each = f" in each of {len(form.branches)} branches" if form.branches else ""
    error = contract_error(
        f"info['action_mask'] must be 0 or 1 for each of "
        f"{' envs and '.join(map(str, rows.shape))} actions, with at least one 1{each} unless the "
        f"episode ended, got {got}"
    )
    error.env = env if rows.ndim == 2 else None
    return error
