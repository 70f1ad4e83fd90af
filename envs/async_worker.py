"""Worker process of envs.async_driver: steps a share of the N envs on request over a pipe.

The process ends when its pipe is closed, even if the parent was killed.
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

from targetnet.envs.drivers import SyncEnvs
from targetnet.envs.env_recipe import EnvRecipe
from targetnet.envs.interface import Step
from targetnet.envs.lanes import blank_step
from targetnet.envs.masks import MaskSource
from targetnet.envs.registry import make_single
from targetnet.envs.spaces import Spaces
from targetnet.envs.stacks import spaces_for
from targetnet.rl_core.console import output_guarded
from targetnet.rl_core.errors import (
    EnvContractError,
    EnvError,
    EnvFailed,
    EnvFault,
    EnvNotFinite,
    in_one_line,
)

_ALIGNMENT = 64  # bytes: a cache line


class Share(NamedTuple):
    """The envs of one worker: all data that the worker needs to make them."""

    env_id: str
    spec: EnvSpec
    num_envs: int  # of all workers together
    making: EnvRecipe
    seed: int
    masks: MaskSource | None  # where the envs say which actions are legal
    first: int  # number of the first env
    last: int  # number of the last env

    def __str__(self) -> str:
        if self.first == self.last:
            return f"env {self.first} ({self.env_id})"
        return f"envs {self.first} to {self.last} ({self.env_id})"


def memory_size(blank: Step, spaces: Spaces) -> int:
    """Returns the bytes of the actions and of the arrays of `blank`."""
    arrays = [_actions_of(blank, spaces), *_arrays(blank).values()]
    return sum(map(_aligned_size, arrays))


def map_memory(memory: int) -> mmap.mmap:
    """Maps a whole file into memory, given its descriptor."""
    return mmap.mmap(memory, os.fstat(memory).st_size)


def place(blank: Step, spaces: Spaces, memory: mmap.mmap) -> tuple[np.ndarray, Step]:
    """Returns the agent's actions, int64, and a step with the arrays of `blank`, in `memory`."""
    offset = 0

    def placed(array: np.ndarray) -> np.ndarray:
        nonlocal offset
        view: np.ndarray = np.ndarray(array.shape, array.dtype, memory, offset)
        offset += _aligned_size(array)
        return view

    actions = placed(_actions_of(blank, spaces))
    arrays: dict[str, Any] = {name: placed(array) for name, array in _arrays(blank).items()}
    return actions, blank._replace(**arrays)


def _arrays(step: Step) -> dict[str, Any]:
    return {k: value for k, value in step._asdict().items() if isinstance(value, np.ndarray)}


def _actions_of(step: Step, spaces: Spaces) -> np.ndarray:
    return np.empty((*step.reward.shape, *spaces.actions.agent_shape), np.int64)  # [N] or [N, D]


def _aligned_size(array: np.ndarray) -> int:
    return -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT


class _Envs:
    """The envs of one share; the parent's requests are names of its methods."""

    def __init__(self, share: Share, memory: mmap.mmap) -> None:
        first, end = share.first, share.last + 1
        with ExitStack() as opened:  # closes the envs if a later line raises
            envs = [
                opened.enter_context(closing(make_single(share.spec, share.making)))
                for _ in range(first, end)
            ]
            spaces = spaces_for(
                share.env_id, envs[0].observation_space, envs[0].action_space, share.making
            )._replace(masks=share.masks)
            blank = blank_step(share.num_envs, spaces)
            actions, step = place(blank, spaces, memory)
            self._actions = actions[first:end]
            rows = step._replace(**{k: array[first:end] for k, array in _arrays(step).items()})
            self._envs = SyncEnvs(share.env_id, envs, spaces, share.seed, first=first, step=rows)
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
    """A worker's report of the error that ends it.

    Attributes:
      line: the message.
      traceback: traceback of the exception, as text.
      fault: class name of an EnvFault in targetnet.rl_core.errors; None for any other EnvError.
      env_steps: `env_steps` of an EnvFault, counted within the worker's share of the envs.
    """

    line: str
    traceback: str
    fault: str | None = None
    env_steps: int = 0

    def error(self) -> EnvError | EnvFault:
        """Returns the error to raise in the parent."""
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
    """An exception that carries a Failure as its argument."""


@contextmanager
def _errors_as_failures(who: object) -> Iterator[None]:
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
    """Runs the worker; the command line has the descriptors of its pipe and of the memory."""
    connection = Connection(int(sys.argv[1]))
    # The parent closed the pipe or has ended.
    with output_guarded(), suppress(EOFError, ConnectionError):
        try:
            _serve(connection, map_memory(int(sys.argv[2])))
        except _Failed as failed:
            connection.send((False, failed.args[0]))


def _serve(connection: Connection, memory: mmap.mmap) -> None:
    with _errors_as_failures("a worker process"):
        share = connection.recv()()
    with _errors_as_failures(share):
        envs = _Envs(share, memory)
    with closing(envs):
        reply = None
        while True:
            connection.send((True, reply))
            request, lanes = connection.recv()
            with _errors_as_failures(share):
                reply = getattr(envs, request)(lanes)
