"""What may be asked of a run: set a live value, or do something.

Commands come from outside, so they are parsed by strict models: unknown or doubled keys, NaN,
infinities, booleans as numbers and oversized files are refused with a reason, never applied.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from rl_core.errors import RlCoreError, did_you_mean, in_one_line, shown

Action = Literal["sync", "snapshot", "rewind", "checkpoint", "evaluate", "pause", "resume", "stop"]
ACTIONS: dict[Action, str] = {
    "sync": "copies online to target at once, whatever tau is; the target's age is 0 then",
    "snapshot": "keeps both networks, optimizer and target age in memory; so does every change "
    "of a live value, before it is felt",
    "rewind": "`rewind K` brings back what the K-th last snapshot has (K is 1 if not given); "
    "counters, replay and live values stay as they are, and the state now becomes the last "
    "snapshot",
    "checkpoint": "writes a checkpoint now; nothing waits for the disk",
    "evaluate": "plays the greedy policy on envs of its own; changes nothing that is learned; "
    "answered when it begins, and its return is then in the run's terminal and in "
    "`evaluation/return`",
    "pause": "stops stepping and learning and waits, without using the processor",
    "resume": "goes on where it was paused; no bit differs from a run that was never paused",
    "stop": "ends the run here: weights, checkpoint and digest are saved, nothing is evaluated",
}
Who = Literal["cli", "board", "api"]
MAX_BYTES = 16_384  # of one command; a real one has about 150
_DEEPEST = 8  # lists and objects within each other; a real command has two


class BadCommand(RlCoreError, ValueError):
    """A command that cannot be read."""


Name = Annotated[str, Field(min_length=1, max_length=100)]
Text = Annotated[str, Field(max_length=1_000)]
Value = int | FiniteFloat | Text | Annotated[list[Name], Field(max_length=100)]


class _Command(BaseModel):
    # Strict also keeps `true` from passing as the number 1.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    time: FiniteFloat  # seconds since the epoch, of the asking
    who: Who


class SetCommand(_Command):
    """Give a live value; "auto" returns to the config's value or schedule."""

    name: Name
    value: Value


class DoCommand(_Command):
    """Do something at the next safe point; `value` is how far a rewind goes back."""

    do: Action
    value: Annotated[int, Field(ge=1)] | None = None


Command = SetCommand | DoCommand


def set_command(name: str, value: Any, who: Who) -> SetCommand:
    """Raises: BadCommand if the name or the value is of no kind that can be sent."""
    return _made(SetCommand, who, name=name, value=value)


def do_command(action: str, who: Who, value: int | None = None) -> DoCommand:
    """Raises: BadCommand if there is no such action, or it takes no such value."""
    if action not in ACTIONS:
        raise BadCommand(
            f"cannot do {shown(action)}: there are {', '.join(ACTIONS)}"
            f"{did_you_mean(action, ACTIONS)}"
        )
    if value is not None and action != "rewind":
        raise BadCommand(f"{action} takes no number, got {shown(value)}")
    return _made(DoCommand, who, do=action, value=value)


def dump(command: Command) -> bytes:
    """Raises: BadCommand if no run would read it, so that nobody waits for its answer."""
    try:
        data = json.dumps(command.model_dump()).encode()
    except ValueError as error:  # an integer of more digits than Python prints
        raise BadCommand(f"value: {in_one_line(error)}") from None
    if len(data) > MAX_BYTES:
        raise BadCommand(f"a command is at most {MAX_BYTES} bytes, got {len(data)}")
    return data


def parse(data: bytes) -> Command:
    """The command in a file's bytes.

    Raises:
      BadCommand: with the reason, in one line.
    """
    fields = read_object(data)
    try:
        return (DoCommand if "do" in fields else SetCommand).model_validate(fields)
    except ValidationError as error:
        raise BadCommand(_first_problem(error)) from None


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in bytes from outside: small, shallow, no key twice, no NaN.

    Raises:
      BadCommand: it is something else; one line says what.
    """
    if len(data) > MAX_BYTES:
        raise BadCommand(f"a command is at most {MAX_BYTES} bytes, got more")
    try:
        fields = json.loads(
            data.decode(), object_pairs_hook=_without_doubles, parse_constant=_no_constant
        )
    except BadCommand:
        raise
    except (ValueError, RecursionError) as error:
        raise BadCommand(f"not JSON: {in_one_line(error)}") from None
    if not isinstance(fields, dict):
        raise BadCommand(f"a command is a JSON object, got {type(fields).__name__}")
    _require_shallow(fields)
    return fields


def _require_shallow(fields: dict[str, Any]) -> None:
    # Before Python 3.13 the parser gives up; since then it reads any depth.
    level: list[Any] = [fields]
    for _ in range(_DEEPEST):
        level = [
            x for value in level for x in (value.values() if isinstance(value, dict) else value)
        ]
        level = [value for value in level if isinstance(value, dict | list)]
    if level:
        raise BadCommand(f"a command has at most {_DEEPEST} levels, got more")


def _made(model: type[Any], who: Who, **fields: Any) -> Any:
    try:
        return model(id=uuid.uuid4().hex, time=time.time(), who=who, **fields)
    except ValidationError as error:
        raise BadCommand(_first_problem(error)) from None


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = str(first["loc"][0]) if first["loc"] else "command"
    if where == "value" and first["loc"][1:]:
        return "value: must be a finite number, a text or a list of names"
    return in_one_line(f"{where}: {first['msg']}")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BadCommand("a key stands twice")
    return fields


def _no_constant(name: str) -> Any:
    raise BadCommand(f"{name} is not a number here")
