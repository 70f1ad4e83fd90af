"""The cluster as a place for jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from targetnet.agents.cluster.connect import connected
from targetnet.agents.cluster.job_inputs import JobInputs
from targetnet.agents.cluster.nodes import Nodes
from targetnet.agents.cluster.remote_job import RemoteJob


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
