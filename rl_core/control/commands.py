"""Commands to a run: set a live value, or run an action.

Commands come from outside, so strict models parse them: unknown or repeated keys, NaN, infinities,
booleans as numbers and oversized files are refused with a reason.

Actions on the weights are followed by arguments:

    reset BLOCK                  perturb FACTOR [BLOCK]               recycle [THRESHOLD] [BLOCK]
"""

from __future__ import annotations

import json
import math
import time
import uuid
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from targetnet.rl_core.errors import BoundsError, RlCoreError, did_you_mean, in_one_line, quoted

WEIGHT_ACTIONS = ("reset", "perturb", "recycle")
ALL_BLOCKS = "all"
THRESHOLD = 0.1  # score up to which `recycle` takes a unit for dormant, if no other is given
_WANTED = {
    "reset": "the name of a block, as in `reset head`, or `reset all`",
    "perturb": "a factor above 0 and below 1, then perhaps a block, as in `perturb 0.8` or "
    "`perturb 0.8 torso`",
    "recycle": "perhaps a threshold >= 0, then perhaps a block, as in `recycle`, `recycle 0.1` or "
    "`recycle 0.1 torso`",
}


class ActionArguments(NamedTuple):
    """The words after an action on the weights.

    Attributes:
      number: factor of `perturb`, threshold of `recycle`; None for `reset`.
      block: name of a block; `all` for all blocks.
    """

    number: float | None
    block: str


def words_of(action: str, value: Any) -> ActionArguments:
    """Parses what follows one of WEIGHT_ACTIONS; whether the block exists only its agent knows.

    Args:
      value: a number, a text such as "0.8 torso", or None.

    Raises:
      BoundsError: a word is missing, out of bounds, or too many; says what is wanted.
    """
    words = [] if value is None else value.split() if isinstance(value, str) else [value]
    number = _number(words[0]) if words and action != "reset" else None
    blocks = words if number is None else words[1:]
    if action == "recycle" and number is None:
        number = THRESHOLD
    block = blocks[0] if blocks else None if action == "reset" else ALL_BLOCKS
    if len(blocks) > 1 or not isinstance(block, str) or not _is_within(action, number):
        raise BoundsError(f"{action} takes {_WANTED[action]}, got {_given(value)}")
    return ActionArguments(number, block)


def as_value(number: float | None, block: str | None) -> Any:
    """Returns the value of a command with this number and this block, each of which may be None."""
    if block is None:
        return number
    return block if number is None else f"{number!r} {block}"


def _is_within(action: str, number: float | None) -> bool:
    if action == "reset":
        return True
    return number is not None and (0 < number < 1 if action == "perturb" else number >= 0)


def _number(word: Any) -> float | None:
    """Returns the finite number that a word is; None for another word."""
    try:
        number = float(word)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and not isinstance(word, bool) else None


def _given(value: Any) -> str:
    return "nothing" if value is None else quoted(value)


Action = Literal[
    "sync", "snapshot", "rewind", "reset", "perturb", "recycle", "checkpoint", "evaluate", "pause",
    "resume", "stop",
]  # fmt: skip
ACTIONS: dict[Action, str] = {
    "sync": "copies online to target now, with a hard copy for any tau; the target's age becomes 0",
    "snapshot": "keeps both networks, the optimizer and the target's age in memory; the run also "
    "takes a snapshot before each change of a live value, and before reset, perturb and recycle",
    "rewind": "`rewind K` restores the K-th last snapshot (K is 1 by default); counters, replay "
    "and live values stay unchanged, and the state before the rewind becomes the last snapshot",
    "reset": "`reset BLOCK` draws the weights of a block anew, in every copy of the network, and "
    "makes its optimizer new; `reset all` for all blocks",
    "perturb": "`perturb A` or `perturb A BLOCK`: shrink and perturb; each weight becomes A times "
    "itself plus (1 - A) times a newly drawn one, in every copy of the network, with 0 < A < 1",
    "recycle": "`recycle`, `recycle T` or `recycle T BLOCK`: ReDo; hidden units whose score is at "
    "most T (0.1 by default) get new incoming weights, and outgoing weights 0",
    "checkpoint": "writes a checkpoint now; the run does not wait for the disk",
    "evaluate": "plays the greedy policy on separate envs, without any effect on training; the "
    "answer comes when the evaluation begins, the return appears later in the run's terminal and "
    "in `evaluation/return`",
    "pause": "stops stepping and learning, and waits without using the processor",
    "resume": "continues a paused run; every bit is the same as without the pause",
    "stop": "ends the run now; saves weights, checkpoint and digest, without a final evaluation",
}
Who = Literal["cli", "board", "api", "mcp"]
MAX_BYTES = 16_384  # per command; a real command has about 150
_DEEPEST = 8  # nested lists and objects; a real command has two levels


class BadCommand(RlCoreError, ValueError):
    """A command that cannot be read."""


Name = Annotated[str, Field(min_length=1, max_length=100)]
Text = Annotated[str, Field(max_length=1_000)]
Value = int | FiniteFloat | Text | Annotated[list[Name], Field(max_length=100)]


class _SentCommand(BaseModel):
    # Without `strict`, pydantic would accept `true` as the number 1.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    time: FiniteFloat  # seconds since the epoch at which the command was made
    who: Who


class SetCommand(_SentCommand):
    """A command that sets a live value; "auto" returns to the config's value or schedule."""

    name: Name
    value: Value

    @property
    def what(self) -> tuple[str, str]:
        """Its kind and name in the log."""
        return "set", self.name


class DoCommand(_SentCommand):
    """A command that runs an action.

    Attributes:
      value: number of snapshots for `rewind`; for an action on the weights what
        `words_of` writes; None for all others.
    """

    do: Action
    value: int | FiniteFloat | Text | None = None

    @property
    def what(self) -> tuple[str, str]:
        """Its kind and name in the log."""
        return "do", self.do


Command = SetCommand | DoCommand


def set_command(name: str, value: Any, who: Who) -> SetCommand:
    """Returns the command that sets a live value.

    Raises:
      BadCommand: a name or value of this type cannot be sent.
    """
    return _made(SetCommand, who, name=name, value=value)


def do_command(action: str, who: Who, value: float | str | None = None) -> DoCommand:
    """Returns the command that runs an action.

    Args:
      value: what follows it: 2 for `rewind`, "head" for `reset`, 0.8 or "0.8 torso" for `perturb`.

    Raises:
      BadCommand: there is no such action, or the action does not take this value.
    """
    if action not in ACTIONS:
        raise BadCommand(
            f"cannot do {quoted(action)}: there are {', '.join(ACTIONS)}"
            f"{did_you_mean(action, ACTIONS)}"
        )
    command: DoCommand = _made(DoCommand, who, do=action, value=value)
    return _checked(command)


def dump(command: Command) -> bytes:
    """Returns the bytes of a command's file.

    Raises:
      BadCommand: the command is too large; a run would refuse it.
    """
    try:
        data = json.dumps(command.model_dump()).encode()
    except ValueError as error:  # an integer with more digits than Python prints
        raise BadCommand(f"value: {in_one_line(error)}") from None
    if len(data) > MAX_BYTES:
        raise BadCommand(f"a command is at most {MAX_BYTES} bytes, got {len(data)}")
    return data


def parse_command(data: bytes) -> Command:
    """Returns the command in a file's bytes.

    Raises:
      BadCommand: the bytes are no valid command; the message gives the reason in one line.
    """
    fields = read_object(data)
    try:
        if "do" in fields:
            return _checked(DoCommand.model_validate(fields))
        return SetCommand.model_validate(fields)
    except ValidationError as error:
        raise BadCommand(_first_problem(error)) from None


def _checked(command: DoCommand) -> DoCommand:
    """Returns a command whose value fits its action."""
    action, value = command.do, command.value
    if action in WEIGHT_ACTIONS:
        try:
            words_of(action, value)
        except BoundsError as error:
            raise BadCommand(str(error)) from None
    elif action == "rewind":
        if value is not None and (not isinstance(value, int) or value < 1):
            raise BadCommand(f"rewind takes a whole number of snapshots >= 1, got {quoted(value)}")
    elif value is not None:
        raise BadCommand(f"{action} takes nothing after it, got {quoted(value)}")
    return command


def read_object(data: bytes) -> dict[str, Any]:
    """Returns the JSON object in bytes from outside.

    Raises:
      BadCommand: the bytes are no JSON object, too large or too deeply nested, or contain a
        repeated key or NaN.
    """
    if len(data) > MAX_BYTES:
        raise BadCommand(f"a command is at most {MAX_BYTES} bytes, got more")
    try:
        fields = json.loads(
            data.decode(), object_pairs_hook=_refuse_repeated_keys, parse_constant=_refuse_constant
        )
    except BadCommand:
        raise
    except (ValueError, RecursionError) as error:
        raise BadCommand(f"not JSON: {in_one_line(error)}") from None
    if not isinstance(fields, dict):
        raise BadCommand(f"a command is a JSON object, got {type(fields).__name__}")
    require_shallow(fields)
    return fields


def require_shallow(fields: dict[str, Any]) -> None:
    """Checks that lists and objects are not nested too deep.

    Raises:
      BadCommand: they are.
    """
    # Before Python 3.13 the parser raises RecursionError; from 3.13 on it reads any depth.
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


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BadCommand("a key appears twice")
    return fields


def _refuse_constant(name: str) -> Any:
    raise BadCommand(f"{name} is not allowed as a number")
