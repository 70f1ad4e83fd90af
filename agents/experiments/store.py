"""Finished runs in a file of JSON lines. Pages are made of them, so run directories may be deleted.

A line has the settings of an agent, or a seed that was trained with the settings above it:

    {"agent": "cartpole", "env_id": "CartPole-v1", "settings": {...}, "source": null, "seal": "..."}
    {"agent": "cartpole", "seed": 3000, "env_steps": 50000, "mean": 500.0, ..., "seal": "..."}
"""

from __future__ import annotations

import contextlib
import math
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from targetnet.agents.config.combinations import without_replay_keys
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.report import versions
from targetnet.agents.saved.directory import RunDir, read_result
from targetnet.agents.saved.machines import processor_of
from targetnet.rl_core.board.read_events import Points, read_curves
from targetnet.rl_core.control.files import FileLock
from targetnet.rl_core.errors import RunDirError, quoted, reason_of
from targetnet.rl_core.files import append_whole, read_regular, writing
from targetnet.rl_core.seal import SealError, sealed_row, unsealed_row

TRAINING_EPISODES = 100  # last training episodes that `--training` averages
EVALUATION, _EPISODE = "evaluation/return", "episode/return"
# Curves that somebody who looks at a run sees, and may go by.
SIGNS = (
    "learn/loss", "learn/td_error_mean_abs", "learn/q_mean", "learn/q_max", "learn/gradient_norm",
    "target/distance",
)  # fmt: skip
_MOST_BYTES = 1 << 30
# Settings that change no score.
_OF_THE_MACHINE = (
    "seed", "check_env", "checkpoint_seconds", "checkpoint_steps", "checkpoint_keep", "log_to",
)  # fmt: skip
_OF_AGENT = {"agent", "env_id", "settings", "source"}  # fields that stand in a line of their own

_Count = Annotated[int, Field(ge=0, lt=1 << 53)]
_Quarters = Annotated[list[FiniteFloat | None], Field(min_length=4, max_length=4)]


class FinishedRun(BaseModel):
    """One seed of an agent of ours or of a peer's.

    Attributes:
      agent: name of the config, or of the arm; it is one agent within a file.
      settings: of the agent, without the seed.
      source: address of the settings of a peer; None if they are its own defaults, or ours.
      mean, std, low, high: statistics of the undiscounted returns of the final greedy episodes;
        rows of `targetnet compare` before version 0.3 have the mean alone.
      curve: (env step, mean greedy return) during training, with the final one.
      seconds: time of training without evaluations; None if it was not recorded.
      training: mean return of the last training episodes; None if unknown.
      returns: of the final greedy episodes; None if they were not recorded.
      cut: number of final greedy episodes that were cut off at the config's `eval_max_steps`.
      training_curve: at the same env steps as `curve`, the mean return of the training episodes
        that ended since the point before; without points between which none ended.
      signs: tag of a curve in TensorBoard -> its mean in each quarter of the run; None where it
        has no point, or numbers without end.
      digest: of the end of its training; empty if it has none.
      versions: of Python and of the packages that decide a result.
    """

    model_config = ConfigDict(extra="forbid")

    agent: str
    env_id: str
    settings: dict[str, Any]
    source: str | None = None
    seed: int
    env_steps: _Count
    updates: _Count
    mean: FiniteFloat
    std: FiniteFloat | None = None
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    curve: list[tuple[_Count, FiniteFloat]]
    seconds: FiniteFloat | None = None
    training: float | None = None
    returns: list[float] | None = None
    cut: int = 0
    training_curve: list[tuple[int, float]] = []
    signs: dict[str, _Quarters] = {}
    digest: str = ""
    versions: dict[str, str]
    processor: str
    date: str


def read_run(run: Path, agent: str, config: DqnConfig) -> FinishedRun | None:
    """Reads the scores of a run directory; returns None if the run is not finished.

    Args:
      run: the directory.
      agent: name of the agent in a file.
      config: of the run.

    Raises:
      RunDirError: the run's files are damaged.
    """
    directory = RunDir(run)
    if not directory.has_result():
        return None
    result = read_result(run)
    curves = read_curves(run, [EVALUATION, _EPISODE, *SIGNS])
    curve = dict(curves[EVALUATION]) | {result.env_steps: result.mean}
    episodes = [value for _, value in curves[_EPISODE]][-TRAINING_EPISODES:]
    return FinishedRun(
        agent=agent,
        env_id=config.env_id,
        settings=settings_of(config),
        seed=config.seed,
        env_steps=result.env_steps,
        updates=result.updates,
        mean=result.mean,
        std=result.std,
        low=result.min,
        high=result.max,
        curve=sorted(curve.items()),
        seconds=result.seconds,
        training=float(np.mean(episodes)) if episodes else None,
        returns=result.returns,
        cut=result.cut,
        training_curve=[*_means_up_to(sorted(curve), curves[_EPISODE]).items()],
        signs=quarters_of({tag: curves[tag] for tag in SIGNS}, result.env_steps),
        digest=directory.load_digest().digest if directory.has_digest() else "",
        versions=versions(),
        processor=processor_of(run),
        date=time.strftime("%Y-%m-%d"),
    )


def settings_of(config: DqnConfig) -> dict[str, Any]:
    """Returns the settings on which a score depends, but for the seed."""
    settings = config.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in settings.items() if name not in _OF_THE_MACHINE}


def quarters_of(curves: Mapping[str, Points], env_steps: int) -> dict[str, list[float | None]]:
    """Returns the mean of each curve in each quarter of a run of this length."""
    found = {}
    for tag, curve in curves.items():
        parts: list[list[float]] = [[], [], [], []]
        for step, value in curve:
            parts[min(4 * step // env_steps, 3)].append(value)
        means = [float(np.mean(part)) if part else math.nan for part in parts]
        found[tag] = [mean if math.isfinite(mean) else None for mean in means]
    return found


def _means_up_to(points: Sequence[int], curve: Points) -> dict[int, float]:
    """Returns the mean of a curve's values between one point and the next, by the latter."""
    values: dict[int, list[float]] = {}
    for step, value in curve:
        at = bisect_left(points, step)
        if at < len(points):
            values.setdefault(points[at], []).append(value)
    return {point: float(np.mean(of)) for point, of in values.items()}


class ResultStore:
    """The finished runs in a file.

    Args:
      path: of the file, which need not be there. In its place are read the rows that version 0.2
        kept as a directory of files, if there is one of the same name without the ending.

    Attributes:
      path: the same.

    Raises:
      RunDirError: a line is damaged, or the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._agents: dict[str, dict[str, Any]] = {}  # the last line of settings of each
        self._runs: dict[str, dict[int, FinishedRun]] = {}
        older = path.with_suffix("")
        if not path.exists() and older.is_dir():
            self.add(*_rows_of_version_0_2(older))
        self._load()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Holds the file, which only one process may add to; reads what others have added.

        Raises:
          RunDirError: another process holds it, or it cannot be written.
        """
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path, f"another process adds finished runs to {self.path}")
        try:
            self._load()
            yield
        finally:
            lock.release()

    def runs(self, agent: str) -> Mapping[int, FinishedRun]:
        """Returns the finished runs of an agent by their seeds."""
        return self._runs.get(agent, {})

    def add(self, *runs: FinishedRun) -> None:
        """Adds finished runs, all or none.

        Raises:
          RunDirError: the file cannot be written.
        """
        if not runs:
            return
        lines, agents = [], dict(self._agents)
        for run in runs:
            of_agent = run.model_dump(include=_OF_AGENT)
            if agents.get(run.agent) != of_agent:
                agents[run.agent] = of_agent
                lines.append(of_agent)
            of_seed = run.model_dump(exclude=_OF_AGENT, exclude_defaults=True)
            lines.append({"agent": run.agent} | of_seed)
        append_rows(self.path, lines)
        self._agents = agents
        for run in runs:
            self._runs.setdefault(run.agent, {})[run.seed] = run

    def require_same_settings(
        self, agent: str, config: DqnConfig, seeds: Collection[int] | None = None
    ) -> None:
        """Checks that an agent's seeds were trained with a config.

        A key that the file lacks is newer than the file. Its default is what was done before it
        was there.

        Args:
          seeds: those that are looked at; None: all.

        Raises:
          RunDirError: one was trained with another config.
        """
        runs = [of for of in self.runs(agent).values() if seeds is None or of.seed in seeds]
        # Seeds have their settings in common, so most are looked at once.
        for settings in {id(of.settings): of.settings for of in runs}.values():
            now, default = settings_of(config), settings_of(DqnConfig())
            for name in without_replay_keys(now):
                there = settings.get(name, default.get(name))
                if there != now[name]:
                    raise RunDirError(
                        f"{self.path}: {agent} is of another config: {name} is {quoted(there)} "
                        f"there, not {quoted(now[name])}. Delete its lines to train it again, or "
                        "give another --rows"
                    )

    def _load(self) -> None:
        self._agents.clear()
        self._runs.clear()
        for number, row in read_rows(self.path):
            self._take(number, row)

    def _take(self, number: int, row: dict[str, Any]) -> None:
        agent = str(row.get("agent"))
        if row.keys() == _OF_AGENT:
            self._agents[agent] = row
            return
        if agent not in self._agents:
            raise _unusable(self.path, number, "no line above it has the settings of its agent")
        try:
            run = FinishedRun.model_validate(self._agents[agent] | row)
        except ValidationError:
            raise _unusable(self.path, number, "it is damaged: not a finished run") from None
        self._runs.setdefault(run.agent, {})[run.seed] = run


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (number of the line, fields) of each line of a file that `append_rows` has written.

    A file that is not there has none. A last line that was not written to its end is left out.

    Raises:
      RunDirError: a line is damaged or has no seal, or the file cannot be read.
    """
    try:
        data = read_regular(path, most=_MOST_BYTES, follow=True)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            yield number, unsealed_row(line)
        except SealError as error:
            raise _unusable(path, number, str(error)) from None
        except ValueError:
            raise _unusable(path, number, "it is damaged: not a finished run") from None


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends lines with seals to a file, all or none; it is made if there is none.

    Raises:
      RunDirError: the file cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        append_whole(path, b"".join(map(sealed_row, rows)))


def _unusable(path: Path, number: int, problem: str) -> RunDirError:
    advice = "Delete the line to train its seed again"
    return RunDirError(f"cannot use {path}: line {number}: {problem}. {advice}")


def read_row(path: Path, agent: str) -> FinishedRun:
    """Reads a file with a single seed, as a peer's process and version 0.2 write it.

    Raises:
      RunDirError: it is damaged, or cannot be read.
    """
    return _run_of(path, {"agent": agent} | _fields(path))


def _rows_of_version_0_2(directory: Path) -> Iterator[FinishedRun]:
    """Yields what older versions kept as NAME/SEED.json, and `compare` as ENV/ARM.json."""
    for path in sorted(directory.glob("*/*.json")):
        row = _fields(path)
        seeds = row.pop("seeds", None)
        if seeds is None:
            yield _run_of(path, {"agent": path.parent.name} | row)
            continue
        for seed, of in seeds.items():
            arm = {"agent": f"{path.parent.name}/{path.stem}", "seed": int(seed)}
            yield _run_of(path, arm | row | of)


def _fields(path: Path) -> dict[str, Any]:
    try:
        return unsealed_row(read_regular(path, most=_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot use {path}: {reason_of(error)}") from None


def _run_of(path: Path, fields: Mapping[str, Any]) -> FinishedRun:
    try:
        return FinishedRun.model_validate(fields)
    except ValidationError:
        raise RunDirError(f"cannot use {path}: it is not a finished run") from None
