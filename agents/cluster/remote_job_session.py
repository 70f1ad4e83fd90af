"""One job on one node: its actor there, its process followed, and its files brought home."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.local_mirror import LocalMirror, LocalRuns
from targetnet.agents.cluster.nodes import Node, Nodes, on_nodes
from targetnet.agents.cluster.tree import JobInputs, file_name, is_number
from targetnet.agents.cluster.worker import NodeReport, Worker
from targetnet.agents.saved.machines import add_machine
from targetnet.rl_core.checkpoint.store import CheckpointError
from targetnet.rl_core.errors import in_one_line, quoted

_LOOK_SECONDS = 0.5  # between two looks at the node
_WAIT_SECONDS = 0.2  # between two looks whether home still wants an answer
_END_SECONDS = 10.0  # until a node has removed what a job left


class NodeLost(Exception):
    """The node of a job, or the actor's process there, is no more."""


class JobCancelled(Exception):
    """Home wants no more of the job."""


class JobActor:
    """A worker on whichever node has room and may be used.

    Args:
      name: of the directory that the job fills.
      cpus: that it uses.
      nodes: those of the cluster.
      interrupted: ends a wait for room; killed: ends every wait.
    """

    def __init__(
        self, name: str, cpus: int, nodes: Nodes, interrupted: Event, killed: Event
    ) -> None:
        self.interrupted, self.killed = interrupted, killed
        self.node: Node | None = None  # until it is known
        self._name, self._cpus, self._nodes = name, cpus, nodes
        self._handle: Any = None

    def arrive(self) -> Node:
        """Waits for a node with room; raises NoNodeLeft if none may be used, or as `call` does."""
        import ray

        asked: list[str] = []
        while True:
            self._nodes.require_one(self._cpus)
            if (usable := self._nodes.usable(self._cpus)) != asked:  # nodes came, or went
                self.end()
                how: dict[str, Any] = {"num_cpus": self._cpus, **on_nodes(usable)}
                self._handle = ray.remote(max_restarts=0, **how)(Worker).remote(self._name)
                there, asked = self._handle.__ray_call__.remote(_node_id), usable
            if ray.wait([there], timeout=_WAIT_SECONDS)[0]:
                self.node = self._nodes.known[self._got(there)]
                return self.node
            if self.interrupted.is_set() or self.killed.is_set():
                raise JobCancelled

    def call(self, method: str, *arguments: Any, **more: Any) -> Any:
        """Returns what a method of the worker returns.

        Raises:
          NodeLost: the node is no more.
          JobCancelled: the job was killed.
          ClusterError: the method raises an error.
        """
        import ray

        answer = getattr(self._handle, method).remote(*arguments, **more)
        while not ray.wait([answer], timeout=_WAIT_SECONDS)[0]:
            if self.killed.is_set():
                raise JobCancelled
        return self._got(answer)

    def end(self) -> None:
        """Ends the worker, which removes what the job left on its node."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            if self.node is not None:
                ray.wait([self._handle.close.remote()], timeout=_END_SECONDS)
            if self._handle is not None:
                ray.kill(self._handle)

    def _got(self, answer: Any) -> Any:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return ray.get(answer)
        except RayTaskError as error:
            raise ClusterError(in_one_line(error.cause or error, 300)) from None
        except RayError as error:
            raise NodeLost(_why(error)) from None


def _node_id(worker: Worker) -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _why(error: Exception) -> str:
    """Returns the reason in Ray's long message, in one line."""
    text = str(error)
    if "node has died" in text or "node was terminated" in text:
        return "the node is dead"
    return in_one_line(text.rpartition("\n\n")[2] or text, 200)


class RemoteJobSession:
    """A job on a node.

    Args:
      actor, node: its worker there.
      home, runs: its directory and its runs here.
      inputs: what it needs.
      log: file to which its output is appended.
      kept: called once a new checkpoint is at home.
    """

    def __init__(
        self,
        actor: JobActor,
        node: Node,
        home: LocalMirror,
        runs: LocalRuns,
        inputs: JobInputs,
        log: Path,
        kept: Callable[[], None],
    ) -> None:
        self._actor, self._node, self._home, self._runs = actor, node, home, runs
        self._inputs, self._log, self._kept = inputs, log, kept
        self._output = 0  # bytes of the process's output that are here
        self._next, self._told = 0.0, False  # it was told that it is to end
        self._removed: set[tuple[str, int]] = set()  # checkpoints that came and went

    def begin(self, arguments: Sequence[str]) -> None:
        """Brings everything to the node, and starts the process; raises as `JobActor.call`."""
        call, name = self._actor.call, self._inputs.tree.name
        call("prepare")
        for path, data in self._home.files_to_send():
            call("put", f"{name}/{path}", data)
        for word, content in self._inputs.files.items():
            call("put", file_name(word), content)
        for path, data in self._runs.handover():
            call("put", f"{name}/{path}", data)
        self._note(self._runs.locked())
        call("start", list(arguments), str(Path.cwd()))

    def follow(self) -> int:
        """Follows the process until it has ended and everything is at home; returns its exit code.

        Raises:
          NodeLost, JobCancelled: as for `JobActor.call`.
          ClusterError: the node cannot be used, which may be why the process has failed.
          OSError: a file at home cannot be written.
        """
        while True:
            look = self._catch_up()
            fetched = [self._fetch(run, numbers) for run, numbers in look.checkpoints.items()]
            if look.code is None:
                self._actor.killed.wait(_LOOK_SECONDS)
            elif not any(fetched):
                if look.fault:
                    raise ClusterError(look.fault)
                self._catch_up(last=True)
                return look.code

    def _catch_up(self, *, last: bool = False) -> NodeReport:
        """Brings home whatever is new beside checkpoints, and hands command files on."""
        call, post = self._actor.call, self._runs.post()
        if self._actor.interrupted.is_set() and not self._told:
            call("interrupt")
            self._told = True
        look: NodeReport = call("look", self._home.have, self._output, post, last=last)
        if look.log:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as file:
                file.write(look.log)
            self._output += len(look.log)
        for news in look.files:
            self._home.take(news)
        for path in look.gone:
            self._home.drop(path)
        self._note(self._runs.lock())
        self._runs.answered(look.posted & post.keys(), look.waiting)
        self._next = time.monotonic() + _LOOK_SECONDS
        return look

    def _fetch(self, run: str, numbers: Sequence[int]) -> bool:
        """Brings home the newest checkpoint that is not here; returns False if all are."""
        if run not in self._inputs.names() or not all(map(is_number, numbers)):
            raise ClusterError(f"it has checkpoints of {quoted(run)} that are none")
        there = [number for number in numbers if (run, number) not in self._removed]
        number = self._home.lacks(run, there)
        if number is None:
            return False
        manifest = self._actor.call("hold", run, number)
        if manifest is None:  # it was removed meanwhile, for newer ones
            self._removed.add((run, number))
            return True
        try:
            self._home.begin_checkpoint(run, number, manifest, self._read)
        except CheckpointError as error:
            raise ClusterError(f"it sent a damaged checkpoint: {error}") from None
        self._catch_up()
        self._home.end_checkpoint(run, number, self._inputs.keep)
        self._kept()
        return True

    def _read(self, name: str) -> bytes:
        if time.monotonic() >= self._next:  # the run is steered and shown all the while
            self._catch_up()
        data: bytes = self._actor.call("read_held", name)
        return data

    def _note(self, runs: Sequence[str]) -> None:
        for run in runs:
            add_machine(self._inputs.tree / run, self._node.host, self._node.processor)
