"""All members of a population for the page: how far each is, and the live values of all in one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from targetnet.rl_core.board.steer.changes import for_page, read_changes
from targetnet.rl_core.board.steer.runs import PopulationListing, Runs, UnknownRun
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import require_length
from targetnet.rl_core.control.state import LiveValue, RunState, read_state
from targetnet.rl_core.errors import RlCoreError, RunDirError, in_one_line

_SHOWN = (
    "status", "env_id", "env_step", "env_steps", "update", "mean_return",
    "env_steps_per_second", "eta_seconds", "time",
)  # fmt: skip
_MOST_EACH = 100  # members whose own value is told where they differ


class BadPosition(RlCoreError, ValueError):
    """A position in a log that is not written as MEMBER:BYTES."""


class UnreadableMember(NamedTuple):
    """A member whose files cannot be read, and why."""

    problem: str


def show(runs: Runs, population: PopulationListing, positions: Mapping[str, int]) -> dict[str, Any]:
    """Returns what the page shows of a population.

    Args:
      runs: that were found.
      population: one of them.
      positions: member -> byte of its log; its entries from there on are returned too.
    """
    members, states, alive_ones = [], [], []
    for member in by_number(population.members):
        read = _read(runs, population.members[member], positions.get(member))
        shown = {"member": member, "run": population.members[member]}
        if isinstance(read, UnreadableMember):
            members.append(shown | {"alive": False, "status": "damaged", "problem": read.problem})
            continue
        state, alive, answers = read
        told = state.model_dump(include=set(_SHOWN)) | answers
        members.append(shown | {"alive": alive, "problem": None} | told)
        states.append((member, state))
        alive_ones += [(member, state)] if alive else []
    shown_ones = alive_ones or states
    return {
        "now": time.time(),
        "members": members,
        "values": in_one(shown_ones),
        "actions": list(dict.fromkeys(a for _, state in shown_ones for a in state.actions)),
        "token_file": f"{population.path}/m*/control/token",
    }


def in_one(states: Iterable[tuple[str, RunState]]) -> list[dict[str, Any]]:
    """Returns the live values of several members as one list, each value once.

    The fields are those of a single run's value, with these differences: `value`, `source` and
    `configured` are None where members differ; `least` and `most` are the smallest and the largest
    number; `sources` has all sources; `have` of the `of` members have the value; `each` lists the
    members' own values where they differ.
    """
    found: dict[str, list[tuple[str, LiveValue]]] = {}
    of = 0
    for member, state in states:
        of += 1
        for live in {live.name: live for live in state.values}.values():
            found.setdefault(live.name, []).append((member, live))
    return [_value_in_one(lives) | {"have": len(lives), "of": of} for lives in found.values()]


def read_positions(texts: Iterable[str]) -> dict[str, int]:
    """Returns the positions in texts such as m00:1234.

    Raises:
      BadPosition: a text is not of this form.
    """
    positions = {}
    for text in texts:
        member, _, number = text.partition(":")
        if not (number.isascii() and number.isdigit() and len(number) <= 15):
            raise BadPosition(f"a position is written as m00:1234, got {in_one_line(text, 100)}")
        positions[member] = int(number)
    return positions


def by_number(members: Iterable[str]) -> list[str]:
    """Returns m00, m01, ..., m99, m100 in this order."""
    return sorted(members, key=lambda member: (len(member), member))


def _read(
    runs: Runs, name: str, position: int | None
) -> tuple[RunState, bool, dict[str, Any]] | UnreadableMember:
    try:
        files = runs.require(name)
        state, alive = read_state(files)
        # The state first: an entry that a run wrote before it ended is then in the answer.
        answers = {} if position is None else _answers(files, state, position)
    except (UnknownRun, RunDirError) as error:
        return UnreadableMember(str(error))
    return state, alive, answers


def _answers(files: ControlFiles, state: RunState, position: int) -> dict[str, Any]:
    require_length(files.log, state.log_bytes)
    changes = read_changes(files.log, position)
    entries = [for_page(files.run, entry) for entry in changes.entries]
    return {"log": entries, "position": changes.end}


def _value_in_one(lives: list[tuple[str, LiveValue]]) -> dict[str, Any]:
    values = [live.value for _, live in lives]
    first = lives[0][1]
    alike = all(value == values[0] for value in values)
    numbers = [value for value in values if not isinstance(value, list)]
    only_numbers = len(numbers) == len(values)
    return first.model_dump() | {
        "value": values[0] if alike else None,
        "least": min(numbers) if only_numbers else None,
        "most": max(numbers) if only_numbers else None,
        "source": _alike(live.source for _, live in lives),
        "sources": sorted({live.source for _, live in lives}),
        "configured": _alike(live.configured for _, live in lives),
        "each": [] if alike else [(member, live.value) for member, live in lives[:_MOST_EACH]],
    }


def _alike(texts: Iterable[str]) -> str | None:
    """Returns the text that all are, or None."""
    different = set(texts)
    return different.pop() if len(different) == 1 else None
