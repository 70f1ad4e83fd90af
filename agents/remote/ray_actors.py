"""Actors in a Ray cluster, or in a Ray instance on this machine.

Ray's own transport pickles what goes to and fro; nothing pickled is kept.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from targetnet.agents.cluster.connect import ClusterError, connected, started_here
from targetnet.agents.cluster.nodes import (
    ActorNodes,
    all_nodes,
    differing_processors,
    require_same_versions,
)
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.collector import Collector
from targetnet.agents.remote.deliveries import (
    ActorLost,
    ActorReady,
    Answer,
    Request,
    Weights,
    fault_of,
)
from targetnet.agents.remote.transport import ResumePoint
from targetnet.rl_core.errors import RlCoreError, in_one_line
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
        self._collector: Collector | None = None

    def restore(self, delivered: int, lanes: list[dict[str, Any]]) -> ActorReady:
        """Makes the envs where there are none yet, and brings them back.

        Returns:
          What `Collector.restore` does; or a mistake that the user can mend, which comes again and
          again, so that it is no loss of the actor.
        """
        try:
            if self._collector is None:
                self._collector = Collector(self._config, self._actor)
            problems = self._collector.restore(delivered, lanes)
            return ActorReady(self._actor, tuple(problems), self._collector.kind)
        except RlCoreError as error:
            fault = fault_of(error, self._actor, delivered, self._config.seed)
            return ActorReady(self._actor, fault=fault)

    def collect(self, request: Request, weights: Weights) -> Answer:
        """Makes the time steps of one delivery."""
        assert self._collector is not None
        return self._collector.collect(request, weights)

    def close(self) -> None:
        """Closes the envs, if there are any."""
        if self._collector is not None:
            self._collector.close()


class RayActors:
    """A transport to Ray actors. They reserve nothing; Ray spreads them over its nodes.

    Args:
      config: of the run.
      address: HOST:PORT of a cluster that this machine belongs to, or "auto"; None starts Ray here.
      on_the_way: bytes of deliveries and weights that are on their way at once.

    Attributes:
      note: a line about the nodes at the start; None if there is nothing to say.
      say: shows a line about nodes that join later; at first it adds to the note.

    Raises:
      ClusterError: there is no such cluster, a node has other versions, or Ray is not installed.
    """

    def __init__(self, config: DqnConfig, address: str | None, on_the_way: int) -> None:
        self._config, self.note = config, None
        self.say: Callable[[str], None] = self._add_to_note
        self._nodes: ActorNodes | None = None  # in a cluster of others
        self._handles: dict[int, Any] = {}
        # Processes that are not there yet: what tells that they are, and until when they have time.
        self._starting: dict[int, tuple[Any, float]] = {}
        self._coming: set[int] = set()  # actors that have not said yet that they are there
        self._asked: dict[int, deque[Any]] = {}  # to be back, and deliveries
        self._weights: dict[int, Any] = {}
        self._answered: deque[int] = deque()  # actors whose oldest of these is answered
        self._last = contextlib.ExitStack()
        with contextlib.ExitStack() as opened:
            if address is None:
                cpus = max(config.actors, os.cpu_count() or 1)
                opened.enter_context(started_here(cpus, _STORE_BYTES + 2 * on_the_way))
            else:
                opened.enter_context(connected(address))
                nodes = all_nodes()
                require_same_versions(nodes)
                self.note = differing_processors(nodes)
                self._nodes = ActorNodes(nodes, lambda line: self.say(line))
            self._last = opened.pop_all()

    def start(self, since: dict[int, ResumePoint]) -> None:
        import ray

        make = ray.remote(
            num_cpus=0, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD",
            **({} if self._nodes is None else self._nodes.options()),
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

    def publish(self, number: int, weights: Weights) -> None:
        import ray

        try:
            self._weights[number] = ray.put(dict(weights))
        except ray.exceptions.RayError as error:  # its memory, or the disk behind it, is full
            raise ClusterError(f"Ray cannot take the weights: {_why(error)}") from None

    def forget(self, number: int) -> None:
        del self._weights[number]

    def ask(self, actor: int, request: Request) -> None:
        weights = self._weights[request.weights]
        self._asked[actor].append(self._handles[actor].collect.remote(request, weights))

    def ready(self, actor: int | None, seconds: float) -> bool:
        import ray

        self._require_started()
        if actor is not None:
            refs = [self._asked[actor][0]]
        elif self._answered:
            return True
        else:
            refs = [asked[0] for asked in self._asked.values() if asked]
        return bool(ray.wait(refs, timeout=seconds, fetch_local=False)[0])

    def take(self, actor: int) -> Answer | ActorReady:
        with contextlib.suppress(ValueError):
            self._answered.remove(actor)
        answer: Answer | ActorReady = self._got(actor, self._asked[actor][0])
        self._asked[actor].popleft()
        if isinstance(answer, ActorReady):
            self._coming.discard(actor)
        return answer

    def take_any(self) -> Answer | ActorReady:
        import ray

        self._require_started()
        if not self._answered:
            # All that have answered are served before anybody is again: so no actor is left out,
            # and many are looked at once for many answers.
            oldest = {asked[0]: actor for actor, asked in self._asked.items() if asked}
            refs = list(oldest)
            found, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
            found = found or ray.wait(refs, num_returns=1, fetch_local=False)[0]
            self._answered.extend(oldest[ref] for ref in found)
        return self.take(self._answered[0])

    def close(self) -> None:
        with self._last:
            try:
                self._close_envs()
            finally:
                self._kill_all()

    def _close_envs(self) -> None:
        """Has actors close their envs, but for one that takes too long, or is not there yet."""
        import ray

        # After the deliveries that they were asked for: ray.cancel may hold up what comes later.
        there = [handle for actor, handle in self._handles.items() if actor not in self._coming]
        closed = [handle.close.remote() for handle in there]
        if closed:
            ray.wait(closed, num_returns=len(closed), timeout=_CLOSE_SECONDS, fetch_local=False)

    def _kill_all(self) -> None:
        import ray

        for handle in self._handles.values():
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(handle)
        self._handles, self._asked, self._weights, self._starting = {}, {}, {}, {}

    def _add_to_note(self, line: str) -> None:
        self.note = f"{self.note}; {line}" if self.note else line

    def _got(self, actor: int, answer: Any) -> Any:
        """Waits for an answer.

        Raises:
          ActorLost: it will not come. The actor, or what is left of it, is ended.
        """
        import ray

        try:
            return ray.get(answer)
        except ray.exceptions.RayError as error:
            raise self._lost(actor, _why(error)) from None

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

        handle = self._handles.pop(actor)
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(handle)
        self._asked[actor] = deque()
        self._starting.pop(actor, None)
        with contextlib.suppress(ValueError):
            self._answered.remove(actor)
        return ActorLost(actor, reason)


def _why(error: Exception) -> str:
    """Returns the reason in Ray's long message, in a few words."""
    import ray

    of = ray.exceptions
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
