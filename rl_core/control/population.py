"""A population's directory, and the exchanges between its members.

    runs/cartpole-1/population.toml
    runs/cartpole-1/m00/config.toml ...
    runs/cartpole-1/exchanges/0001.json, 0002.json ...
    runs/cartpole-1/change.json               while a resume changes its members

`population.toml` is written before any member's config, and after the weights that members begin
with, so that a population that was killed at any moment can go on.

An exchange says who copied whom, and which live values changed. Its file appears whole, before
anybody carries out what it says: it is the one decision for all members, and what a member's log
lacks of it after a crash follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.timetable import PBT
from targetnet.rl_core.errors import RunDirError, in_one_line, reason_of
from targetnet.rl_core.files import (
    clear_unfinished,
    read_regular,
    sync_directory,
    write_whole,
    writing,
)
from targetnet.rl_core.seal import sealed_json, unsealed_json
from targetnet.rl_core.validation import first_error

POPULATION = "population.toml"
CHANGE = "change.json"
MEMBER = r"^m[0-9]{2,4}$"


def is_population(path: Path) -> bool:
    """Says whether a population lies there."""
    return (path / POPULATION).is_file()


def is_member_name(name: str) -> bool:
    """Says whether a member's directory may have this name, such as m00."""
    return re.fullmatch(MEMBER, name) is not None


def member_dirs(path: Path) -> list[Path]:
    """Returns the directories of a population's members, by number."""
    return sorted(of for of in path.iterdir() if is_member_name(of.name) and of.is_dir())


def name_a_member(path: Path) -> str:
    """Returns the end of a message about a population where a run is wanted."""
    first = next(iter(member_dirs(path)), path / "m00")
    return f"{path} is a population: name one of its members, such as {first}"


_DIRECTORY = "exchanges"
_MOST_BYTES = 1 << 22  # of one exchange; a member takes about 400
_ID = re.compile(r"pbt-(\d{1,9})-\w+", re.ASCII)  # of entries in the members' logs
_NAME = re.compile(r"\d{4,9}\.json", re.ASCII)
Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[int, Field(ge=1, lt=10**9)]
Member = Annotated[str, Field(pattern=MEMBER)]


class _ExchangeModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class CopyOf(_ExchangeModel):
    """A member's copy of another one; the value of its log entry `copy`.

    Attributes:
      exchange: its number.
      member: who was copied, after `update` updates of its own.
      file: digest of the file that keeps what was copied.
    """

    exchange: Number
    member: Member
    update: Count
    file: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def copy_in(entry: Entry) -> CopyOf | None:
    """Returns the copy that an entry of a log says was made; None if it is of something else.

    Raises:
      RunDirError: it says so, but not of what.
    """
    if entry.kind != "do" or entry.name != "copy" or not entry.taken:
        return None
    return copy_of(entry.value)


def copy_of(value: Any) -> CopyOf:
    """Returns the copy that is the value of an entry `copy`.

    Raises:
      RunDirError: it is none.
    """
    try:
        return CopyOf.model_validate(value)
    except ValidationError as error:
        raise RunDirError(f"the log has a copy that is none: {first_error(error)}") from None


def number_in(entry: Entry) -> int | None:
    """Returns the number of the exchange that an entry is of; None if it is of none."""
    match = _ID.fullmatch(entry.id)
    return int(match[1]) if match and entry.who == PBT else None


class LentTo(_ExchangeModel):
    """The members that copied this one; the value of its log entry `lend`."""

    exchange: Number
    members: list[Member]


class MemberRecord(_ExchangeModel):
    """A member's part in an exchange.

    Attributes:
      tick, env_step, update: where it stood.
      score: None if it had none; then it neither copied nor was copied.
      copies: whom it copied.
      values: the live values that it has from then on, of those that changed.
      lent: who copied it.
    """

    tick: Count
    env_step: Count
    update: Count
    score: FiniteFloat | None
    copies: CopyOf | None = None
    values: dict[str, int | FiniteFloat] = {}
    lent: LentTo | None = None


class Exchange(_ExchangeModel):
    """One exchange.

    Attributes:
      number: from 1 on.
      time: when it was decided, in seconds since the epoch.
      members: name -> part, of those that took part.
    """

    number: Number
    time: Annotated[FiniteFloat, Field(ge=0, le=1e11)]
    members: dict[Member, MemberRecord]

    def entries(self, member: str) -> list[Entry]:
        """Returns what the log of a member says of this exchange."""
        part = self.members.get(member)
        if part is None:
            return []
        changes = [("do", "lend", part.lent), ("do", "copy", part.copies)]
        values = [(kind, name, of.model_dump()) for kind, name, of in changes if of is not None] + [
            ("set", name, value) for name, value in part.values.items()
        ]
        return [
            Entry(
                id=f"pbt-{self.number}-{name}", asked=self.time, time=self.time, who=PBT,
                kind=kind, name=name, value=value,
                tick=part.tick, env_step=part.env_step, update=part.update,
            )
            for kind, name, value in values
        ]  # fmt: skip

    def copies(self) -> Iterator[tuple[str, CopyOf]]:
        """Yields the members that copied another one, and whom."""
        for name, part in self.members.items():
            if part.copies is not None:
                yield name, part.copies


class ExchangeRecord:
    """The exchanges that a population has made.

    Args:
      population: its directory.

    Attributes:
      all: the exchanges, by their numbers.

    Raises:
      RunDirError: one is missing or damaged.
    """

    def __init__(self, population: Path) -> None:
        self._directory = population / _DIRECTORY
        self.all = [self._read(number) for number in self._numbers()]

    def append(self, exchange: Exchange) -> None:
        """Writes the next exchange; after the return it survives a power cut.

        Raises:
          RunDirError: it cannot be written; then it was not made.
        """
        assert exchange.number == len(self.all) + 1
        path = self._path(exchange.number)
        with writing(path):
            self._directory.mkdir(exist_ok=True)
            write_whole(path, sealed_json(exchange.model_dump()))
            sync_directory(self._directory)
            sync_directory(self._directory.parent)
        self.all.append(exchange)

    def of(self, member: str) -> list[Exchange]:
        """Returns the exchanges in which a member took part."""
        return [exchange for exchange in self.all if member in exchange.members]

    def clear_leftovers(self) -> None:
        """Removes unfinished files that a killed process has left."""
        clear_unfinished(self._directory)

    def _numbers(self) -> list[int]:
        try:
            names = [path.name for path in self._directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunDirError(f"cannot read {self._directory}: {error.strerror}") from None
        there = {int(name.split(".")[0]) for name in names if _NAME.fullmatch(name)}
        for number in range(1, max(there, default=0)):
            if number not in there:
                raise RunDirError(f"{self._directory} is damaged: {number:04}.json is missing")
        return sorted(there)

    def _read(self, number: int) -> Exchange:
        path = self._path(number)
        try:
            fields = unsealed_json(read_regular(path, most=_MOST_BYTES))
            exchange = Exchange.model_validate(fields)
            if exchange.number != number:
                raise ValueError(f"it is exchange {exchange.number}")
        except ValidationError as error:
            raise RunDirError(
                f"{in_one_line(path, 200)} is damaged: {first_error(error)}"
            ) from None
        except (OSError, ValueError) as error:
            raise RunDirError(f"cannot use {in_one_line(path, 200)}: {reason_of(error)}") from None
        return exchange

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:04}.json"
