"""Places where jobs run: child processes of this machine, or the nodes of a cluster."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from targetnet.agents.cluster.process import start_child
from targetnet.agents.cluster.tree import JobInputs
from targetnet.rl_core.errors import ConfigError, RlCoreError
from targetnet.rl_core.machine import cores

if TYPE_CHECKING:
    from targetnet.agents.config.model import DqnConfig


class JobProcess(Protocol):
    """A process that was started, here or elsewhere."""

    @property
    def how(self) -> str:
        """The way it ended, in words; asked for once it has."""

    def poll(self) -> int | None:
        """Returns the exit code, negative if a signal ended it; None while it is at work."""

    def interrupt(self) -> None:
        """Lets it save and end."""

    def kill(self) -> None:
        """Ends it at once."""

    def wait(self) -> None:
        """Waits for the end of a process that was killed."""


class Place(Protocol):
    """A place for jobs."""

    def start(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        portable: JobInputs | None,
        say: Callable[[str], None],
    ) -> JobProcess:
        """Starts a process.

        Args:
          name: of the job, on the screen.
          command: program and arguments.
          log: file to which its output is appended.
          portable: what it needs to run elsewhere.
          say: shows one line.

        Raises:
          RlCoreError: it cannot be started.
        """


class ThisMachine:
    """The machine of this process."""

    def start(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        portable: JobInputs | None,
        say: Callable[[str], None],
    ) -> JobProcess:
        try:
            return _LocalProcess(start_child(command, log, {}))
        except OSError as error:
            where = error.filename or command[0]
            raise RlCoreError(f"cannot start {name}: {where}: {error.strerror}") from None


HERE = ThisMachine()


class _LocalProcess:
    """A child process of this one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def how(self) -> str:
        code = self._process.returncode
        return f"exit code {code}" if code > 0 else f"signal {-code}"

    def poll(self) -> int | None:
        return self._process.poll()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> None:
        self._process.wait()


@contextlib.contextmanager
def place_for(
    ray: str | None,
    jobs: int | None,
    configs: Sequence[DqnConfig],
    say: Callable[[str], None],
) -> Iterator[tuple[Place, int]]:
    """Yields the place of jobs, and how many of them are at work there at once.

    Args:
      ray: address of a cluster; None for this machine.
      jobs: number that the user wants; None for as many as there are cores.
      configs: of what is trained.
      say: shows one line.

    Raises:
      ConfigError: a config cannot be trained on a cluster.
      ClusterError: the cluster cannot be used.
    """
    if ray is None:
        yield HERE, cores() if jobs is None else jobs
        return
    for config in configs:
        if config.log_to:
            raise ConfigError(
                f"--ray: log_to = {[*config.log_to]} would report from the nodes, into files that "
                "are removed with the job there: train with log_to = []"
            )
    from targetnet.agents.cluster.remote_job import joined

    with joined(ray, say) as cluster:
        room = cluster.at_once(max(config.threads for config in configs))
        yield cluster, room if jobs is None else jobs
