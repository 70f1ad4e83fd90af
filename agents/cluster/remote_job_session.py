"""One job on one node: brought there, followed, and its files brought home."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.job_actor import JobActor
from targetnet.agents.cluster.job_inputs import JobInputs, file_name
from targetnet.agents.cluster.local_mirror import LocalMirror
from targetnet.agents.cluster.local_runs import LocalRuns
from targetnet.agents.cluster.nodes import Node
from targetnet.agents.cluster.tree import is_number
from targetnet.agents.cluster.worker import NodeReport
from targetnet.agents.saved.machines import add_machine
from targetnet.rl_core.checkpoint.store import CheckpointError
from targetnet.rl_core.errors import quoted

_LOOK_SECONDS = 0.5  # between two looks at the node


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
