"""A worker process of envs.async_driver: some of N single envs, stepped when the pipe says so.

The process ends when its pipe is closed, whatever became of its parent.
"""

import mmap
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from gymnasium.envs.registration import EnvSpec

from envs.drivers import SyncEnvs
from envs.interface import Step
from envs.lanes import blank_step
from envs.registry import make_single
from envs.rewards import RewardTransform
from envs.spaces import read_spaces
from rl_core.errors import (
    EnvContractError,
    EnvError,
    EnvFailed,
    EnvFault,
    EnvNotFinite,
    in_one_line,
)

_ALIGNMENT = 64  # bytes: a cache line


class Share(NamedTuple):
    """The envs of one worker, and all it needs to make them."""

    env_id: str
    spec: EnvSpec
    num_envs: int  # of all workers
    env_kwargs: dict[str, Any]
    seed: int
    transform: RewardTransform | None
    has_action_masks: bool
    first: int  # env
    last: int  # env

    def __str__(self) -> str:
        if self.first == self.last:
            return f"env {self.first} ({self.env_id})"
        return f"envs {self.first} to {self.last} ({self.env_id})"


def memory_size(blank: Step) -> int:
    """Returns how many bytes the actions and the arrays of `blank` take."""
    arrays = [_actions_like(blank), *_arrays(blank).values()]
    return sum(map(_room, arrays))


def map_memory(memory: int) -> mmap.mmap:
    """Maps the whole of a file, given by its descriptor."""
    return mmap.mmap(memory, os.fstat(memory).st_size)


def place(blank: Step, memory: mmap.mmap) -> tuple[np.ndarray, Step]:
    """Returns the actions, [N] int64, and the same step as `blank`, both in `memory`."""
    offset = 0

    def placed(array: np.ndarray) -> np.ndarray:
        nonlocal offset
        view: np.ndarray = np.ndarray(array.shape, array.dtype, memory, offset)
        offset += _room(array)
        return view

    actions = placed(_actions_like(blank))
    arrays: dict[str, Any] = {name: placed(array) for name, array in _arrays(blank).items()}
    return actions, blank._replace(**arrays)


def _arrays(step: Step) -> dict[str, Any]:
    return {k: value for k, value in step._asdict().items() if isinstance(value, np.ndarray)}


def _actions_like(step: Step) -> np.ndarray:
    return np.empty(step.reward.shape, np.int64)  # [N]


def _room(array: np.ndarray) -> int:
    return -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT


class _Envs:
    """The envs of one share; its methods are what the parent may ask for."""

    def __init__(self, share: Share, memory: mmap.mmap) -> None:
        first, end = share.first, share.last + 1
        with ExitStack() as opened:  # closes what was made if a later line raises
            envs = [
                opened.enter_context(closing(make_single(share.spec, share.env_kwargs)))
                for _ in range(first, end)
            ]
            spaces = read_spaces(share.env_id, envs[0].observation_space, envs[0].action_space)
            blank = blank_step(share.num_envs, spaces, share.has_action_masks)
            actions, step = place(blank, memory)
            self._actions = actions[first:end]
            rows = step._replace(**{k: array[first:end] for k, array in _arrays(step).items()})
            self._envs = SyncEnvs(
                share.env_id, envs, spaces, share.seed,
                has_action_masks=share.has_action_masks, transform=share.transform,
                first=first, step=rows,
            )  # fmt: skip
            opened.pop_all()

    def reset(self, _: Any) -> None:
        self._envs.reset()

    def step(self, _: Any) -> Any:
        return self._envs.step(self._actions).episodes

    def cut(self, lanes: list[bool]) -> Any:
        return self._envs.cut(np.array(lanes))

    def state(self, _: Any) -> Any:
        return self._envs.state()["lanes"]

    def restore(self, lanes: list[Any]) -> list[str]:
        return self._envs.restore({"lanes": lanes})[1]

    def render(self, _: Any) -> Any:
        return self._envs.render()

    def close(self) -> None:
        self._envs.close()


class Failure(NamedTuple):
    """What a worker tells of the error that ends it.

    Attributes:
      line: the message.
      traceback: of an env's own exception, or of whatever else was raised.
      fault: name of the EnvFault in rl_core.errors; None for an EnvError that is none.
      env_steps: of an EnvFault, within the worker's share of the envs.
    """

    line: str
    traceback: str
    fault: str | None = None
    env_steps: int = 0

    def error(self) -> EnvError | EnvFault:
        """Returns the error as it is to be raised in the parent."""
        if self.fault is None:
            error: EnvError | EnvFault = EnvError(self.line)
        else:
            error = _FAULTS[self.fault](self.line)
            error.env_steps = self.env_steps
        error.__cause__ = WorkerTraceback(f"in the worker process:\n{self.traceback}")
        return error


class WorkerTraceback(RuntimeError):
    """The traceback of an exception in a worker process, as text."""


_FAULTS: dict[str, type[EnvFault]] = {
    kind.__name__: kind for kind in (EnvContractError, EnvNotFinite, EnvFailed)
}


class _Failed(Exception):
    """The argument is a Failure."""


@contextmanager
def _told(who: object) -> Iterator[None]:
    try:
        yield
    except EnvFault as fault:
        raised = fault.__cause__ or fault
        text = "".join(traceback.format_exception(raised))
        name = type(fault).__name__
        raise _Failed(Failure(str(fault), text, name, fault.env_steps)) from fault
    except EnvError as error:
        raise _Failed(Failure(str(error), traceback.format_exc())) from error
    except Exception as error:
        line = f"{who}: {type(error).__name__} was raised ({in_one_line(error)}); correct the env"
        raise _Failed(Failure(line, traceback.format_exc())) from error


def main() -> None:
    """Runs the worker whose pipe and memory are the descriptors on the command line."""
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, ConnectionError):  # the parent closed the pipe, or is gone
        try:
            _serve(connection, map_memory(int(sys.argv[2])))
        except _Failed as failed:
            connection.send((False, failed.args[0]))


def _serve(connection: Connection, memory: mmap.mmap) -> None:
    with _told("a worker process"):
        share = connection.recv()()
    with _told(share):
        envs = _Envs(share, memory)
    with closing(envs):
        reply = None
        while True:
            connection.send((True, reply))
            request, lanes = connection.recv()
            with _told(share):
                reply = getattr(envs, request)(lanes)
