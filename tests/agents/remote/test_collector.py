"""The rows that actors deliver, and the transitions that a replay makes of them."""

import os
import subprocess
import sys
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.remote.actor_pool import ActorRecord
from targetnet.agents.remote.collector import Collector
from targetnet.agents.remote.deliveries import ActorFault, Request
from targetnet.agents.remote.ray_actors import RemoteCollector
from targetnet.envs.seeding import episode_seed
from targetnet.rl_core import Engine
from targetnet.rl_core.errors import ConfigError, FeedError, UnknownName
from targetnet.rl_core.replay import NStepTransitions, ReplayMemory, UniformSampler, ValidRows
from targetnet.rl_core.replay.rows import transition_columns
from tests.agents.remote.helpers import config
from tests.agents.remote.toy import NUM_ACTIONS
from tests.envs import lives

DISCOUNT = 0.5
# In the latter a lost life is an end for the learner, and the episode goes on.
ENVS = {"toy": {}, "lives": {"env_id": lives.ID, "env_kwargs": {"by_chance": True}}}


def network(seed=0):
    """Weights of one dense layer of 8 units and a head, for two numbers."""
    rng = np.random.default_rng(seed)
    shapes = {
        "torso/dense_0/w": (2, 8), "torso/dense_0/b": (8,),
        "head/q/w": (8, NUM_ACTIONS), "head/q/b": (NUM_ACTIONS,),
    }  # fmt: skip
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def collected(of, actor, deliveries, epsilon=0.5, more=None):
    """The first deliveries of an actor; `more`: further live values."""
    collector = Collector(of, actor)
    try:
        return [
            collector.collect(Request(k, 0, 0, {"epsilon": epsilon} | (more or {})), network())
            for k in range(deliveries)
        ]
    finally:
        collector.close()


def stepped_plainly(of, env, actions, n):
    """Transitions of one env, one env.step after the other, with the actions of its deliveries.

    [(observation, action, return, discount, observation at the end)]; a return ends with its
    delivery, as with its episode.
    """
    toy, found, episode = gym.make(of.env_id, **of.env_kwargs), [], 0
    shown, _ = toy.reset(seed=episode_seed(of.seed, env, episode))
    over, goes_on = False, False
    for delivery in actions:
        rows = []  # of this delivery: (observation, action, reward, terminated, next one, over)
        for action in delivery:
            if over:  # the action is ignored
                if not goes_on:
                    episode += 1
                    shown, _ = toy.reset(seed=episode_seed(of.seed, env, episode))
                over = False
                continue
            then, reward, terminated, truncated, info = toy.step(action)
            over, goes_on = terminated or truncated, info.get("life_lost", False)
            rows.append((tuple(shown), action, reward, terminated, tuple(then), over))
            shown = then
        for i, (source, action, *_) in enumerate(rows):
            total, discount, k = 0.0, 1.0, i
            while True:
                _, _, reward, terminated, then, ended = rows[k]
                total += discount * reward
                discount = 0.0 if terminated else discount * DISCOUNT
                k += 1
                if ended or k == len(rows) or k == i + n:
                    break
            found.append((source, action, round(total, 4), discount, then))
    toy.close()
    return found


class Replay:
    """A replay of two envs per time step, and all transitions that it would ever sample."""

    def __init__(self, n, masks):
        self.engine = Engine()
        with self.engine.building():
            columns = transition_columns([2], np.float32, NUM_ACTIONS if masks else None)
            rows = ValidRows(2_000, 2, columns)
            items = NStepTransitions(
                rows, lambda: tf.constant(DISCOUNT), lambda: tf.constant(n, tf.int64)
            )
            memory = ReplayMemory(rows, UniformSampler(rows), items)
            fed = memory.placeholders([None, 2])
            self.columns = tuple(fed)
            write = memory.write_steps(fed)
            head, tail = rows.queue()
            # As many as there are at most; then once more from the first on.
            numbers = rows.queue_at(head + tf.range(1_000, dtype=tf.int64) % (tail - head))
            batch = items.gather(tf.ensure_shape(numbers, [1_000]), None)
            self._count = self.engine.callable(tail - head)
            read = [batch.s_tm1, batch.a_tm1, batch.r_t, batch.discount_t, batch.s_t]
            legal = [] if batch.legal_t is None else [batch.legal_tm1, batch.legal_t]
        self.engine.start()
        self._write = self.engine.callable(None, [*fed.values()], [write])
        self._read = self.engine.callable([*read, *legal])

    def store(self, delivery):
        self._write(*(delivery.rows[name] for name in self.columns))

    def transitions(self):
        s, a, r, d, then, *_ = self._read()
        return [
            (tuple(s[i]), int(a[i]), round(float(r[i]), 4), float(d[i]), tuple(then[i]))
            for i in range(int(self._count()))
        ]

    def legal(self):
        s, _, _, _, then, *legal = self._read()
        return s, then, *legal


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("n", [1, 3])
def test_the_replay_samples_what_the_same_envs_stepped_plainly_give(n, env):
    of, replay, rng = config(**ENVS[env]), Replay(n, masks=False), np.random.default_rng(0)
    deliveries = {actor: collected(of, actor, 12) for actor in range(3)}
    # As they may arrive: each actor's in their order, the actors' in any.
    order = rng.permutation(np.repeat(np.arange(3), 12))
    waiting = {actor: list(of_actor) for actor, of_actor in deliveries.items()}
    for actor in order:
        replay.store(waiting[actor].pop(0))
    wanted = Counter()
    for actor, of_actor in deliveries.items():
        for m in range(2):
            actions = [d.rows["action"][:-1, m].tolist() for d in of_actor]
            wanted.update(stepped_plainly(of, 2 * actor + m, actions, n))
    assert Counter(replay.transitions()) == wanted
    # Ends of both kinds, and returns that were cut at a delivery's end.
    discounts = Counter(d for *_, d, _ in wanted.elements())
    assert discounts[0.0] > 10 and discounts[DISCOUNT] > 10
    made = sum(int(d.transitions.sum()) for of_actor in deliveries.values() for d in of_actor)
    assert made == wanted.total()


def test_masks_are_those_of_their_own_observations_at_the_borders_too():
    of, replay = config(env_kwargs={"masks": True}), Replay(1, masks=True)
    for pair in zip(collected(of, 0, 9), collected(of, 1, 9), strict=True):
        for delivery in pair:
            replay.store(delivery)
    s, then, legal_tm1, legal_t = replay.legal()
    for observation, legal in ((s, legal_tm1), (then, legal_t)):
        wanted = np.arange(NUM_ACTIONS) != observation[:, 1:] % NUM_ACTIONS
        np.testing.assert_array_equal(legal, wanted)
    _, a, *_ = replay._read()
    assert legal_tm1[np.arange(len(a)), a].all()


def test_a_delivery_begins_where_the_one_before_ended():
    first, second = collected(config(), 1, 2)
    np.testing.assert_array_equal(first.rows["observation"][-1], second.rows["observation"][0])
    assert second.rows["autoreset"][0].all() and not second.rows["reward"][0].any()
    assert first.rows["observation"].shape == (6, 2, 2)


@pytest.mark.parametrize(("env", "before"), [("toy", 4), *(("lives", n) for n in range(1, 6))])
def test_a_collector_that_is_brought_back_goes_on_with_the_same_bits(env, before):
    of = config(**ENVS[env])
    straight = collected(of, 2, 7)
    known = ActorRecord.new(2)
    for delivery in straight[:before]:
        known.note(delivery)
    assert any(lane["actions"] for lane in known.lanes)  # in the middle of an episode
    other = Collector(of, 2)
    assert other.restore(*known.since) == []
    for delivery in straight[before:]:
        again = other.collect(Request(delivery.number, 9, 0, {"epsilon": 0.5}), network())
        assert again.checksum() == delivery.checksum() and again.lanes == delivery.lanes
        assert again.episodes == delivery.episodes
    other.close()


def test_actors_explore_with_numbers_of_their_own():
    of = config(num_envs=1)
    first, second = (collected(of, actor, 4, epsilon=1.0) for actor in (0, 1))
    actions = [[d.rows["action"][:-1].tolist() for d in each] for each in (first, second)]
    assert actions[0] != actions[1]


def test_a_fault_of_an_env_names_actor_env_and_seed():
    of = config(env_kwargs={"fails": 3}, seed=3)
    answers = []
    for actor in range(3):
        collector = Collector(of, actor)
        answers.append(collector.collect(Request(0, 0, 0, {"epsilon": 1.0}), network()))
    faults = [answer for answer in answers if isinstance(answer, ActorFault)]
    assert faults, "no episode fails"
    fault = faults[0]
    error = fault.error()
    assert type(error).__name__ == "EnvFailed" and error.exit_code == 1
    assert str(error).startswith(f"actor {fault.actor} (seed 3), env ")
    assert "the toy is broken" in str(error) and fault.env_steps >= 2


def test_a_mistake_that_the_user_can_mend_is_a_fault_of_its_own_kind(monkeypatch):
    class Own(FeedError):
        """A class that the learner's side does not know."""

    remote = RemoteCollector(config(seed=3), 1)
    assert remote.restore(0, []).fault is None

    def fails(weights):
        raise Own("weights of another shape")

    monkeypatch.setattr(remote._collectors[1]._policy, "load", fails)
    error = remote.collect(Request(0, 0, 0, {"epsilon": 1.0}), network()).error()
    assert type(error) is FeedError and error.exit_code == 2
    assert str(error) == "actor 1 (seed 3): weights of another shape"


def test_a_mistake_that_an_actor_meets_when_it_begins_is_told_as_what_it_is():
    remote = RemoteCollector(config(network="tests.agents.remote.toy:nothing"), 2)
    error = remote.restore(0, []).fault.error()
    assert isinstance(error, UnknownName | ConfigError) and error.exit_code == 2
    assert str(error).startswith("actor 2 (seed 0): ") and "nothing" in str(error)


ONEDNN = """
from targetnet.agents.remote.ray_actors import RemoteCollector
from targetnet.agents.remote.deliveries import Request
from tests.agents.remote.helpers import config
{before}
back = RemoteCollector(config(onednn=True, noisy=True), 0).restore(0, [])
print(back.fault.text if back.fault else "fine")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "fine"),
        ("import tensorflow", "actor 0 (seed 0): onednn = true, but TensorFlow was imported with"),
    ],
)
def test_an_actor_with_a_graph_has_the_operations_of_the_config_whatever_its_node_says(
    before, said
):
    told = subprocess.run(
        [sys.executable, "-c", ONEDNN.format(before=before)], text=True, capture_output=True,
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}, check=True,
    )  # fmt: skip
    assert told.stdout.splitlines()[-1].startswith(said), told.stdout
