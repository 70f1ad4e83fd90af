"""The cluster as a place for jobs, and one job on one node after the other: a node may die."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from targetnet.agents.cluster.connect import ClusterError, connected
from targetnet.agents.cluster.local_mirror import LocalMirror, LocalRuns
from targetnet.agents.cluster.nodes import Nodes, NoNodeLeft
from targetnet.agents.cluster.remote_job_session import (
    JobActor,
    JobCancelled,
    NodeLost,
    RemoteJobSession,
)
from targetnet.agents.cluster.tree import JobInputs
from targetnet.rl_core.errors import RlCoreError, in_one_line, reason_of

MOST_DEATHS = 3  # of nodes, without a new checkpoint in between
_INTERRUPTED = 130


class RemoteJob:
    """A job that is under way; a thread follows it.

    Args:
      name: of the job, on the screen.
      command: this Python and its arguments; on the node it is the node's Python.
      log: file to which the process's output is appended.
      inputs: what it needs of this machine.
      nodes: those of the cluster.
      say: shows one line.

    `how` says how it ended, in words.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        inputs: JobInputs,
        nodes: Nodes,
        say: Callable[[str], None],
    ) -> None:
        assert command[0] == sys.executable
        self._name, self._log, self._inputs, self._say = name, log, inputs, say
        self._nodes = nodes
        self._arguments = inputs.arguments(command)
        self._home = LocalMirror(inputs.tree)
        self._runs = LocalRuns(inputs.tree, inputs.names())
        self._deaths, self.how = 0, ""
        self._code: int | None = None
        self._fault: BaseException | None = None
        self._interrupted, self._killed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        """Returns the exit code; None while the job is under way.

        Raises:
          NoNodeLeft: there is no node for it, which is no failure of the job.
        """
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

    # What its thread does.

    def _run(self) -> None:
        try:
            try:
                self._runs.lock()
                self._code = self._anywhere()
            finally:
                self._runs.release()  # also those before one that somebody else holds
            self.how = f"exit code {self._code}" if self._code >= 0 else f"signal {-self._code}"
        except JobCancelled:
            self._code, self.how = _INTERRUPTED, "interrupted"
        except NoNodeLeft as fault:
            self._fault = fault
        except RlCoreError as error:
            self._code, self.how = 1, in_one_line(error, 300)
        except OSError as error:
            where = f"cannot use {error.filename}: " if error.filename else ""
            self._code, self.how = 1, f"{where}{reason_of(error)}"
        except BaseException as fault:  # raised where the job is waited for
            self._fault = fault

    def _anywhere(self) -> int:
        """Runs the job on one node after the other, until it ends; returns its exit code."""
        inputs = self._inputs
        while True:
            actor = JobActor(
                inputs.tree.name, inputs.cpus, self._nodes, self._interrupted, self._killed
            )
            try:
                node = actor.arrive()
                session = RemoteJobSession(
                    actor, node, self._home, self._runs, inputs, self._log, self._kept
                )
                session.begin(self._arguments)
                return session.follow()
            except NodeLost as lost:
                self._lost(actor.node.host if actor.node else "its node", lost)
            except NoNodeLeft:
                raise
            except ClusterError as fault:  # of the node: nothing of the job ends in one
                if actor.node is None:
                    raise
                self._nodes.note_fault(actor.node.id, str(fault))
                what = f"{self._name}: {actor.node.host} cannot be used: {in_one_line(fault, 300)}"
                self._unless_interrupted(what)
                self._say(f"{what}; it goes on elsewhere, and no run goes there any more")
            finally:
                actor.end()

    def _lost(self, node: str, why: NodeLost) -> None:
        """Counts a node that has died; raises ClusterError if nodes do so again and again."""
        self._deaths += 1
        line = f"{self._name}: lost {node}: {why}"
        self._unless_interrupted(line)
        if self._deaths > MOST_DEATHS:
            raise ClusterError(
                f"{line}, the {self._deaths}th without a new checkpoint in between"
            ) from None
        self._say(f"{line}; it goes on elsewhere from its last checkpoint")

    def _unless_interrupted(self, line: str) -> None:
        if self._interrupted.is_set():
            self._say(f"{line}; the same command goes on from its last checkpoint")
            raise JobCancelled from None

    def _kept(self) -> None:
        """Notes that a new checkpoint is at home: a node that dies now costs nothing before it."""
        self._deaths = 0


class Cluster(Nodes):
    """The nodes of a cluster as a place for jobs."""

    def start(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        portable: JobInputs | None,
        say: Callable[[str], None],
    ) -> RemoteJob:
        """Starts a job on whichever node has room and no fault, and waits for one if none has."""
        assert portable is not None
        return RemoteJob(name, command, log, portable, self, say)


@contextlib.contextmanager
def joined(address: str, say: Callable[[str], None]) -> Iterator[Cluster]:
    """Joins a cluster, and checks that its nodes may be used.

    Args:
      address: HOST:PORT of the head, or "auto" for the cluster that this machine belongs to.
      say: shows one line.

    Raises:
      ClusterError: there is none, it has no CPUs, or nodes have other versions.
    """
    with connected(address):
        cluster = Cluster(say)
        nodes, cpus = len(cluster.known), cluster.at_once(1)
        count = f"{nodes} node" + ("s" if nodes > 1 else "")
        say(f"Ray cluster: {count}, {cpus} CPU" + ("s" if cpus > 1 else ""))
        yield cluster
