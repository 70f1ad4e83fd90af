"""The cluster as a place for jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from targetnet.agents.cluster.connect import ClusterError, connected
from targetnet.agents.cluster.messages import JobInputs
from targetnet.agents.cluster.nodes import (
    HealthyNodes,
    Node,
    alive,
    all_nodes,
    differing_processors,
    require_same_versions,
)
from targetnet.agents.cluster.remote_job import RemoteJob


class Cluster:
    """A cluster that this process has joined.

    Args:
      nodes: those with CPUs.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes, self._usable = nodes, HealthyNodes(alive)

    def at_once(self, cpus: int) -> int:
        """Returns how many jobs of so many CPUs the nodes have room for at once.

        Raises:
          ClusterError: no node has room for one.
        """
        room = sum(node.cpus // cpus for node in self._nodes)
        if not room:
            most = max(node.cpus for node in self._nodes)
            raise ClusterError(
                f"a run wants {cpus} CPUs (threads = {cpus}), and no node has more than {most}"
            )
        return room

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
        return RemoteJob(name, command, log, portable, self._usable, say)


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
        nodes = all_nodes()
        require_same_versions(nodes)
        cpus = sum(node.cpus for node in nodes)
        count = f"{len(nodes)} node" + ("s" if len(nodes) > 1 else "")
        say(f"Ray cluster: {count}, {cpus} CPU" + ("s" if cpus > 1 else ""))
        if line := differing_processors(nodes):
            say(line)
        yield Cluster(nodes)
