"""Models of what a user writes: every mistake is one line, with the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from targetnet.rl_core.errors import ConfigError, did_you_mean, in_one_line, quoted

_A_TABLE = re.compile(r"a dictionary or instance of \w+")
_A_LIST = re.compile(r"a (tuple|list)\b")
_MAX_CHARACTERS = 400  # characters of an error's reason, which may quote a value of 200
# Parts of an error's place that no user has written: they name the members of a union.
_UNION_TAGS = {"int", "float", "finite-float", "constrained-float"}
_UNION_TAGS |= {"constant", "linear", "geometric", "piecewise"}
_UNION_TAGS |= {"list[int]", "list[list[int]]"}
_UNION_TAGS |= {"Constant", "Linear", "Geometric", "Piecewise"}


def first_error(error: ValidationError) -> str:
    """Returns the first error in one line: the key, the wanted value, the given value."""
    found = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in found["loc"] if part not in _UNION_TAGS)
    if found["type"] == "missing":
        return f"{where} is missing"
    if found["type"] == "extra_forbidden":
        return f"unknown key {quoted(where)}"
    where, message = in_one_line(where, 200), found["msg"].removeprefix("Value error, ")
    if found["type"] == "value_error":
        message = in_one_line(message, _MAX_CHARACTERS)
        return f"{where}: {message}" if where else message
    # "Input should be a ..."; "Tuple should have at least 1 item after validation, not 0".
    wanted = message.partition(" should ")[2].partition(" after validation")[0] or f"be {message}"
    wanted = wanted.replace("a valid integer", "a whole number").replace("a valid ", "a ")
    wanted = _A_LIST.sub("a list in brackets", wanted)
    wanted = _A_TABLE.sub("a table", wanted)
    return f"{where} should {wanted}, got {quoted(found['input'])}"


class _Keys(BaseModel):
    @classmethod
    def near(cls, key: str, names: Iterable[str]) -> str:
        """Returns the end of a message about an unknown key: a hint at the key that was meant."""
        return did_you_mean(key, names)


def require_known(
    model: type[_Keys], values: Mapping[str, Any], source: str, also: Iterable[str] = ()
) -> None:
    """Checks that a model has all these keys.

    Args:
      also: names that the message may offer besides the keys.

    Raises:
      ConfigError: it does not have one of them; names the nearest key.
    """
    for key in values:
        if key not in model.model_fields:
            raise ConfigError(
                f"{in_one_line(source, 200)}: unknown key {quoted(key)}"
                + model.near(key, [*model.model_fields, *also])
            )


if TYPE_CHECKING:

    class Model(_Keys):
        """A model that a user makes by name: `Linear(start=1.0, end=0.1, steps=100)`.

        Raises:
          ConfigError: a key is unknown or missing, or a value is wrong.
        """
else:
    # A metaclass, because pydantic and type checkers take the signature from a class without an
    # `__init__` of its own, and because a model inside another one is not made by a call.

    class _OneLine(type(_Keys)):
        def __call__(cls, *args, **values):
            try:
                return super().__call__(*args, **values)
            except ValidationError as error:
                require_known(cls, values, cls.__name__)
                raise ConfigError(f"{cls.__name__}: {first_error(error)}") from None

    class Model(_Keys, metaclass=_OneLine):  # noqa: D101 - documented above
        def __setattr__(self, name, value):
            try:
                super().__setattr__(name, value)
            except ValidationError:
                kind = type(self).__name__
                require_known(type(self), {name: value}, kind)
                raise ConfigError(
                    f"a {kind} cannot be changed; make another one, for example by "
                    f"model_copy(update={{{name!r}: {quoted(value)}}})"
                ) from None
