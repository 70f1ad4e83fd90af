"""The tools of `targetnet mcp`: what an assistant may ask of the runs in a directory.

A run is named as `list_runs` lists it, and looked up among the runs that were found: a name is
never used as a path. The files of a run may be anybody's, so every answer is bounded and every
problem is one line.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from targetnet.agents.cli.steer_commands import number_or_text
from targetnet.rl_core.board.read_events import read_curve
from targetnet.rl_core.board.steer.runs import LogDirectory, Runs
from targetnet.rl_core.board.tags import TAGS
from targetnet.rl_core.control.client import RunClient, ago
from targetnet.rl_core.control.commands import ACTIONS
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import Entry, LogTail
from targetnet.rl_core.control.state import LIVE, RunState, read_state, require_answers
from targetnet.rl_core.errors import RlCoreError, RunDirError, did_you_mean, in_one_line, quoted

_MOST_RUNS, _MOST_ENTRIES, _MOST_POINTS, _MOST_ITEMS = 200, 200, 1_000, 100
_MOST_CHARACTERS, _MOST_OF_ENTRY = 300, 600
_MOST_LOG_BYTES = 1 << 22  # of the entries that are read; a real one has some hundred
_PROGRESS = (
    "env_id", "env_step", "env_steps", "update", "env_steps_per_second", "eta_seconds",
    "episodes", "mean_return", "target_age", "next_copy", "note",
)  # fmt: skip


# The schema tells an assistant which actions there are; the command says what is wrong with others.
_Action = Annotated[str, Field(json_schema_extra={"enum": [*ACTIONS]})]
_Value = StrictInt | StrictFloat | StrictStr | list[StrictStr]


class NoSuchRun(RlCoreError, LookupError):
    """A name that is no run's."""


class Tools:
    """The runs below one directory, for an assistant.

    Args:
      directory: of runs, or one run, whose name is then ".".
      timeout: seconds to wait for a run's answer.
    """

    def __init__(self, directory: Path, timeout: float = 30.0) -> None:
        self._runs = Runs([LogDirectory("", directory)])
        self._timeout = timeout

    def list_runs(self) -> dict[str, Any]:
        """Lists the runs, those at work first: how far each is, and its mean return.

        Begin here: all other tools take a name from this list.
        """
        found, problems = [], dict(self._runs.problems())
        for name, files in self._runs.all().items():
            try:
                state, alive = read_state(files)
            except RlCoreError as error:
                problems[name] = str(error)
                continue
            found.append((not alive, -state.time, name, state))
        listed = [
            {"run": name, "status": _status(state, not over)} | _progress(state)
            for over, _, name, state in sorted(found, key=lambda run: run[:3])[:_MOST_RUNS]
        ]
        damaged = [{"run": name, "problem": why} for name, why in sorted(problems.items())]
        hidden = len(found) - len(listed)
        return _bounded({"runs": listed, "not_listed": hidden, "damaged": damaged}, _MOST_RUNS)

    def status(self, run: str) -> dict[str, Any]:
        """Shows one run: its progress, the last point of each curve, and all its live values.

        Each live value comes with its present value, its source (config, schedule or override),
        unit, bounds, meaning, and the moment from which a change is felt.
        """
        state, alive = read_state(self._files(run))
        kept = ("name", "value", "source", "configured", "unit", "bounds", "meaning", "effect")
        values = [value.model_dump(include=set(kept)) for value in state.values]
        answer = {"run": run, "status": _status(state, alive)} | _progress(state)
        return _bounded(answer | {"curves": state.recent, "live_values": values})

    def curve(self, run: str, tag: str, points: int = 200) -> dict[str, Any]:
        """Shows one curve of a run as [env step, value] pairs, evenly thinned out.

        Args:
          run: a name from list_runs.
          tag: such as episode/return, evaluation/return, learn/loss, learn/q_mean, target/age,
            or live/NAME for a live value; status lists those of a run.
          points: how many at most, from 2 to 1000.
        """
        if not 2 <= points <= _MOST_POINTS:
            raise RlCoreError(f"points must be from 2 to {_MOST_POINTS:,}, got {quoted(points)}")
        files = self._files(run)
        curve = read_curve(files.run, tag, most=points)
        if not curve.found:
            known = [*read_state(files)[0].recent, *(t.name for t in TAGS if t.kind == "scalar")]
            raise RlCoreError(f"{run} has no curve {quoted(tag)}{did_you_mean(tag, known)}")
        return {
            "run": run,
            "tag": tag,
            "points": [[env_step, _json(value)] for env_step, value in curve.points],
            "thinned_out_from": curve.found,
            "smallest": curve.low,
            "largest": curve.high,
            "complete": curve.whole,
        }

    def log(self, run: str, last: int = 50) -> dict[str, Any]:
        """Shows the last changes and actions that were asked of a run, accepted or refused.

        Args:
          run: a name from list_runs.
          last: how many, from 1 to 200.
        """
        if not 1 <= last <= _MOST_ENTRIES:
            raise RlCoreError(f"last must be from 1 to {_MOST_ENTRIES:,}, got {quoted(last)}")
        files = self._files(run)
        require_answers(files)
        tail = LogTail(files.log, last=last)
        size = files.log.lstat().st_size if os.path.lexists(files.log) else 0
        if size - tail.position > _MOST_LOG_BYTES:
            raise RunDirError(f"the log of {run} is damaged: its entries are too long")
        return {"run": run, "entries": [_entry(entry) for entry in tail.new()]}

    def set(self, run: str, name: str, value: _Value) -> dict[str, Any]:
        """Changes a live value of a run that is at work; it is in force at the next safe point.

        The change is checked, and logged as a person's would be. A refusal says why.

        Args:
          run: a name from list_runs.
          name: of a live value, such as sync_period or learning_rate; see status.
          value: the new one; "auto" goes back to the config's value or schedule; blocks for
            `exempt` are a list of names.
        """
        given = number_or_text(value) if isinstance(value, str) else value
        return _entry(self._client(run).set(name, given))

    def do(
        self, run: str, action: _Action, value: StrictInt | StrictFloat | StrictStr | None = None
    ) -> dict[str, Any]:
        """Lets a run that is at work do something.

        Args:
          run: a name from list_runs.
          action: ACTIONS
          value: what follows it: 2 for `rewind 2`, "head" for `reset head`, 0.8 for `perturb 0.8`,
            "0.8 torso" for `perturb 0.8 torso`; nothing for most.
        """
        given = number_or_text(value) if isinstance(value, str) else value
        return _entry(self._client(run).do(action, given))

    def _client(self, run: str) -> RunClient:
        return RunClient(self._files(run).run, who="mcp", timeout=self._timeout)

    def _files(self, run: str) -> ControlFiles:
        files = self._runs.get(run)
        if files is not None:
            return files
        if problem := self._runs.problems().get(run):
            raise RunDirError(problem)
        raise NoSuchRun(f"no run {quoted(run)} here{did_you_mean(run, self._runs.all())}")


Tools.do.__doc__ = (Tools.do.__doc__ or "").replace(
    "ACTIONS", "; ".join(f"{name}: {meaning}" for name, meaning in ACTIONS.items())
)


def _status(state: RunState, alive: bool) -> str:
    return state.status if alive or state.status not in LIVE else "killed"


def _progress(state: RunState) -> dict[str, Any]:
    return state.model_dump(include=set(_PROGRESS)) | {"last_heartbeat": ago(state.time)}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "taken": entry.taken,
        "text": in_one_line(entry.describe(), _MOST_OF_ENTRY),
        "who": in_one_line(entry.who),
        "when": ago(entry.time),
        "env_step": entry.env_step,
        "update": entry.update,
    }


def _bounded(value: Any, most: int = _MOST_ITEMS) -> Any:
    """Returns JSON data with short texts, and with at most so many items in each list."""
    if isinstance(value, str):
        return in_one_line(value, _MOST_CHARACTERS)
    if isinstance(value, Mapping):
        return {_bounded(k): _bounded(v, most) for k, v in list(value.items())[:most]}
    if isinstance(value, list | tuple):
        return [_bounded(item, most) for item in value[:most]]
    return value


def _json(value: float) -> float | str:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else str(value)


READING = ("list_runs", "status", "curve", "log")
STEERING = ("set", "do")
