"""One job on one node: brought there, followed, and its files brought home."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from targetnet.agents.cluster.actor import JobActor
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.local_mirror import LocalMirror, LocalRuns
from targetnet.agents.cluster.messages import PIECE, JobInputs, NodeFacts, NodeReport, file_name
from targetnet.agents.cluster.nodes import differing_versions
from targetnet.agents.cluster.tree import is_number
from targetnet.agents.saved.machines import add_machine
from targetnet.rl_core.checkpoint.store import CheckpointError
from targetnet.rl_core.errors import quoted

_LOOK_SECONDS = 0.5  # between two looks at the node
_MOST_COMPARED = 5  # times that files are compared for one checkpoint


class RemoteJobSession:
    """A job on a node.

    Args:
      actor: its worker there.
      home: its directory here.
      runs: its runs here.
      portable: what it needs.
      log: file to which its output is appended.
      kept: called once a new checkpoint is at home.
    """

    def __init__(
        self,
        actor: JobActor,
        home: LocalMirror,
        runs: LocalRuns,
        portable: JobInputs,
        log: Path,
        kept: Callable[[], None],
    ) -> None:
        self._actor, self._home, self._runs, self._portable = actor, home, runs, portable
        self._log, self._kept = log, kept
        self._about: NodeFacts | None = None
        self._output = 0  # bytes of the process's output that are here
        self._next, self._told = 0.0, False  # it was told that it is to end
        self._removed: set[tuple[str, int]] = set()  # checkpoints that came and went

    def begin(self, arguments: Sequence[str], about: NodeFacts) -> None:
        """Brings everything to the node, and starts the process there.

        Args:
          about: the node.

        Raises:
          NodeLost: the node died meanwhile.
          JobCancelled: home wants no more of it.
          ClusterError: the node cannot be used.
        """
        call, tree = self._actor.call, self._portable.tree.name
        self._about = about
        if differing := differing_versions(about.versions):
            raise ClusterError(f"it has {differing}")
        call("prepare")
        self._runs.begin()
        for path, offset, data in self._home.begin():
            call("put", f"{tree}/{path}", offset, data)
        for word, content in self._portable.files.items():
            call("put", file_name(word), 0, content)
        for run in self._runs.locked():
            self._note(run)
        self._hand_over()
        call("start", list(arguments), str(Path.cwd()))

    def follow(self) -> int:
        """Follows the process until it has ended and everything is at home.

        Raises:
          NodeLost, JobCancelled: as for `begin`.
          ClusterError: the node cannot be used, which may be why the process has failed.
          OSError: a file at home cannot be written.
        """
        while True:
            look = self._catch_up()
            self._post()
            fetched = [self._fetch(run, numbers) for run, numbers in look.checkpoints.items()]
            if look.code is not None and not any(fetched):
                if look.fault:
                    raise ClusterError(look.fault)
                self._compare(self._portable.names())
                self._catch_up(last=True)
                return look.code
            if look.code is None:
                self._actor.killed.wait(_LOOK_SECONDS)

    def _hand_over(self) -> None:
        """Gives the node the orders that hold and the command files that wait, for runs that go on.

        Command files that are there when a run begins wait for older changes that it makes again.
        """
        moved, tree = dict(self._runs.moved()), self._portable.tree.name
        for run, note in moved.items():
            self._actor.call("put", f"{tree}/{run}control/moved", 0, note)
        for run, name, command_file in self._runs.command_files():
            if run in moved:
                self._actor.call("put", f"{tree}/{run}control/inbox/{name}", 0, command_file)
                self._runs.posted(run, name)

    def _catch_up(self, *, last: bool = False) -> NodeReport:
        """Brings home whatever is new beside checkpoints."""
        while True:
            if self._actor.interrupted.is_set() and not self._told:
                self._actor.call("interrupt")
                self._told = True
            look: NodeReport = self._actor.call(
                "look", dict(self._home.have), self._output, last=last
            )
            if look.log:
                self._log.parent.mkdir(parents=True, exist_ok=True)
                with self._log.open("ab") as file:
                    file.write(look.log)
                self._output += len(look.log)
            for piece in look.pieces:
                self._home.take(piece)
            for path in look.gone:
                self._home.drop(path)
            for run in self._runs.lock():
                self._note(run)
            if not look.more:  # only then is all of the log here
                self._runs.answered(look.command_files)
                self._next = time.monotonic() + _LOOK_SECONDS
                return look

    def _post(self) -> None:
        """Hands on the runs' new command files, and takes back those that were withdrawn."""
        for run, name in self._runs.withdrawn():
            self._actor.call("post", run, name, None)
        closed = set()  # runs that have no inbox there yet: command files keep their order
        for run, name, command_file in self._runs.command_files():
            if run not in closed and self._actor.call("post", run, name, command_file):
                self._runs.posted(run, name)
            else:
                closed.add(run)

    def _fetch(self, run: str, numbers: Sequence[int]) -> bool:
        """Brings home the newest checkpoint that is not here; returns False if all are."""
        if run not in self._portable.names() or not all(map(is_number, numbers)):
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
        self._compare([run])
        self._home.end_checkpoint(run, number, self._portable.keep)
        self._kept()
        self._actor.call("let_go")
        return True

    def _read(self, name: str, offset: int) -> bytes:
        if time.monotonic() >= self._next:  # the run is steered and shown all the while
            self._catch_up()
            self._post()
        data: bytes = self._actor.call("read_held", name, offset)
        assert len(data) <= PIECE
        return data

    def _compare(self, runs: Sequence[str]) -> None:
        """Compares the files that only grow with those of the node, by their digests.

        A run that goes on first cuts them back to its checkpoint, and they may have grown again
        before they were looked at.
        """
        for run in runs:
            for _ in range(_MOST_COMPARED):
                sizes = self._home.grown(run)
                if self._home.same(self._actor.call("digests", sizes), sizes):
                    break
                self._catch_up()
            else:
                raise ClusterError(f"files of {self._portable.tree / run} came damaged")

    def _note(self, run: str) -> None:
        assert self._about is not None
        add_machine(self._portable.tree / run, self._about.host, self._about.processor)
