"""All actors of a run, on a transport that loses them."""

import weakref
from functools import partial

import numpy as np
import pytest

from targetnet.agents.remote.actor_pool import ActorPool, StoppedWaiting
from targetnet.agents.remote.deliveries import ActorLost
from targetnet.agents.remote.transport import InProcess
from targetnet.rl_core.errors import EnvWorkerLost
from tests.agents.remote.helpers import Repeating, Unreliable, config
from tests.agents.remote.test_collector import network


def deliveries(pool, phases):
    """In phases, with new weights in each: (actor, number, checksum)."""
    found = []
    for phase in range(phases):
        pool.publish(network(phase))
        for actor in pool.actors:
            pool.ask(actor, phase, {"epsilon": 0.3})
        answers = [pool.take(actor)[0] for actor in pool.actors]
        found += [(a.actor, a.number, a.checksum()) for a in answers]
    return found


def test_actors_that_are_lost_and_replaced_deliver_the_same_rows_once():
    of = config()
    straight = deliveries(ActorPool(InProcess(of), 3, 2), 20)
    transport = Unreliable(of, seed=1, losses=0.15)
    said = []
    pool = ActorPool(transport, 3, 2, said.append)
    assert deliveries(pool, 20) == straight
    assert transport.lost > 10 and len(said) == transport.lost
    assert said[0].startswith("actor ") and "was lost (by chance); another one goes on" in said[0]


def test_requests_ahead_are_asked_again_with_the_weights_that_they_name():
    of = config()

    def ahead(transport):
        pool = ActorPool(transport, 3, 2)
        for seed in range(4):
            pool.publish(network(seed))
            for actor in pool.actors:
                pool.ask(actor, seed, {"epsilon": 0.3})
        return [
            (a.actor, a.number, r.updates, a.checksum())
            for actor in pool.actors
            for a, r in (pool.take(actor) for _ in range(4))
        ]

    transport = Unreliable(of, seed=3, losses=0.25)
    assert ahead(transport) == ahead(InProcess(of))
    assert transport.lost > 3


def test_weights_are_kept_as_long_as_a_request_names_them():
    class Sent(InProcess):
        def send(self, weights):
            return sent.setdefault(len(sent), partial(dict, weights))

        def ask(self, actor, request, weights):
            super().ask(actor, request, weights())

    sent, transport = weakref.WeakValueDictionary(), Sent(config())
    pool = ActorPool(transport, 2, 2)
    for seed in range(5):
        pool.publish(network(seed))
        pool.ask(seed % 2, seed, {"epsilon": 1.0})
    assert list(sent) == [0, 1, 2, 3, 4]
    pool.take(0)  # named 0
    pool.take(1)  # named 1
    pool.take(0)
    assert list(sent) == [3, 4] and list(pool.state().weights) == [3, 4]
    pool.take(1)
    pool.take(0)
    assert list(sent) == [4] and pool.state().weights == {}


def test_a_pool_that_is_brought_back_goes_on_with_its_requests():
    of = config()

    def two_ahead(pool):
        for seed in range(2):
            pool.publish(network(seed))
            for actor in pool.actors:
                pool.ask(actor, seed, {"epsilon": 0.3})

    first = ActorPool(InProcess(of), 3, 2)
    two_ahead(first)
    for actor in (2, 0, 0):
        first.take(actor)
    second = ActorPool(InProcess(of), 3, 2)
    assert second.restore(first.state()) == []
    for actor in (1, 2, 1):
        (one, _), (other, _) = first.take(actor), second.take(actor)
        assert one.checksum() == other.checksum() and one.number == other.number
    assert first.state().lanes == second.state().lanes


def test_an_actor_that_is_lost_again_and_again_ends_the_run_in_one_line():
    class Dead(InProcess):
        def take(self, actors, seconds):
            if self._back:
                return super().take(actors, seconds)
            raise ActorLost(actors[0], "its machine is\non fire")

    pool = ActorPool(Dead(config()), 3, 2)
    pool.publish(network())
    pool.ask(1, 0, {"epsilon": 1.0})
    wanted = "actor 1 was lost 6 times without a delivery: its machine is on fire"
    with pytest.raises(EnvWorkerLost, match=wanted):
        pool.take(1)


def test_an_env_that_does_not_come_back_the_same_is_told():
    of = config(env_kwargs={"forgets": True})
    transport, said = InProcess(of), []
    pool = ActorPool(transport, 2, 2)
    pool.say = said.append
    pool.publish(network())
    for _ in range(2):
        pool.ask(0, 0, {"epsilon": 1.0})
    pool.take(0)
    transport._collectors.pop(0).close()
    take = transport.take
    transport.take = lambda *_: (_ for _ in ()).throw(ActorLost(0, "gone"))
    original, transport.start = transport.start, None

    def start(since):
        transport.take = take
        return original(since)

    transport.start = start
    answer, _ = pool.take(0)
    assert "gave other results" in said[1]
    # From there on it is known by the actions of its new episode alone.
    for m, lane in enumerate(pool.state().lanes[:2]):
        since = np.flatnonzero(answer.rows["autoreset"][:, m])[-1]
        assert lane["actions"] == answer.rows["action"][since:-1, m].tolist()
    assert np.isfinite(answer.rows["observation"]).all()


def answers_freely(pool, count):
    """(actor, number, checksum) of so many answers, whichever is the first; each asks again."""
    pool.publish(network())
    for actor in pool.actors:
        pool.ask(actor, 0, {"epsilon": 0.3})
    found = []
    for _ in range(count):
        answer, _ = pool.take()
        found.append((answer.actor, answer.number, answer.checksum()))
        pool.ask(answer.actor, 0, {"epsilon": 0.3})
    return found


def test_others_are_served_while_a_lost_actor_is_brought_back():
    of, said = config(), []
    straight = answers_freely(ActorPool(InProcess(of), 3, 2), 60)
    transport = Repeating(of, 1, asked=lambda: pytest.fail("waits for it"))
    pool = ActorPool(transport, 3, 2, said.append)
    found = answers_freely(pool, 30)
    assert transport.lost and {actor for actor, *_ in found[-20:]} == {0, 2}
    transport.there = True
    while pool.state().delivered[1] < 10:
        answer, _ = pool.take()
        found.append((answer.actor, answer.number, answer.checksum()))
        pool.ask(answer.actor, 0, {"epsilon": 0.3})
    assert said == ["actor 1 was lost (by design); another one goes on after its 3 deliveries"]
    # Nothing is lost or doubled with it.
    assert [a for a in found if a[0] == 1] == [a for a in straight if a[0] == 1][:10]


def test_a_wait_for_lost_actors_alone_is_told_in_one_line_and_ends_if_the_run_is_to_stop(
    monkeypatch,
):
    monkeypatch.setattr("targetnet.agents.remote.actor_pool._QUIET_SECONDS", 0.01)
    looks, said = [], []
    transport = Repeating(config(actors=2), 1, asked=lambda: looks.append(1))
    pool = ActorPool(transport, 2, 2, said.append)
    pool.publish(network())
    for _ in range(4):
        pool.ask(1, 0, {"epsilon": 0.3})
    for _ in range(3):
        pool.take(1)
    steps = max(len(lane["actions"]) for lane in pool.state().lanes[2:])
    pool.stop = lambda: len(looks) > 50
    for actor in (1, None):
        del said[:], looks[:]
        with pytest.raises(StoppedWaiting):
            pool.take(actor)
        wait = (
            f"waiting for actor 1, which repeats up to {steps} steps of its running episodes; "
            "Ctrl-C ends the run at once"
        )
        assert said[-1:] == [wait] and len(looks) == 51
        assert len(said) == (2 if actor == 1 else 1)  # that it was lost, once
    transport.there = True
    assert pool.take(1)[0].number == 3
