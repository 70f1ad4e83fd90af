"""A run directory: config, event file, weights, result, digest, and what steers it.

    config.toml   events.out.tfevents.*   weights.safetensors   result.json   digest.json
    control/      checkpoints/

Files appear whole or not at all, and a directory that holds a run is never written over. Each
carries what it takes to notice that it was cut or changed since (rl_core/seal.py); those of
version 0.1 do not, and are taken as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from agents.config.files import dump_config, read_config
from agents.config.model import DqnConfig
from rl_core.checkpoint.weights_file import WeightsError, read_weights, weights_bytes
from rl_core.control.files import ControlFiles, write_whole
from rl_core.control.log import read_log, require_length
from rl_core.control.state import require_answers
from rl_core.control.trace import require_trace
from rl_core.errors import RunDirError, reason_of
from rl_core.regular_file import read_regular
from rl_core.seal import sealed_json, sealed_text, unsealed_json

_CONFIG, _WEIGHTS, _RESULT, _DIGEST = (
    "config.toml", "weights.safetensors", "result.json", "digest.json",
)  # fmt: skip
_AVERAGED, _INITIAL = "weights_ema.safetensors", "initial.safetensors"
# What a run meant that was begun before there was this key.
_OF_VERSION_0_1 = {"byte_scale": "255"}
_EVENTS = "events.out.tfevents.*"
_MOST_BYTES = 1 << 16  # of a digest
RUNS = Path("runs")


class EndDigest(BaseModel):
    """The digest of a run at the end of its training, with the tick and env step of that end.

    Attributes:
      whole: False if an exception ended it, in the middle of a time step: a repeat of the run
        never is where it was then.
    """

    model_config = ConfigDict(extra="forbid")

    digest: str
    tick: int
    env_step: int
    update: int
    trace_crc: int | None = None  # of its trace; None: not known
    whole: bool = True


class RunDir:
    """One run's files.

    Attributes:
      path: the directory.
      control: what steers it.
      logdir: what a board shows: all runs beside this one if it has its place among `runs`,
        else this one alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.control = ControlFiles(path)
        self.logdir = path.parent if path.parent == RUNS else path

    @classmethod
    def create(cls, path: Path | None, name: str, config: DqnConfig) -> RunDir:
        """Makes the directory and writes the config into it.

        Args:
          path: where; None takes the next free number of `runs/<name>-<number>`.

        Raises:
          RunDirError: it holds a run already, or cannot be written.
        """
        place = path or RUNS
        try:
            if path is None:
                run = cls(_next_free(name))
            else:
                require_free(path)
                path.mkdir(parents=True, exist_ok=True)
                run = cls(path)
            run.change_config(config)
        except OSError as error:
            if isinstance(error, RunDirError):
                raise
            raise RunDirError(f"cannot write a run into {place}: {error.strerror}") from None
        return run

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def event_files(self) -> dict[str, int]:
        """Bytes of each event file, by name."""
        return {p.name: p.stat().st_size for p in self.path.glob(_EVENTS)}

    def require_as_it_was(self, host: Mapping[str, Any] | None) -> list[str]:
        """Checks that nothing is missing that was there before; changes nothing.

        Args:
          host: of the checkpoint that the run goes on from; None if it has none.

        Returns:
          What is missing and only shown, one line each: points of curves.

        Raises:
          RunDirError: the log or the trace is damaged or was cut, or a curve is no regular file.
        """
        for path in self.path.glob(_EVENTS):
            if path.is_symlink() or not path.is_file():
                raise RunDirError(f"cannot resume {self.path}: {path.name} is not a regular file")
        read_log(self.control.log)
        require_answers(self.control)
        if host is None:
            return []
        require_length(self.control.log, host["log"]["bytes"])
        length, _, *crc = host["trace"]
        require_trace(self.control.trace, length, *crc)
        short = [name for name, size in host["events"].items() if _size(self.path / name) < size]
        return [f"{self.path / name} is shorter than it was: curves lack points" for name in short]

    def go_back(self, events: Mapping[str, int]) -> None:
        """Drops what came after a moment at which the event files were as in `events`.

        Raises:
          RunDirError: it cannot be done.
        """
        try:
            for path in self.path.glob(_EVENTS):
                if path.name in events:
                    _cut(path, events[path.name])
                else:
                    path.unlink()
            for name in (_RESULT, _DIGEST):
                (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise RunDirError(f"cannot resume {self.path}: {error.strerror}") from None

    def has_result(self) -> bool:
        return (self.path / _RESULT).exists()

    def change_config(self, config: DqnConfig) -> None:
        self._write(_CONFIG, sealed_text(dump_config(config)).encode())

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """An existing run.

        Raises:
          RunDirError: there is none, or the directory cannot be read.
        """
        try:
            (path / _CONFIG).lstat()
        except (FileNotFoundError, NotADirectoryError):
            raise RunDirError(f"{path} is not a run directory: it has no {_CONFIG}") from None
        except OSError as error:
            raise RunDirError(f"cannot read {path}: {error.strerror}") from None
        return cls(path)

    def config(self) -> DqnConfig:
        """Raises: ConfigError if it cannot be read, or is not what was written."""
        return read_config(self.path / _CONFIG, absent=_OF_VERSION_0_1)

    def save_weights(self, weights: Mapping[str, np.ndarray], *, averaged: bool = False) -> Path:
        return self._write(_AVERAGED if averaged else _WEIGHTS, weights_bytes(weights))

    def save_initial(self, weights: Mapping[str, np.ndarray]) -> None:
        """Writes the weights that the network began with, if they came from another run."""
        self._write(_INITIAL, weights_bytes(weights))

    def load_initial(self) -> dict[str, np.ndarray]:
        """{} if all was random; raises RunDirError if they are damaged."""
        try:
            return read_weights(self.path / _INITIAL)
        except FileNotFoundError:
            return {}
        except WeightsError as error:
            raise RunDirError(str(error)) from None

    def has_weights(self, *, averaged: bool = False) -> bool:
        return (self.path / (_AVERAGED if averaged else _WEIGHTS)).exists()

    def load_weights(self, *, averaged: bool = False) -> dict[str, np.ndarray]:
        """Raises: RunDirError if there are none or they are damaged."""
        path = self.path / (_AVERAGED if averaged else _WEIGHTS)
        try:
            return read_weights(path)
        except FileNotFoundError:
            why = (
                "its config's ema_decay is 0, or it has not ended"
                if averaged
                else "they are saved when its run ends"
            )
            raise RunDirError(f"{self.path} has no {path.name} yet: {why}") from None
        except WeightsError as error:
            raise RunDirError(str(error)) from None

    def save_result(self, result: Mapping[str, Any]) -> Path:
        return self._write(_RESULT, sealed_json(result))

    def save_digest(self, digest: EndDigest) -> Path:
        return self._write(_DIGEST, sealed_json(digest.model_dump()))

    def has_digest(self) -> bool:
        return (self.path / _DIGEST).exists()

    def load_digest(self) -> EndDigest:
        """Raises: RunDirError if there is none or it is damaged."""
        path = self.path / _DIGEST
        try:
            return EndDigest.model_validate(unsealed_json(read_regular(path, most=_MOST_BYTES)))
        except FileNotFoundError:
            raise RunDirError(
                f"{self.path} has no {_DIGEST}: it is written when the run's training ends"
            ) from None
        except (OSError, ValueError) as error:
            raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None

    def _write(self, name: str, data: bytes) -> Path:
        path = self.path / name
        try:
            write_whole(path, data)
        except OSError as error:
            raise RunDirError(f"cannot write {path}: {error.strerror}") from None
        return path


def require_free(path: Path) -> None:
    """Raises RunDirError if a run cannot be put at `path`; writes nothing."""
    if (path / _CONFIG).exists() or any(path.glob(_EVENTS)):
        raise RunDirError(f"{path} already holds a run; name another directory with --run")
    existing = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not existing.is_dir():
        raise RunDirError(f"cannot write a run into {path}: {existing} is not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise RunDirError(f"cannot write a run into {path}: {existing} is not writable")


def _size(path: Path) -> int:
    """In bytes; 0 if there is no file."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _cut(path: Path, size: int) -> None:
    """Drops what a file has beyond `size` bytes; no link is followed out of the run."""
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.ftruncate(file, min(size, os.fstat(file).st_size))
    finally:
        os.close(file)


def _next_free(name: str) -> Path:
    RUNS.mkdir(parents=True, exist_ok=True)
    taken = [p.name.removeprefix(f"{name}-") for p in RUNS.glob(f"{name}-*")]
    number = max([0, *(int(t) for t in taken if t.isdecimal())])
    while True:
        number += 1
        path = RUNS / f"{name}-{number}"
        try:
            path.mkdir()
        except FileExistsError:  # another run took it in between
            continue
        return path
