"""Action masks: where an env says which actions are legal, checked and stored.

A mask is [A] of 0 and 1, for the observation in the same result of `reset` or `step`. Entry 0 is
the first action of the action space, whatever its number. There are three conventions:

- `info["action_mask"]`, as of gymnasium's Taxi;
- a part `action_mask` of a dict, as in PettingZoo, RLlib and Tianshou;
- a method `action_masks()` of the env or a wrapper, as in sb3-contrib.

A vector env gives [N, A], and may mark in `info["_action_mask"]`, [N], the envs that gave a mask.

With several branches A is the sum over them. A mask may also have the form that the action space's
`sample` takes: of MultiDiscrete a tuple of arrays, one for each branch, nested as its numbers are;
of MultiBinary an array of its shape, with 2 where both are legal, else the only legal number. A
vector env gives each array with N in front, or N masks as objects.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.envs.actions import ActionForm
from targetnet.envs.nests import Path, at, leaves
from targetnet.envs.observations import as_array, contract_error
from targetnet.envs.outcomes import ArraySpaces, env_error
from targetnet.rl_core.errors import (
    EnvContractError,
    EnvError,
    EnvFault,
    did_you_mean,
    in_one_line,
    quoted,
)

NONE = "none, though the first reset gave one"
# Values of the key `action_masks`, which may name a part of observations instead.
AUTO, INFO, OFF = "auto", "info", "off"
PART, METHOD = "action_mask", "action_masks"
Read = Callable[[Any, Any], Any]  # (observation, info) -> mask; None: there is none


class MaskSource(NamedTuple):
    """A place in which an env says which actions are legal.

    Attributes:
      name: in messages.
      code: by which a program asks the env for them.
      path: of the part of an observation; None: it is no part.
    """

    name: str
    code: str = ""
    path: Path | None = None

    def reader(self, env: Any) -> Read:
        """Returns the function that reads the masks of an env, which may be a vector env."""
        if self.path is not None:
            path = self.path
            return lambda observation, info: at(observation, path)
        if self == BY_METHOD:
            method = _method_of(env)
            return lambda observation, info: method()
        return lambda observation, info: mask_in(info)


IN_INFO = MaskSource("info['action_mask']", 'info["action_mask"]')
BY_METHOD = MaskSource("the result of action_masks()", 'env.get_wrapper_attr("action_masks")()')


def part_with_masks(
    env_id: str, space: gym.Space[Any], form: ActionForm, wanted: str
) -> MaskSource | None:
    """Returns the part of observations that is a mask; None if there is none.

    Args:
      space: of the observations.
      form: of the env's actions.
      wanted: value of `action_masks`.

    Raises:
      EnvError: the part that is named is not there, or is no mask of these actions.
    """
    if wanted in (INFO, OFF):
        return None
    inside: dict[str, Path] = {}
    found = leaves(env_id, space)
    for leaf in found:
        for depth in range(1, len(leaf.path) + 1):
            inside[".".join(map(str, leaf.path[:depth]))] = leaf.path[:depth]
    name = PART if wanted == AUTO else wanted
    path = inside.get(name)
    if path is None:
        if wanted == AUTO:
            return None
        has = f"the parts {', '.join(inside)}" if inside else "no parts"
        raise EnvError(
            f"env {quoted(env_id)}: action_masks names {quoted(name)}, but its observation has "
            f"{has}{did_you_mean(name, [*inside, AUTO, INFO, OFF])}"
        )
    of = [leaf.space for leaf in found if leaf.path[: len(path)] == path]
    shapes = [each.shape or () for each in of if isinstance(each, ArraySpaces)]
    size = sum(map(math.prod, shapes))
    if len(shapes) == len(of) and (
        size == form.outputs or (form.binary and shapes == [form.shape])
    ):
        return MaskSource(f"the part {name!r} of an observation", path=path)
    if wanted == AUTO:
        return None
    raise EnvError(
        f"env {quoted(env_id)}: action_masks names {quoted(name)}, which has {size:,} numbers, and "
        f"a mask of its actions has {form.outputs:,}"
    )


def find_masks(
    env_id: str,
    env: Any,
    part: MaskSource | None,
    first: tuple[Any, Any],
    form: ActionForm,
    wanted: str,
    num_envs: int | None = None,
) -> MaskSource | None:
    """Returns where an env has masks, by its first reset; None if it has none.

    Args:
      env: the env, which may be a vector env.
      part: what `part_with_masks` returned.
      first: observation and info of that reset.
      form: of the env's actions.
      wanted: value of `action_masks`.
      num_envs: N of a vector env; None: a single env.

    Raises:
      EnvError: the masks are invalid.
    """
    source = part
    if wanted in (AUTO, INFO) and mask_in(first[1]) is not None:
        source = IN_INFO
    elif part is None and wanted == AUTO and _method_of(env) is not None:
        source = BY_METHOD
    if source is None:
        return None
    shape = (form.outputs,) if num_envs is None else (num_envs, form.outputs)
    writer = MaskWriter(source, env, np.empty(shape, np.bool_), form)
    try:
        writer.write(*first)
    except EnvFault as fault:
        owner = f"env {fault.env or 0}"
        if num_envs is not None and fault.env is None:
            owner = f"envs 0 to {num_envs - 1}"
        known = "" if source == IN_INFO else f', or set action_masks = "{OFF}"'
        fault.add(before=f"{owner} ({env_id}): ", after=known)
        raise
    return source


def _method_of(env: Any) -> Any:
    """Returns the method `action_masks` of an env or of a wrapper around it; None without one."""
    if isinstance(env, gym.Env):
        method = env.get_wrapper_attr(METHOD) if env.has_wrapper_attr(METHOD) else None
    else:
        method = getattr(env, METHOD, None)
    return method if callable(method) else None


class MaskWriter:
    """Writes the masks of one env, or of all envs of a vector env.

    Args:
      source: where they are.
      env: the env or vector env.
      rows: [A] bool, the row of one env, or [N, A] bool, the rows of a vector env.
      form: of the env's actions.
    """

    def __init__(self, source: MaskSource, env: Any, rows: np.ndarray, form: ActionForm) -> None:
        self._source, self._rows, self._form = source, rows, form
        self._read = source.reader(env)

    def write(self, observation: Any, info: Any, ended: Any = False, over: Any = False) -> None:
        """Writes the masks of a result of `reset` or `step`.

        Args:
          ended: as for `write_legal`.
          over: [] or [N] bool: the episode terminated. A method of a single env is not asked then:
            where a game is over it may fail.

        Raises:
          EnvContractError: as for `write_legal`.
          EnvFailed: the method `action_masks` raised an exception.
        """
        if over is True and self._source == BY_METHOD:
            self._rows[...] = True
            return
        try:
            given = self._read(observation, info)
        except EnvContractError:
            raise
        except Exception as error:
            raise env_error(error) from error
        present = True
        if self._source == IN_INFO and self._rows.ndim == 2 and given is not None:
            present = info.get("_action_mask", True)
        write_legal(self._rows, given, ended, self._form, self._source.name, present)


def mask_writer(
    source: MaskSource | None, env: Any, rows: np.ndarray | None, form: ActionForm
) -> MaskWriter | None:
    """Returns the writer of an env's masks; None without masks."""
    return None if source is None or rows is None else MaskWriter(source, env, rows, form)


def write_legal(
    rows: np.ndarray,
    given: Any,
    ended: Any,
    form: ActionForm,
    name: str = IN_INFO.name,
    present: Any = True,
) -> None:
    """Writes masks into `rows`.

    If an episode ended without a legal action, every action is marked legal, because no action is
    chosen there. Without the end of an episode, a mask must have a legal action. With branches,
    that holds for each branch.

    Args:
      rows: [A] bool, the row of one env, or [N, A] bool, the rows of a vector env.
      given: as the env gave them.
      ended: [] or [N] bool: the episode ended.
      form: of the env's actions.
      name: of where they are, for messages.
      present: [] or [N] bool: the env gave one.

    Raises:
      EnvContractError: a mask is missing, has the wrong shape, has entries other than 0 and 1, or
        has no legal action although the episode did not end.
    """
    try:
        _write(rows, given, ended, form, present)
    except _BadMask as wrong:
        each = f" in each of {len(form.branches)} branches" if form.branches else ""
        error = contract_error(
            f"{name} must be 0 or 1 for each of {' envs and '.join(map(str, rows.shape))} "
            f"actions, with at least one 1{each} unless the episode ended, got {wrong}"
        )
        error.env = wrong.env if rows.ndim == 2 else None
        raise error from None


class _BadMask(Exception):
    """A mask that cannot be used; its text is what came.

    Args:
      env: of a vector env, whose it is; None: of all together.
    """

    def __init__(self, got: str, env: int | None = None) -> None:
        super().__init__(got)
        self.env = env


def _write(rows: np.ndarray, given: Any, ended: Any, form: ActionForm, present: Any) -> None:
    if given is None:
        raise _BadMask(NONE)
    mask = _flat(given, rows, form) if form.branches else as_array(given)
    _require_form(mask, rows)
    if present is not True and not (there := np.asarray(present, np.bool_)).all():
        raise _BadMask(NONE, int(np.argmin(there)))

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
            raise _BadMask(in_one_line(mask.reshape(-1, rows.shape[-1])[first].tolist()), first)
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
        each = zip(given, rows, strict=True)
        return np.stack([legal if one is None else _of_row(one, row, form) for one, row in each])
    if isinstance(given, tuple) and not all(map(_is_number, given)):
        pieces = [*_pieces(given)]
        if [piece.shape for piece in pieces] != [(*lead, n) for n in form.branches]:
            shapes = in_one_line([piece.shape for piece in pieces])
            raise _BadMask(f"a tuple of arrays of the shapes {shapes}")
        return np.concatenate(pieces, axis=-1)
    mask = as_array(given)
    if form.binary and mask.shape == (*lead, *form.shape) and mask.dtype.kind in "biuf":
        number = mask.reshape(*lead, -1)  # [D] or [N, D]
        good = np.isin(number, (0, 1, 2)).all(axis=-1)  # [] or [N]
        if not good.all():
            env = int(np.argmin(good))
            raise _BadMask(in_one_line(number.reshape(-1, number.shape[-1])[env].tolist()), env)
        return np.stack([number != 1, number != 0], axis=-1).reshape(rows.shape)
    return mask


def _of_row(given: Any, row: np.ndarray, form: ActionForm) -> np.ndarray:
    try:
        return _require_form(_flat(given, row, form), row)
    except _BadMask as wrong:
        raise _BadMask(str(wrong)) from None  # an index of the row alone is none of an env


def _require_form(mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if mask.shape == rows.shape and mask.dtype.kind in "biuf":
        return mask
    raise _BadMask(f"one of shape {mask.shape} and dtype {mask.dtype}")


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
    return info.get(PART) if isinstance(info, Mapping) else None
