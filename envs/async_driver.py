"""Driver of single envs in worker processes: the same rows as in a loop, on several cores.

Each worker runs targetnet.envs.async_worker on a share of the envs and writes their rows into
shared memory.
Each worker has a pipe, which carries one message and one reply per step. Workers are new
interpreters and not forks, because TensorFlow's threads do not survive a fork. Workers do not run
the main module, so scripts need no `if __name__ == "__main__"` guard, and no worker imports
TensorFlow.
"""

import os
import signal
import subprocess
import sys
import time
from itertools import chain
from multiprocessing import Pipe
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector.utils import CloudpickleWrapper

from targetnet.envs.async_worker import Share, map_memory, memory_size, place
from targetnet.envs.env_recipe import EnvRecipe
from targetnet.envs.interface import Envs, Episode, Step
from targetnet.envs.lanes import blank_step
from targetnet.envs.spaces import Spaces
from targetnet.rl_core.errors import EnvError, EnvFault, EnvWorkerLost, RlCoreError, in_one_line
from targetnet.rl_core.machine import cores

_MAIN = "from targetnet.envs.async_worker import main; main()"
_SECONDS_TO_END = 10.0  # time for workers to end after their pipe was closed, before a kill


class AsyncEnvs(Envs):
    """N single envs in worker processes: one per core, at most N.

    Every episode resets with its own seed, so the rows, `state` and `restore` equal those of
    `SyncEnvs` for any number of workers. Gymnasium's AsyncVectorEnv is not used, because its
    autoresets pass no seed.

    After an EnvFault of one env, or the death of a worker (EnvWorkerLost), all workers end.
    """

    def __init__(
        self,
        env_id: str,
        spec: EnvSpec,
        num_envs: int,
        making: EnvRecipe,
        spaces: Spaces,
        seed: int,
        *,
        frames_per_second: float,
    ) -> None:
        super().__init__(env_id, num_envs, spaces)
        self.frames_per_second = frames_per_second
        blank = blank_step(num_envs, spaces)
        self._workers: list[_Worker] = []
        try:
            memory = os.memfd_create("envs")
        except OSError as error:
            raise _cannot_start(env_id, error) from None
        try:
            os.ftruncate(memory, memory_size(blank, spaces))
            self._actions, self._step = place(blank, spaces, map_memory(memory))
            for part in np.array_split(np.arange(num_envs), min(num_envs, cores())):
                first, last = int(part[0]), int(part[-1])
                share = Share(env_id, spec, num_envs, making, seed, spaces.masks, first, last)
                self._workers.append(_Worker(share, memory))
            for worker in self._workers:
                worker.receive()  # waits until the worker has made its envs
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and not isinstance(error, RlCoreError):
                raise _cannot_start(env_id, error) from None
            raise
        finally:
            os.close(memory)  # the mappings keep the memory alive

    def reset(self) -> Step:
        self._ask("reset")
        return self._step

    def step(self, actions: np.ndarray) -> Step:
        if actions.shape != self._actions.shape:
            raise ValueError(f"step needs {self.num_envs} actions, got shape {actions.shape}")
        self._actions[:] = actions
        episodes: tuple[Episode, ...] = tuple(chain(*self._ask("step")))
        return self._step._replace(episodes=episodes) if episodes else self._step

    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        return tuple(chain(*self._ask("cut", which.tolist())))

    def state(self) -> dict[str, Any]:
        return {"lanes": list(chain(*self._ask("state")))}

    def restore(self, state: dict[str, Any]) -> tuple[Step, list[str]]:
        lanes = state["lanes"]
        if len(lanes) != self.num_envs:
            raise ValueError(f"the state is of {len(lanes)} envs, not of {self.num_envs}")
        return self._step, list(chain(*self._ask("restore", lanes)))

    def render(self) -> Any:
        return self._ask("render")[0]

    def close(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.disconnect()
        deadline = time.monotonic() + _SECONDS_TO_END
        for worker in workers:
            worker.end(deadline)

    def _ask(self, request: str, lanes: list[Any] | None = None) -> list[Any]:
        """Returns each worker's reply to `request`, in the order of the envs.

        Args:
          request: name of a method of targetnet.envs.async_worker's `_Envs`.
          lanes: one value per env, or None.
        """
        if not self._workers:
            raise ValueError(f"the envs of {self.env_id!r} are closed")
        try:
            for worker in self._workers:
                worker.send(request, lanes)
            return [self._reply(worker) for worker in self._workers]
        except BaseException:  # also an interrupt: an unread reply would answer the next request
            self.close()
            raise

    def _reply(self, worker: "_Worker") -> Any:
        try:
            return worker.receive()
        except EnvFault as fault:
            # The workers before this one have replied, so their envs have made the time step.
            before = self._step.autoreset[: worker.first]
            fault.env_steps += len(before) - int(np.count_nonzero(before))
            raise


class _Worker:
    """The parent's handle of a worker process."""

    def __init__(self, share: Share, memory: int) -> None:
        self._share = share
        self.first = share.first  # number of the first env
        self._connection, theirs = Pipe()
        with theirs:
            fds = (theirs.fileno(), memory)
            # A new session: Ctrl-C in the terminal must reach the parent alone, which stops at a
            # safe point and needs the envs until then.
            self._process = subprocess.Popen(
                # A package of the user's in the current directory must not come before ours.
                [sys.executable, "-P", "-c", _MAIN, *map(str, fds)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                start_new_session=True,
            )
        try:
            # Cloudpickle sends a class of the main module by value; workers do not run that module.
            self._connection.send(CloudpickleWrapper(lambda: share))
        except Exception as error:
            self.disconnect()
            self.end(time.monotonic() + _SECONDS_TO_END)
            raise EnvError(
                f"env {share.env_id!r} cannot be given to a worker process "
                f"({in_one_line(error)}); correct env_kwargs, or set vectorization = 'sync'"
            ) from error

    def send(self, request: str, lanes: list[Any] | None) -> None:
        """Sends a request with the worker's part of `lanes`; `receive` returns the reply."""
        part = None if lanes is None else lanes[self._share.first : self._share.last + 1]
        try:
            self._connection.send((request, part))
        except OSError:
            raise self._death_error() from None

    def receive(self) -> Any:
        """Waits for the reply and returns it.

        Raises:
          EnvFault: an env raised or returned an invalid value, or the process has ended.
          EnvError: the worker could not make its envs.
        """
        try:
            good, reply = self._connection.recv()
        except (EOFError, OSError):
            raise self._death_error() from None
        if good:
            return reply
        raise reply.error()

    def disconnect(self) -> None:
        """Closes the pipe, which ends the process; the parent's death closes the pipe too."""
        self._connection.close()

    def end(self, deadline: float) -> None:
        """Waits until the process has ended; kills it at `deadline`, from time.monotonic."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException as error:  # an interrupt must not leave the process running
            self._process.kill()
            self._process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise

    def _death_error(self) -> EnvWorkerLost:
        self.end(time.monotonic() + _SECONDS_TO_END)
        code = self._process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        return EnvWorkerLost(f"{self._share}: the worker process {how}; see whether memory ran out")


def _cannot_start(env_id: str, error: OSError) -> EnvError:
    return EnvError(
        f"cannot start the worker processes of env {env_id!r}: {error.strerror}; have fewer envs, "
        "or set vectorization = 'sync'"
    )
