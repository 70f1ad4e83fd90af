"""The nodes of a cluster: what each has, and whether runs may go there.

Runs have the same bits only with the same versions, so a node with others is not used, also one
that joins later. Nor is one in which a job of the command has met a fault, such as a full disk.
"""

from __future__ import annotations

import importlib.metadata
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from targetnet.agents.cluster.connect import ClusterError
from targetnet.rl_core.errors import in_one_line
from targetnet.rl_core.machine import processor

# What has to be the same everywhere, beside Python's own version.
PACKAGES = ("targetnet", "tensorflow", "numpy", "gymnasium", "ray")
_SECONDS = 60.0  # until all nodes have answered: a worker process has to start there
_MOST_SHOWN = 600  # characters of all faults together


class NoNodeLeft(ClusterError):
    """Every node with room for a job has a fault. This ends the command, not the job alone."""


class Node(NamedTuple):
    """A node of the cluster."""

    id: str  # Ray's
    host: str
    name: str  # address and host name, for people
    cpus: int  # that Ray may give away there
    versions: Mapping[str, str]  # "none" if a package is not installed
    processor: str  # model and width of vectors; "" if targetnet is not installed there


class Nodes:
    """The nodes with CPUs, as they come and go, for all jobs or actors of one command.

    Args:
      say: shows one line about a node that has another processor, or joins later and is not used.

    Attributes:
      known: by id, all that were looked at.

    Raises:
      ClusterError: there is none, one does not answer, or some have other versions.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.known: dict[str, Node] = {}
        self._faults: dict[str, str] = {}  # by id: the node's name and its fault
        self._processors = {processor()}
        self._lock = threading.Lock()  # each job has a thread
        ids = alive(1)
        if not ids:
            raise ClusterError("the Ray cluster has no CPUs: no node was started with any")
        if wrong := "; ".join(self._look_at(ids)):
            raise ClusterError(f"the nodes have to have the versions of this machine: {wrong}")
        if not self.known:
            raise ClusterError("no node of the Ray cluster is alive any more")

    def at_once(self, cpus: int) -> int:
        """Returns how many jobs of so many CPUs the nodes have room for at once.

        Raises:
          ClusterError: no node has room for one.
        """
        room = sum(node.cpus // cpus for node in self.known.values())
        if not room:
            most = max(node.cpus for node in self.known.values())
            raise ClusterError(
                f"a run wants {cpus} CPUs (threads = {cpus}), and no node has more than {most}"
            )
        return room

    def usable(self, cpus: int = 1) -> list[str]:
        """Returns the ids of the nodes that may be used and are alive; if none is, of dead ones.

        What is sent to dead nodes waits in Ray; whoever sent it sends it anew after a time.
        """
        with self._lock:
            there = sorted(alive(cpus))
            for node_id in there:
                if node_id not in self.known and node_id not in self._faults:
                    try:
                        wrong = [f"node {text}" for text in self._look_at([node_id])]
                    except ClusterError as error:
                        wrong = [str(error)]
                    for why in wrong:
                        self._faults[node_id] = why
                        self._say(f"{why}: it is not used")
            known = [node_id for node_id in self.known if node_id not in self._faults]
            return [node_id for node_id in known if node_id in there] or known

    def note_fault(self, node_id: str, fault: str) -> None:
        """Notes the fault of a node, which is not used any more."""
        with self._lock:
            self._faults.setdefault(node_id, f"{self.known[node_id].host}: {fault}")

    def require_one(self, cpus: int) -> None:
        """Checks that a node is left for a job of so many CPUs.

        Where no node has a fault there may be none for a while: others may join.

        Raises:
          NoNodeLeft: all that are alive have a fault, which the message names.
        """
        with self._lock:
            faults = dict(self._faults)
        if faults and faults.keys() >= alive(cpus):
            found = in_one_line("; ".join(faults.values()), _MOST_SHOWN)
            raise NoNodeLeft(f"no node of the Ray cluster can be used any more: {found}")

    def _look_at(self, ids: Collection[str]) -> list[str]:
        """Takes nodes in, tells of their processors, and names those with other versions."""
        found = nodes_of(ids)  # without those that have died meanwhile
        self.known.update((node.id, node) for node in found)
        new = {node.processor: None for node in found if node.processor not in self._processors}
        if new:
            self._processors.update(new)
            kinds = in_one_line("; ".join([processor(), *new]), 400)
            self._say(f"the processors differ, so digests may differ from node to node: {kinds}")
        return [f"{node.name} has {text}" for node in found if (text := _differing(node))]


def on_nodes(ids: Collection[str]) -> dict[str, Any]:
    """Returns Ray's options by which an actor comes to one of these nodes."""
    return {"label_selector": {"ray.io/node-id": f"in({','.join(ids)})"}}


def alive(cpus: int) -> set[str]:
    """Returns the ids of the nodes that are alive and have so many CPUs."""
    import ray

    return {
        str(node["NodeID"])
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= cpus
    }


def nodes_of(ids: Collection[str]) -> list[Node]:
    """Returns the nodes with these ids that are alive.

    Raises:
      ClusterError: one does not answer.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    there = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] in ids]
    look = ray.remote(num_cpus=0, max_retries=2)(looker())
    asked = [
        look.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote(PACKAGES)
        for node in there
    ]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=_SECONDS) if asked else ([], [])
    found = []
    for node, answer in zip(there, asked, strict=True):
        why: object = f"no answer within {_SECONDS:.0f} s"
        if answer in answered:
            try:
                found.append(_node(node, ray.get(answer)))
                continue
            except ray.exceptions.RayError as error:
                why = error
        if node["NodeID"] in alive(0):  # else it has died meanwhile
            raise ClusterError(
                f"cannot use node {node['NodeManagerAddress']}: {in_one_line(why, 300)}"
            )
    return found


def looker() -> Callable[[Sequence[str]], Mapping[str, Any]]:
    """Returns a function that looks at the machine it runs on.

    A node without targetnet can run it too: what is defined in a function travels whole.
    """

    def look(packages: Sequence[str]) -> Mapping[str, Any]:
        found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
        for package in packages:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found[package] = "none"
        try:
            from targetnet.rl_core.machine import processor
        except ImportError:
            return {"versions": found, "processor": ""}
        return {"versions": found, "processor": processor()}

    return look


def versions() -> dict[str, str]:
    """Returns the versions of this machine, as a node's."""
    here: dict[str, str] = looker()(PACKAGES)["versions"]
    return here


def _node(node: Mapping[str, Any], said: Mapping[str, Any]) -> Node:
    address, host = node["NodeManagerAddress"], in_one_line(node["NodeManagerHostname"], 100)
    return Node(
        str(node["NodeID"]),
        host,
        in_one_line(address if host in ("", address) else f"{address} ({host})"),
        int(node["Resources"]["CPU"]),
        {name: in_one_line(version, 40) for name, version in dict(said["versions"]).items()},
        in_one_line(said["processor"]),
    )


def _differing(node: Node) -> str:
    """Returns the versions that are not those of this machine, as a text; "" if all are."""
    return ", ".join(
        f"{package} {node.versions.get(package, 'none')} (here {version})"
        for package, version in versions().items()
        if node.versions.get(package) != version
    )
