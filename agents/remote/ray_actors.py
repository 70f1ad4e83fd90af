"""Actors in a Ray cluster, or in a Ray instance on this machine.

Ray's own transport pickles what goes to and fro; nothing pickled is kept.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from targetnet.agents.cluster.connect import ClusterError, connected, started_here
from targetnet.agents.cluster.nodes import Nodes, on_nodes
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.collector import Collector, bring_back
from targetnet.agents.remote.deliveries import ActorLost, ActorReady, Answer, Request, Weights
from targetnet.agents.remote.transport import ResumePoint
from targetnet.rl_core.errors import in_one_line
from targetnet.rl_core.lazy import ONEDNN_VARIABLE
from targetnet.rl_core.own_function import code_directory, in_command

_START_SECONDS = 300.0  # until the process of an actor is there
_CLOSE_SECONDS = 10.0  # until all actors have closed their envs, when the run ends
_STORE_BYTES = 200_000_000  # that Ray shares between its processes, beside what is on the way


class RemoteCollector:
    """A `Collector` in a Ray actor. It imports no TensorFlow, unless its network needs it.

    Args:
      config: of the run.
      actor: its number.
      code: directory of the user's code, if a command trains; None: a program does.
    """

    def __init__(self, config: DqnConfig, actor: int, code: str | None = None) -> None:
        self._command = contextlib.ExitStack()  # as long as this process lives
        if code is not None:
            self._command.enter_context(in_command(code, lambda line: None))
        # TensorFlow reads it when it is imported, which an env may do too; the node's own setting,
        # and that of the learner's process, do not count.
        if "tensorflow" not in sys.modules:
            os.environ[ONEDNN_VARIABLE] = str(int(config.onednn))
        self._config, self._actor = config, actor
        self._collectors: dict[int, Collector] = {}  # its own, once it is made

    def restore(self, delivered: int, lanes: list[dict[str, Any]]) -> ActorReady:
        """Makes the envs where there are none yet, and brings them back; see `bring_back`."""
        return bring_back(self._collectors, self._config, self._actor, delivered, lanes)

    def collect(self, request: Request, weights: Weights) -> Answer:
        """Makes the time steps of one delivery."""
        return self._collectors[self._actor].collect(request, weights)

    def close(self) -> None:
        """Closes the envs, if there are any."""
        for collector in self._collectors.values():
            collector.close()


class RayActors:
    """A transport to Ray actors. They reserve nothing; Ray spreads them over its nodes.

    Args:
      config: of the run.
      address: HOST:PORT of a cluster that this machine belongs to, or "auto"; None starts Ray here.
      on_the_way: bytes of deliveries and weights that are on their way at once.
      say: shows one line about nodes; may be set later.

    Raises:
      ClusterError: there is no such cluster, a node has other versions, or Ray is not installed.
    """

    def __init__(
        self,
        config: DqnConfig,
        address: str | None,
        on_the_way: int,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._config, self.say = config, say
        self._nodes: Nodes | None = None  # in a cluster of others
        self._handles: dict[int, Any] = {}
        # Processes that are not there yet: what tells that they are, and until when they have time.
        self._starting: dict[int, tuple[Any, float]] = {}
        self._coming: set[int] = set()  # actors that have not said yet that they are there
        self._asked: dict[int, deque[Any]] = {}  # to be back, and deliveries
        self._answered: deque[int] = deque()  # actors whose oldest of these is answered
        self._last = contextlib.ExitStack()
        with contextlib.ExitStack() as opened:
            if address is None:
                cpus = max(config.actors, os.cpu_count() or 1)
                opened.enter_context(started_here(cpus, _STORE_BYTES + 2 * on_the_way))
            else:
                opened.enter_context(connected(address))
                self._nodes = Nodes(lambda line: self.say(line))
            self._last = opened.pop_all()

    def start(self, since: dict[int, ResumePoint]) -> None:
        import ray

        make = ray.remote(
            num_cpus=0, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD",
            **({} if self._nodes is None else on_nodes(self._nodes.usable())),
        )(RemoteCollector)  # fmt: skip
        self._answered = deque(actor for actor in self._answered if actor not in since)
        directory = code_directory()
        place = None if directory is None else str(Path(directory).absolute())
        for actor, begin in since.items():
            if actor not in self._handles:
                handle: Any = make.remote(self._config, actor, place)
                self._handles[actor] = handle
                until = time.monotonic() + _START_SECONDS
                self._starting[actor] = handle.__ray_ready__.remote(), until
            # It works in this order: what it is asked for later waits in its process.
            self._asked[actor] = deque([self._handles[actor].restore.remote(*begin)])
            self._coming.add(actor)

    def send(self, weights: Weights) -> Any:
        import ray

        try:
            return ray.put(dict(weights))  # Ray drops it once nobody has the reference
        except ray.exceptions.RayError as error:  # its memory, or the disk behind it, is full
            raise ClusterError(f"Ray cannot take the weights: {_why(error)}") from None

    def ask(self, actor: int, request: Request, weights: Any) -> None:
        self._asked[actor].append(self._handles[actor].collect.remote(request, weights))

    def take(self, actors: Collection[int], seconds: float | None) -> Answer | ActorReady | None:
        import ray

        self._require_started()
        if not any(actor in actors for actor in self._answered):
            # All that have answered are served before anybody is again: so no actor is left out,
            # and many are looked at once for many answers.
            oldest = {asked[0]: actor for actor in actors if (asked := self._asked[actor])}
            refs = list(oldest)
            found, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
            found = found or ray.wait(refs, timeout=seconds, fetch_local=False)[0]
            self._answered.extend(oldest[ref] for ref in found)
        actor = next((actor for actor in self._answered if actor in actors), None)
        if actor is None:
            return None
        self._answered.remove(actor)
        try:
            answer: Answer | ActorReady = ray.get(self._asked[actor].popleft())
        except ray.exceptions.RayError as error:
            raise self._lost(actor, _why(error)) from None
        if isinstance(answer, ActorReady):
            self._coming.discard(actor)
        return answer

    def close(self) -> None:
        with self._last:
            if self._handles:
                self._end_all()

    def _end_all(self) -> None:
        """Has actors close their envs, but for one that takes too long, or is not there yet."""
        import ray

        try:
            # After the deliveries that they were asked for: ray.cancel may hold up what follows.
            there = [handle for actor, handle in self._handles.items() if actor not in self._coming]
            closed = [handle.close.remote() for handle in there]
            if closed:
                ray.wait(closed, num_returns=len(closed), timeout=_CLOSE_SECONDS, fetch_local=False)
        finally:
            for actor in [*self._handles]:
                self._lost(actor, "the run is over")

    def _require_started(self) -> None:
        """Checks that processes of actors come in time; repeating an episode is not counted.

        Raises:
          ActorLost: one does not.
        """
        import ray

        for actor, (there, until) in list(self._starting.items()):
            if ray.wait([there], timeout=0, fetch_local=False)[0]:
                del self._starting[actor]
            elif time.monotonic() > until:
                raise self._lost(actor, f"no process within {_START_SECONDS:.0f} s")

    def _lost(self, actor: int, reason: str) -> ActorLost:
        """Ends an actor, or what is left of it, and returns what is to be raised."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self._handles.pop(actor))
        self._asked[actor] = deque()
        self._starting.pop(actor, None)
        with contextlib.suppress(ValueError):
            self._answered.remove(actor)
        return ActorLost(actor, reason)


def _why(error: Exception) -> str:
    """Returns the reason in Ray's long message, in a few words."""
    from ray import exceptions as of

    if isinstance(error, of.RayTaskError):
        return in_one_line(f"{type(error.cause).__name__}: {error.cause}", 200)
    text = str(error)
    if isinstance(error, of.OutOfMemoryError):
        return "its node is out of memory"
    if "node has died" in text or "node was terminated" in text:
        return "its node is dead"
    if isinstance(error, of.RayActorError):
        return "its process ended"
    return in_one_line(f"{type(error).__name__}: {text.partition(chr(10))[0]}", 200)
