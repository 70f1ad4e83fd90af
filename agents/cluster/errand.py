"""One job on the cluster: on one node after the other, if nodes die, until it has ended."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from agents.cluster.actor import Actor, GivenUp, NodeLost
from agents.cluster.connect import ClusterError
from agents.cluster.home import Home
from agents.cluster.home_runs import HomeRuns
from agents.cluster.portable import Portable
from agents.cluster.visit import Visit
from rl_core.errors import RlCoreError, in_one_line, reason_of

MOST_DEATHS = 3  # of nodes, without a new checkpoint in between
_INTERRUPTED = 130


class Errand:
    """A job that is under way; a thread follows it.

    Args:
      name: of the job, on the screen.
      command: this Python and its arguments; on the node it is the node's Python.
      log: file to which the process's output is appended.
      portable: what it needs of this machine.
      say: shows one line.

    Attributes:
      how: how it ended, in words.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        portable: Portable,
        say: Callable[[str], None],
    ) -> None:
        assert command[0] == sys.executable
        self._name, self._log, self._portable, self._say = name, log, portable, say
        self._arguments = portable.arguments(command)
        self._home, self._runs = Home(portable.tree), HomeRuns(portable.tree, portable.names())
        self._deaths, self.how = 0, ""
        self._code: int | None = None
        self._fault: BaseException | None = None
        self._interrupted, self._killed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        """Returns the exit code; None while the job is under way."""
        if self._thread.is_alive():
            return None
        if self._fault is not None:
            raise self._fault
        return self._code

    def interrupt(self) -> None:
        """Lets the job save and end."""
        self._interrupted.set()

    def kill(self) -> None:
        """Ends the job; what is not at home by now is lost."""
        self._killed.set()

    def wait(self) -> None:
        """Waits for the end of a job that was killed."""
        self._thread.join()

    # The thread.

    def _run(self) -> None:
        try:
            try:
                self._runs.lock()
                self._code = self._anywhere()
            finally:
                self._runs.release()  # also those before one that somebody else holds
            self.how = f"exit code {self._code}" if self._code >= 0 else f"signal {-self._code}"
        except GivenUp:
            self._code, self.how = _INTERRUPTED, "interrupted"
        except RlCoreError as error:
            self._code, self.how = 1, in_one_line(error, 300)
        except OSError as error:
            where = f"cannot use {error.filename}: " if error.filename else ""
            self._code, self.how = 1, f"{where}{reason_of(error)}"
        except BaseException as fault:  # raised where the job is waited for
            self._fault = fault

    def _anywhere(self) -> int:
        """Runs the job on one node after the other, until it ends; returns its exit code.

        Raises:
          RlCoreError: it cannot be run, or nodes die again and again.
          GivenUp: it was killed, or interrupted before it began.
        """
        while True:
            actor = Actor(self._portable, self._interrupted, self._killed)
            visit = Visit(actor, self._home, self._runs, self._portable, self._log, self._kept)
            try:
                visit.begin(self._arguments)
                return visit.follow()
            except NodeLost as lost:
                self._deaths += 1
                line = f"{self._name}: lost {actor.node or 'its node'}: {lost}"
                if self._interrupted.is_set():
                    self._say(f"{line}; the same command goes on from its last checkpoint")
                    raise GivenUp from None
                if self._deaths > MOST_DEATHS:
                    raise ClusterError(
                        f"{line}, the {self._deaths}th without a new checkpoint in between"
                    ) from None
                self._say(f"{line}; it goes on elsewhere from its last checkpoint")
            finally:
                actor.end()

    def _kept(self) -> None:
        """Notes that a new checkpoint is at home: a node that dies now costs nothing before it."""
        self._deaths = 0
