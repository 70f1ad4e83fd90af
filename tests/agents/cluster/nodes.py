"""A Ray cluster of several nodes on this machine, whose nodes can be killed as machines die."""

import contextlib
import os
import signal
from pathlib import Path

_MEMORY = 80 << 20  # of a node's object store
# A dead node is noticed within about a second; by default it takes a quarter of a minute.
_WATCHFUL = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 1_000,
    "health_check_failure_threshold": 3,
}


class Nodes:
    """A head, and nodes with one CPU each.

    Attributes:
      address: of the head.
      alive: the nodes that were not killed.
    """

    def __init__(self, count, head_cpus=0):
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": head_cpus, "include_dashboard": False, "object_store_memory": _MEMORY,
                "_system_config": _WATCHFUL,
            },
        )  # fmt: skip
        self.address = self._cluster.address
        self.alive = []
        for _ in range(count):
            self.add()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._cluster.shutdown()

    def add(self):
        self.alive.append(self._cluster.add_node(num_cpus=1, object_store_memory=_MEMORY))

    def kill(self, node):
        """Kills a node with all that runs on it, at one blow."""
        self.alive.remove(node)
        raylet = node.all_processes["raylet"][0].process.pid
        for pid in (raylet, *descendants(raylet)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)


def descendants(pid):
    """Returns all processes below one, those nearest to it first."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found = [pid]
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]
