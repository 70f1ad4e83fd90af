"""A run directory: config, event file, weights, result, digest, and the files that steer it.

    config.toml   events.out.tfevents.*   weights.safetensors   result.json   digest.json
    spaces.json   control/                checkpoints/          copies/

Files appear whole or not at all, and a directory that holds a run is never written over. A seal
in each file shows if it was cut or changed since (rl_core/seal.py); files of version 0.1 have no
seal, and are read as they are. Those of 0.3 and later say so if theirs was taken out.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from targetnet.agents.config.files import read_config, stored_text
from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.checkpoint.weights_file import WeightsError, read_weights, weights_bytes
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.population import is_population, name_a_member
from targetnet.rl_core.errors import RlCoreError, RunDirError, reason_of
from targetnet.rl_core.files import read_regular, write_whole, writing
from targetnet.rl_core.seal import SealError, sealed_json, unsealed_json


def require_new(out: Path, failure: Callable[[str], RlCoreError]) -> None:
    """Checks that nothing, or an empty directory, is at `out`.

    Raises:
      RlCoreError: something is there, or it is the current directory, which whoever stands in it
        would not see replaced; made by `failure`.
    """
    if out.exists() and out.resolve() == Path.cwd():
        raise failure(f"{out} is the current directory; name a new directory")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise failure(f"{out} already exists; name a new directory")


@contextlib.contextmanager
def new_directory(out: Path, failure: Callable[[str], RlCoreError]) -> Iterator[Path]:
    """Yields a directory with another name, and renames it to `out` once it is complete.

    Whatever ends it before, Ctrl-C too, leaves nothing.

    Args:
      out: does not exist, or is empty.
      failure: makes the error of a message.

    Raises:
      RlCoreError: there is something at `out`, or it cannot be written; made by `failure`.
    """
    require_new(out, failure)
    making = out.with_name(f".{out.name}.making")
    new = parents_to_make(out)
    try:
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        yield making
        making.rename(out)
    except OSError as error:
        if isinstance(error, RlCoreError):
            raise
        raise failure(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
        remove_empty(new)


def parents_to_make(path: Path) -> list[Path]:
    """Returns the directories above a path that do not exist, the innermost first."""
    return [above for above in path.parents if not above.exists()]


def remove_empty(directories: Iterable[Path]) -> None:
    """Removes those that are empty; give the innermost first."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()


CONFIG, _WEIGHTS, RESULT, DIGEST = (
    "config.toml", "weights.safetensors", "result.json", "digest.json",
)  # fmt: skip
_AVERAGED, _SINKS, MACHINES, SPACES = (
    "weights_ema.safetensors", "sinks.json", "machines.json", "spaces.json",
)  # fmt: skip
OF_ITS_END = (RESULT, DIGEST, _WEIGHTS, _AVERAGED)  # a run that goes on has none of them
EVENTS = "events.out.tfevents.*"  # event files
PLAYED = ".play"  # end of the names of event files that `targetnet play` writes
_MOST_BYTES = 1 << 16  # of a digest
_MOST_RESULT_BYTES = 1 << 24  # a result of a hundred episodes has a few thousand
RUNS = Path("runs")


class RunResult(BaseModel):
    """The result of a run: statistics of the returns of its final greedy episodes.

    Attributes:
      seconds: of training without evaluations, in all sessions; None in files of old versions.
      cut: episodes that were cut off at the config's `eval_max_steps`.
      returns: of all these episodes; None in files of old versions.
    """

    env_steps: int
    updates: int
    seconds: float | None = None
    episodes: int | None = None
    mean: float
    std: float
    min: float
    max: float
    cut: int = 0
    returns: list[float] | None = None


class EndDigest(BaseModel):
    """The digest of a run at the end of its training, with the tick and env step of that end.

    Attributes:
      live: the user's own live values at that end.
      whole: False if an exception ended it in the middle of a time step, a place that a repeat of
        the run never comes to.
    """

    model_config = ConfigDict(extra="forbid")

    digest: str
    tick: int
    env_step: int
    update: int
    trace_crc: int | None = None  # of the run's trace; None if it is not known
    live: dict[str, float] = {}
    whole: bool = True


class _SinkId(BaseModel):
    """The content of sinks.json. Packages see the id, so it can be nothing but an id."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(pattern=r"^[0-9a-f]{32}$")


class RunDir:
    """One run's files.

    Attributes:
      path: the directory.
      checkpoints: where they are; made with the first one.
      control: the files that steer it.
      logdir: the directory for TensorBoard, see `logdir_of`.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.checkpoints = path, path / "checkpoints"
        self.control = ControlFiles(path)
        self.logdir = logdir_of(path)

    @classmethod
    def create(
        cls,
        path: Path | None,
        name: str,
        config: DqnConfig,
        first: Callable[[RunDir], None] = lambda run: None,
    ) -> RunDir:
        """Makes the directory and writes the config into it.

        Args:
          path: where; None takes the next free number of `runs/<name>-<number>`.
          first: writes what must be there before the config, which makes it a run.

        Raises:
          RunDirError: it holds a run already, or cannot be written.
        """
        place = path or RUNS
        with contextlib.ExitStack() as undo:
            with writing(f"a run into {place}"):
                if path is None:
                    run = cls(next_free(name))
                    undo.callback(shutil.rmtree, run.path, ignore_errors=True)
                else:
                    require_free(path)
                    undo.callback(remove_empty, parents_to_make(path))
                    if not path.exists():
                        undo.callback(shutil.rmtree, path, ignore_errors=True)
                    path.mkdir(parents=True, exist_ok=True)
                    run = cls(path)
                for left in (_SINKS, MACHINES, SPACES):  # by a run that was here before
                    (run.path / left).unlink(missing_ok=True)
                first(run)
                run.change_config(config)
            undo.pop_all()
        return run

    def event_files(self) -> list[Path]:
        """The event files that the run itself has written."""
        return [path for path in self.path.glob(EVENTS) if path.suffix != PLAYED]

    def has_result(self) -> bool:
        return (self.path / RESULT).exists()

    def change_config(self, config: DqnConfig) -> None:
        write_file(self.path / CONFIG, stored_text(config.model_dump(exclude_none=True)).encode())

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """Opens an existing run.

        Raises:
          RunDirError: there is none, or the directory cannot be read.
        """
        try:
            (path / CONFIG).lstat()
        except (FileNotFoundError, NotADirectoryError):
            if is_population(path):
                raise RunDirError(name_a_member(path)) from None
            raise RunDirError(f"{path} is not a run directory: it has no {CONFIG}") from None
        except OSError as error:
            raise RunDirError(f"cannot read {path}: {error.strerror}") from None
        return cls(path)

    def sink_id(self) -> str:
        """Returns the run's id at packages that take its metrics; makes it when first asked.

        Raises:
          RunDirError: it is damaged, or cannot be written.
        """
        path = self.path / _SINKS
        try:
            return _SinkId.model_validate(unsealed_json(read_regular(path, most=_MOST_BYTES))).id
        except FileNotFoundError:
            new = uuid.uuid4().hex
            write_file(path, sealed_json({"id": new}))
            return new
        except (OSError, ValueError) as error:
            problem = "it has no id" if isinstance(error, ValidationError) else reason_of(error)
            raise RunDirError(f"cannot use {path}: {problem}") from None

    def config(self) -> DqnConfig:
        """Reads the config.

        Raises:
          ConfigError: it cannot be read, or is not what was written.
        """
        return read_config(self.path / CONFIG)

    def save_weights(self, weights: Mapping[str, np.ndarray], *, averaged: bool = False) -> Path:
        return write_file(self.path / (_AVERAGED if averaged else _WEIGHTS), weights_bytes(weights))

    def has_weights(self, *, averaged: bool = False) -> bool:
        return (self.path / (_AVERAGED if averaged else _WEIGHTS)).exists()

    def load_weights(self, *, averaged: bool = False) -> dict[str, np.ndarray]:
        """Reads the weights, or their averages.

        Raises:
          RunDirError: there are none, or they are damaged.
        """
        path = self.path / (_AVERAGED if averaged else _WEIGHTS)
        try:
            return read_weights(path, ours=True)
        except FileNotFoundError:
            why = (
                "its config's ema_decay is 0, or it has not ended"
                if averaged
                else "they are saved when its run ends"
            )
            raise RunDirError(f"{self.path} has no {path.name} yet: {why}") from None
        except WeightsError as error:
            raise RunDirError(str(error)) from None

    def save_result(self, result: RunResult) -> Path:
        return write_file(self.path / RESULT, sealed_json(result.model_dump()))

    def save_digest(self, digest: EndDigest) -> Path:
        return write_file(self.path / DIGEST, sealed_json(digest.model_dump()))

    def has_digest(self) -> bool:
        return (self.path / DIGEST).exists()

    def load_digest(self) -> EndDigest:
        """Reads the digest.

        Raises:
          RunDirError: there is none, or it is damaged.
        """
        path = self.path / DIGEST
        try:
            return EndDigest.model_validate(unsealed_json(read_regular(path, most=_MOST_BYTES)))
        except FileNotFoundError:
            raise RunDirError(
                f"{self.path} has no {DIGEST}: it is written when the run's training ends"
            ) from None
        except (OSError, ValueError) as error:
            raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None


def write_file(path: Path, data: bytes, *, make_parents: bool = False) -> Path:
    """Writes a whole file; returns its path.

    Raises:
      RunDirError: it cannot be written.
    """
    with writing(path):
        if make_parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    return path


def require_free(path: Path) -> None:
    """Checks that a run can be put at `path`; writes nothing.

    Raises:
      RunDirError: it cannot; says why.
    """
    with writing(f"a run into {path}"):
        _require_free(path)


def _require_free(path: Path) -> None:
    if (path / CONFIG).exists() or is_population(path) or any(path.glob(EVENTS)):
        raise RunDirError(f"{path} already holds a run; name another directory with --run")
    for left in _files_of_another(path):
        raise RunDirError(
            f"{path} still has {left} of another run, which would become part of this one; name "
            "another directory with --run, or remove it"
        )
    if path.is_symlink() and not path.exists():
        raise RunDirError(f"cannot write a run into {path}: it is a link to nothing")
    existing = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not existing.is_dir():
        raise RunDirError(f"cannot write a run into {path}: {existing} is not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise RunDirError(f"cannot write a run into {path}: {existing} is not writable")


def _files_of_another(path: Path) -> Iterator[str]:
    """Yields what a run would read or take for its own, by its name below `path`."""
    control, checkpoints = ControlFiles(path), RunDir(path).checkpoints
    log, arrivals = control.log, control.arrivals
    if log.exists() and log.stat().st_size:
        yield str(log.relative_to(path))
    if checkpoints.is_dir() and any(checkpoints.iterdir()):
        yield checkpoints.name
    if arrivals.exists() and arrivals.stat().st_size:
        yield str(arrivals.relative_to(path))
    yield from (name for name in OF_ITS_END if (path / name).exists())


def logdir_of(path: Path) -> Path:
    """Returns the directory that TensorBoard shows with a run: `runs`, or else this run alone."""
    return RUNS if RUNS in path.parents else path


def next_free(name: str) -> Path:
    """Makes the directory of the next free number of `runs/<name>-<number>`."""
    RUNS.mkdir(parents=True, exist_ok=True)
    taken = [p.name.removeprefix(f"{name}-") for p in RUNS.glob(f"{glob.escape(name)}-*")]
    number = max([0, *(int(t) for t in taken if t.isdecimal())])
    while True:
        number += 1
        path = RUNS / f"{name}-{number}"
        try:
            path.mkdir()
        except FileExistsError:  # another run took it in between
            continue
        return path


def read_result(run: Path) -> RunResult:
    """Reads the result in a run directory.

    Raises:
      RunDirError: it cannot be read, or is not what was written.
    """
    path = run / RESULT
    try:
        data = read_regular(path, most=_MOST_RESULT_BYTES)
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
    try:
        return RunResult.model_validate(unsealed_json(data))
    except SealError as error:
        raise RunDirError(f"cannot use {path}: {error}") from None
    except ValueError:
        raise RunDirError(f"{path} is damaged: it is not the result of a run") from None
