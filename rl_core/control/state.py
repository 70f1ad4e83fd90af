"""The published state of a run: `control/state.json`, replaced once a second and after commands."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from targetnet.rl_core.control.files import ControlFiles, is_alive
from targetnet.rl_core.control.log import require_length
from targetnet.rl_core.errors import RunDirError, in_one_line, reason_of
from targetnet.rl_core.files import read_regular, write_whole, writing
from targetnet.rl_core.hyperparameters import BlocksKnob, Hyperparameters, Knob, as_text, plain

RunStatus = Literal[
    "running", "paused", "evaluating", "finished", "stopped", "interrupted", "failed"
]
LIVE: tuple[RunStatus, ...] = ("running", "paused", "evaluating")  # the process is at work
_MOST_BYTES = 1 << 20  # largest accepted state; a real one has about ten thousand bytes
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Moment = Annotated[FiniteFloat, Field(ge=0, le=1e11)]  # seconds since the epoch


class LiveValue(BaseModel):
    """One live value: its present value, and all that a user interface needs to show and set it."""

    model_config = ConfigDict(defer_build=True)

    name: str
    value: FiniteFloat | int | list[str]
    source: Literal["config", "schedule", "override"]
    configured: str  # the config's value or schedule, which "auto" restores
    unit: str
    bounds: str
    meaning: str
    effect: str
    whole: bool
    low: FiniteFloat | None  # the bounds as numbers; `bounds` says if they are included
    high: FiniteFloat | None
    scale: Literal["linear", "log"]
    blocks: list[str]  # all blocks, if the value is a set of blocks; empty for a number


class RunState(BaseModel):
    """The state of a run at one moment.

    Attributes:
      time: time of the publication; the run's heartbeat.
      env_steps: planned env steps of the whole run.
      recent: tag -> [env step, value], the last point of some curves.
      actions: actions that the run accepts.
      next_copy: what will copy the target next, such as "at age 500".
      log_bytes: length of the run's log at this moment.
      note: further information, such as "repeats runs/cartpole-1".
    """

    model_config = ConfigDict(defer_build=True)

    status: RunStatus
    pid: _Count
    host: str
    started: _Moment
    time: _Moment
    env_id: str
    tick: _Count
    env_step: _Count
    env_steps: _Count
    update: _Count
    env_steps_per_second: FiniteFloat
    eta_seconds: FiniteFloat | None
    episodes: _Count
    mean_return: FiniteFloat | None  # over the last episodes
    target_age: _Count | None
    recent: dict[str, tuple[_Count, FiniteFloat | None]]
    values: list[LiveValue]
    actions: list[str]
    next_copy: str | None = None
    log_bytes: _Count = 0
    note: str | None = None


class StatePublisher:
    """A writer of a run's state, due once every `period` seconds."""

    def __init__(self, files: ControlFiles, live: Hyperparameters, period: float = 1.0) -> None:
        self._files, self._live, self._period = files, live, period
        self._next = -math.inf
        self._fixed = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.time()}
        self._knobs = [_described(knob) for knob in live.knobs.values()]

    def due(self, now: float) -> bool:
        """Returns True if the state should be published; `now` is from time.monotonic."""
        return now >= self._next

    def publish(self, report: Mapping[str, Any]) -> None:
        """Writes the state.

        Args:
          report: the fields of RunState that this class does not know.

        Raises:
          RunDirError: the file cannot be written.
        """
        self._next = time.monotonic() + self._period
        state = self._fixed | {"time": time.time(), "values": self._values()} | dict(report)
        try:
            data = json.dumps(state, allow_nan=False)
        except ValueError:  # some number is NaN, such as a loss; browsers' JSON has no NaN
            data = json.dumps(_without_nan(state))
        with writing(self._files.state):
            # No fsync: a power cut ends the run too, and then its state is worthless.
            write_whole(self._files.state, data.encode(), durable=False)

    def _values(self) -> list[dict[str, Any]]:
        """Returns the fields of LiveValue for every live value."""
        live = self._live
        return [
            knob
            | {
                "value": plain(live[knob["name"]]),
                "source": live.source(knob["name"]),
                "configured": as_text(live.configured(knob["name"])),
            }
            for knob in self._knobs
        ]


def read_state(files: ControlFiles) -> tuple[RunState, bool]:
    """Returns the last state, and True if the run is alive.

    Raises:
      RunDirError: the state is missing, damaged or cannot be read.
    """
    path = in_one_line(files.state, 200)
    try:
        state = RunState.model_validate_json(read_regular(files.state, most=_MOST_BYTES))
    except FileNotFoundError:
        run, name = in_one_line(files.run, 200), files.state.relative_to(files.run)
        raise RunDirError(f"{run} cannot be steered: it has no {name}") from None
    except ValidationError:
        raise RunDirError(f"{path} is damaged: it is no state of a run") from None
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
    return state, is_alive(files)


def require_answers(files: ControlFiles) -> None:
    """Checks that the log is at least as long as when the state was published.

    Raises:
      RunDirError: the log is shorter.
    """
    length = 0
    with contextlib.suppress(RunDirError):  # no state yet: the run may not have begun
        length = read_state(files)[0].log_bytes
    require_length(files.log, length)


def _described(knob: Knob | BlocksKnob) -> dict[str, Any]:
    """Returns the fields of LiveValue that never change."""
    fixed = {
        "name": knob.name,
        "unit": knob.unit,
        "bounds": knob.bounds,
        "meaning": knob.meaning,
        "effect": knob.effect,
        "whole": knob.whole,
    }
    if isinstance(knob, BlocksKnob):
        return fixed | {"low": None, "high": None, "scale": "linear", "blocks": knob.blocks}
    low = knob.at_least if knob.above is None else knob.above
    high = knob.at_most if knob.below is None else knob.below
    # For periods, rates and other positive values the ratio of a change matters: a log scale.
    by_ratio = knob.above == 0 or (low is not None and low >= 1 and high is None)
    scale = "log" if by_ratio else "linear"
    return fixed | {"low": low, "high": high, "scale": scale, "blocks": []}


def _without_nan(value: Any) -> Any:
    """Returns a copy with None in place of every NaN and infinity."""
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
