"""Actors in a real Ray cluster of several nodes on this machine, which are killed."""

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from targetnet.agents.remote.actor_pool import ActorPool, StoppedWaiting
from targetnet.agents.remote.deliveries import Request
from targetnet.agents.remote.ray_actors import RayActors
from targetnet.agents.remote.remote_envs import RemoteEnvs
from targetnet.agents.remote.transport import InProcess
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.errors import EnvFailed, RlCoreError
from tests.agents.cluster.nodes import Nodes
from tests.agents.remote.helpers import config
from tests.agents.remote.test_collector import network

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]
FREE = {"actor_pace": "free", "actor_ahead": 2}


@pytest.fixture(scope="module")
def nodes():
    with Nodes(2, head_cpus=1) as nodes:
        yield nodes


@pytest.fixture
def begin(nodes):
    """Makes actors on the nodes and their pool, and ends them after the test."""
    with contextlib.ExitStack() as last:

        def begin(actors=3, **settings):
            transport = RayActors(config(actors=actors, **settings), nodes.address, 1_000_000)
            pool = ActorPool(transport, actors, 2)
            last.callback(pool.close)
            return transport, pool

        yield begin


def processes(address):
    """The processes of all actors of the cluster at this address: no other cluster's."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"RemoteCollector" in (directory / "cmdline").read_bytes():
                parent = (directory / "stat").read_text().rpartition(")")[2].split()[1]
                if address.encode() in Path("/proc", parent, "cmdline").read_bytes():
                    found.append(int(directory.name))
    return found


def deliveries(pool, phases, disturb=lambda phase: None):
    """In phases, with new weights in each, two ahead: (actor, number, checksum)."""
    found = []
    for phase in range(phases):
        pool.publish(network(phase))
        for actor in pool.actors:
            pool.ask(actor, phase, {"epsilon": 0.3})
        disturb(phase)
        if phase == 0:
            continue  # so that one request is always ahead
        answers = [pool.take(actor)[0] for actor in pool.actors]
        found += [(a.actor, a.number, a.checksum()) for a in answers]
    return found


@pytest.fixture(scope="module")
def straight():
    return deliveries(ActorPool(InProcess(config()), 3, 2), 130)


def test_actors_that_are_killed_lose_and_double_no_row(begin, nodes, straight):
    """40 kills -9 of actors at random moments."""
    (_, pool), rng, killed = begin(), random.Random(0), []

    def disturb(phase):
        if phase % 3:
            for pid in processes(nodes.address):
                if rng.random() < 0.4:
                    time.sleep(rng.uniform(0, 0.02))
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    assert deliveries(pool, 130, disturb) == straight
    print(f"{len(set(killed))} actors were killed")
    assert len(set(killed)) >= 40


def test_nodes_that_are_killed_lose_and_double_no_row(begin, nodes, straight):
    """10 nodes that die, with the actors on them; new ones take their place."""
    (_, pool), killed = begin(), []

    def disturb(phase):
        if phase % 6 == 5:
            nodes.kill(nodes.alive[len(killed) % 2])
            killed.append(phase)
            nodes.add()

    assert deliveries(pool, 60, disturb) == straight[: 3 * 59]
    assert len(killed) == 10


def test_others_deliver_while_a_killed_actor_is_brought_back(begin, nodes, tmp_path):
    held = tmp_path / "held"
    transport, pool = begin(env_kwargs={"held_by": str(held)})
    try:
        pool.publish(network())
        for actor in pool.actors:
            pool.ask(actor, 0, {"epsilon": 0.3})
        held.touch()
        os.kill(random.choice(processes(nodes.address)), signal.SIGKILL)
        served = []
        for _ in range(60):
            answer, _ = pool.take()
            served.append(answer.actor)
            pool.ask(answer.actor, 0, {"epsilon": 0.3})
        (away,) = set(pool.actors) - set(served[-30:])
        began = time.monotonic()
        assert transport.take([away], 0.5) is None and time.monotonic() - began < 5
        held.unlink()
        before = pool.state().delivered[away]
        assert pool.take(away)[0].number == before
    finally:
        held.unlink(missing_ok=True)


def test_no_actor_comes_to_a_node_with_other_versions(
    begin, nodes, straight, tmp_path, monkeypatch
):
    fake = tmp_path / "path/gymnasium-0.1.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: gymnasium\nVersion: 0.1\n")
    (transport, pool), said, where = begin(), [], set()
    transport.say = said.append
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(fake.parent))
        nodes.add()
    other = nodes.alive[-1].node_id

    def disturb(phase):
        if phase % 4 == 3:
            for pid in processes(nodes.address):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for handle in transport._handles.values():
            with contextlib.suppress(ray.exceptions.RayError):
                where.add(ray.get(handle.__ray_call__.remote(place)))

    def place(_):
        import ray

        return ray.get_runtime_context().get_node_id()

    import ray

    assert deliveries(pool, 30, disturb) == straight[: 3 * 29]
    nodes.kill(nodes.alive[-1])
    assert len(where) >= 2 and other not in where
    (line,) = said
    assert " has gymnasium 0.1 (here " in line and line.endswith(": it is not used")


def test_phases_have_the_same_bits_with_actors_elsewhere_that_die(tmp_path, nodes):
    wanted = train(config(env_steps=3_000), tmp_path / "here", ray="off", console=None)
    with killing(nodes, seconds=1.0):
        got = train(config(env_steps=3_000), tmp_path / "there", ray=nodes.address, console=None)
    assert got.digest == wanted.digest


@contextlib.contextmanager
def killing(nodes, seconds=2.0):
    """Kills an actor of this process's run every so often."""
    over, killed = threading.Event(), []

    def work():
        while not over.wait(seconds):
            if found := processes(nodes.address):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(found), signal.SIGKILL)
                    killed.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
    assert killed


@pytest.mark.parametrize("disturbed", [False, True])
def test_free_running_replays_the_same_20_of_20(tmp_path, nodes, disturbed):
    digests = set()
    for number in range(10):  # ten undisturbed, ten with actors that are killed
        settings = {"env_steps": 1_200, "checkpoint_steps": 300, **FREE}
        with killing(nodes) if disturbed else contextlib.nullcontext():
            outcome = train(
                config(**settings), tmp_path / str(number), ray=nodes.address, console=None
            )
        verdict = repeat(outcome.run, console=None)
        assert verdict.identical and verdict.complete
        digests.add(outcome.digest)
    assert len(digests) > 1


def test_a_run_goes_on_in_another_place(tmp_path, nodes):
    first = train(config(env_steps=500, **FREE), tmp_path / "run", ray=nodes.address, console=None)
    resume(first.run, changes={"env_steps": 800}, ray="off", console=None)
    again = resume(first.run, changes={"env_steps": 1_100}, ray=nodes.address, console=None)
    assert again.env_steps >= 1_100 and repeat(again.run, console=None).identical


def test_an_actor_imports_no_tensorflow(begin):
    transport, _ = begin(actors=1)
    import ray

    def modules(_):
        import sys

        return "tensorflow" in sys.modules, "targetnet.agents.remote.collector" in sys.modules

    assert ray.get(transport._handles[0].__ray_call__.remote(modules)) == (False, True)


def test_a_fault_on_another_machine_is_the_same_line(tmp_path, nodes):
    broken = {"env_kwargs": {"fails": 97}, "seed": 1, "env_steps": 2_000}
    said = []
    for ray, name in (("off", "here"), (nodes.address, "there")):
        with pytest.raises(EnvFailed) as caught:
            train(config(**broken), tmp_path / name, ray=ray, console=None)
        said.append(str(caught.value).replace(str(tmp_path / name), ""))
    assert said[0] == said[1] and "actor 2 (seed 1), env 4" in said[0]


def test_an_actor_that_is_not_there_yet_keeps_no_run_from_its_end(begin, nodes, tmp_path):
    held = tmp_path / "held"
    _, pool = begin(env_kwargs={"held_by": str(held)})
    held.touch()
    os.kill(random.choice(processes(nodes.address)), signal.SIGKILL)
    pool.publish(network())
    for actor in pool.actors:
        pool.ask(actor, 0, {"epsilon": 0.3})
    pool.stop = lambda: True
    began = time.monotonic()
    with pytest.raises(StoppedWaiting):
        for actor in pool.actors:
            pool.take(actor)
    pool.close()
    assert time.monotonic() - began < 9  # 10 s are for those that are there


@pytest.mark.parametrize("ahead", [0, 2, 80])
def test_envs_are_closed_when_the_run_ends(begin, tmp_path, ahead):
    """Unless they have more to do than one can wait for: nearly 1 s for each of 80 deliveries."""
    toy = {"closes": str(tmp_path), "seconds": 0.1 if ahead else 0.0}
    _, pool = begin(env_kwargs=toy)
    pool.publish(network())
    for actor in pool.actors:
        pool.ask(actor, 0, {"epsilon": 1.0})
        pool.take(actor)
        for _ in range(ahead):
            pool.ask(actor, 0, {"epsilon": 1.0})
    began = time.monotonic()
    pool.close()
    assert len(list(tmp_path.iterdir())) == (0 if ahead == 80 else 6)
    assert time.monotonic() - began < 30
    pool.close()  # does nothing


def test_a_mistake_that_actors_meet_is_told_once(tmp_path, nodes):
    wrong, said = config(network="tests.agents.remote.toy:nothing"), []
    with pytest.raises(RlCoreError, match=r"^actor \d \(seed 0\): .*nothing") as caught:
        RemoteEnvs(wrong, RayActors(wrong, nodes.address, 1_000_000), said.append)
    assert caught.value.exit_code == 2 and not any("lost" in line for line in said)


def test_requests_go_to_the_actors_in_turn(begin):
    transport, pool = begin()
    import ray

    pool.publish(network())
    served = []
    for _ in range(10):
        for actor in pool.actors:
            while pool.pending(actor) < 2:
                pool.ask(actor, 0, {"epsilon": 1.0})
        ray.wait([asked[0] for asked in transport._asked.values()], num_returns=3)
        served += [pool.take()[0].actor for _ in range(3)]
    assert all(sorted(served[i : i + 3]) == [0, 1, 2] for i in range(0, 30, 3))


def test_numbers_of_requests_are_checked(begin):
    transport, pool = begin(actors=1)
    pool.publish(network())
    handle = transport._handles[0]
    import ray

    with pytest.raises(ray.exceptions.RayTaskError, match="AssertionError"):
        ray.get(handle.collect.remote(Request(5, 0, 0, {"epsilon": 1.0}), network()))
