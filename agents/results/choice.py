"""Chooses where the jobs of a command run, and how many at once: here, or on a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from targetnet.agents.results.places import HERE, Place
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.machine import cores

if TYPE_CHECKING:
    from targetnet.agents.config.model import DqnConfig


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
    from targetnet.agents.cluster.cluster import joined

    with joined(ray, say) as cluster:
        room = cluster.at_once(max(config.threads for config in configs))
        yield cluster, room if jobs is None else jobs
