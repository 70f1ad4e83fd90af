"""Nodes without Ray, in this process, that die when they are told to; jobs that are toy runs."""

import sys
import tempfile
import threading
from pathlib import Path

from targetnet.agents.cluster import nodes as cluster_nodes
from targetnet.agents.cluster import remote_job, remote_job_session
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.nodes import Node, Nodes, versions
from targetnet.agents.cluster.remote_job_session import JobCancelled, NodeLost
from targetnet.agents.cluster.tree import JobInputs
from targetnet.agents.cluster.worker import Worker
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.machine import processor

NODES = ("first", "second")
TOY = str(Path(__file__).parent / "toy_run.py")


class ToyActor:
    """A worker of this process, called as if it were on a node.

    Attributes:
      made: all that there were.
      dies: says before each call, by the number of calls so far, whether the node dies now.
    """

    made: list["ToyActor"] = []  # noqa: RUF012 - emptied by `install`
    dies = staticmethod(lambda calls: False)

    def __init__(self, name, cpus, nodes, interrupted, killed):
        self.interrupted, self.killed = interrupted, killed
        self.worker, self.calls, self.dead = Worker(name), [], False
        self.node, self.nodes, self.cpus = None, nodes, cpus
        ToyActor.made.append(self)

    def arrive(self):
        if self.interrupted.is_set():
            raise JobCancelled
        self.nodes.require_one(self.cpus)
        self.node = self.nodes.known[self.nodes.usable(self.cpus)[0]]
        self.worker.node = self.node.id
        return self.node

    def call(self, method, *arguments, **more):
        if self.killed.is_set():
            raise JobCancelled
        if self.dead or ToyActor.dies(len(self.calls)):
            self.die()
            raise NodeLost("the node is dead")
        self.calls.append(method)
        try:
            return getattr(self.worker, method)(*arguments, **more)
        except (RlCoreError, OSError) as error:
            raise ClusterError(str(error)) from None

    def die(self):
        self.dead = True
        if self.worker._process:
            self.worker._process.kill()
            self.worker._process.wait()

    def end(self):
        self.worker.close()


def install(monkeypatch, tmp_path, *, look=0.01):
    """Puts toys in the place of Ray."""
    monkeypatch.setattr(cluster_nodes, "alive", lambda cpus: {*NODES})
    monkeypatch.setattr(cluster_nodes, "nodes_of", lambda ids: [node(name) for name in sorted(ids)])
    monkeypatch.setattr(remote_job, "JobActor", ToyActor)
    monkeypatch.setattr(ToyActor, "made", [])
    monkeypatch.setattr(ToyActor, "dies", staticmethod(lambda calls: False))
    monkeypatch.setattr(remote_job_session, "_LOOK_SECONDS", look)
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return scratch


def toy(tmp_path, *, steps=30, every=5, seconds=0.005, members=0):
    """Returns the command of a toy run, or of a population, and what it needs on a node."""
    run = tmp_path / "run"
    text = f"steps = {steps}\nevery = {every}\nseconds = {seconds}\nmembers = {members}\n"
    (tmp_path / "toy.toml").write_text(text)
    config = str(tmp_path / "toy.toml")
    command = [sys.executable, TOY, config, "--run", str(run), "--resume"]
    runs = [run / f"m{i:02d}" for i in range(members)] or [run]
    return command, JobInputs(run, runs, {config: text.encode()})


def node(name, **changed):
    """Returns a node that is like this machine."""
    return Node(name, name, f"10.0.0.1 ({name})", 1, versions() | changed, processor())


def usable():
    """Returns the nodes of a cluster of two, without a known fault."""
    return Nodes(print)


def wait_for(condition, seconds=60):
    """Waits until a condition holds."""
    tick = threading.Event()
    for _ in range(int(seconds / 0.005)):
        if condition():
            return
        tick.wait(0.005)
    raise AssertionError("it never came to that")
