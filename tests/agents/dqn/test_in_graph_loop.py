"""What the loop in the graph decides, beside what Python decides in the other loops."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.compiled import InGraphLoop, LoopCounts, chunk_placeholders
from targetnet.agents.loops.plain import LearnClock, LoopState
from targetnet.rl_core.optimizers.freeze import Arm, FreezeSchedule

BLOCKS = ("torso", "head", "value")
ARMS = [("torso",), (), ("head", "value")]


def loop_of(arms, rollout=0, **config):
    """All of a loop that its decisions read."""
    return SimpleNamespace(
        config=SimpleNamespace(rollout=rollout, **config),
        _blocks=BLOCKS,
        _arms=arms,
        fed=chunk_placeholders(len(BLOCKS), len(arms), knobs=2),
    )


@pytest.mark.parametrize("num_envs", [1, 4])
def test_the_loop_in_the_graph_learns_when_the_learn_clock_says(engine, num_envs):
    """Also while the period is shortened and lengthened, and time steps have resets."""
    with engine.building():
        loop = loop_of([Arm(frozenset(), 1)], learn_start=30)
        due, age = InGraphLoop._due(loop, loop.fed.counts, tf.zeros([1], tf.int64))
    engine.start()
    fed = loop.fed
    call = engine.callable((due, age), [*fed.counts, fed.learn_period, fed.updates_per_learn])
    rng, clock, env_step, learn_age, some = np.random.default_rng(num_envs), LearnClock(), 0, 0, 0
    for _ in range(300):
        new_steps, period = int(rng.integers(0, num_envs + 1)), int(rng.integers(1, 12))
        counts = LoopCounts(*map(np.int64, (env_step, new_steps, learn_age)))
        updates, learn_age = call(*counts, np.int64(period), np.int64(3))
        wanted = clock.phases_due(new_steps, period) * 3 * (env_step >= 30)
        assert (updates, learn_age) == (wanted, clock.age)
        some += updates
        env_step += new_steps
    assert some > 0


def test_with_rollouts_it_counts_time_steps_whatever_was_reset(engine):
    with engine.building():
        loop = loop_of([Arm(frozenset(), 1)], rollout=5)
        now = tf.placeholder(tf.int64, [1])
        due, age = InGraphLoop._due(loop, loop.fed.counts, now)
    engine.start()
    fed = loop.fed
    call = engine.callable((due, age), [*fed.counts, fed.learn_period, fed.updates_per_learn, now])
    rng, config = np.random.default_rng(0), DqnConfig(rollout=5, batch_size=1, epochs=3)
    state, learn_age, phases = LoopState(), 0, []
    for t in range(40):
        counts = LoopCounts(*map(np.int64, (state.env_step, state.new_steps, learn_age)))
        updates, learn_age = call(*counts, np.int64(5), np.int64(15), np.array([t]))
        assert updates == state.updates_due(config, {}) and learn_age == state.clock.age
        phases += [t] * int(updates // 15)
        state.count(int(rng.integers(0, 2)))
    assert phases == [5, 10, 15, 20, 25, 30, 35]


@pytest.mark.parametrize("number", [2, 3])
def test_the_loop_in_the_graph_trains_whose_turn_it_is(engine, number):
    """Update by update, also while the arms' lengths change and where no schedule is followed."""
    rng = np.random.default_rng(number)
    schedule = FreezeSchedule([Arm(frozenset(exempt), 3) for exempt in ARMS[:number]])
    with engine.building():
        loop = loop_of(schedule.arms)
        turned = InGraphLoop._turn(loop, loop.fed.arm)
    engine.start()
    fed = loop.fed
    call = engine.callable(turned, [fed.arm, fed.arm_lengths, fed.follow_arms, fed.trained])
    by_hand, position, turns = np.array([True, False, True]), (0, 0), set()
    for _ in range(200):
        if rng.random() < 0.2:
            schedule.set_length(int(rng.integers(number)), int(rng.integers(1, 6)))
        lengths = np.array([arm.updates for arm in schedule.arms])
        follow = rng.random() < 0.8
        position, trained = call(np.array(position), lengths, np.bool_(follow), by_hand)
        if follow:
            ((exempt, updates),) = schedule.phases(1)
            assert updates == 1
            assert trained.tolist() == [block not in exempt for block in BLOCKS]
            turns.add(exempt)
        else:
            assert trained.tolist() == by_hand.tolist()
        assert tuple(position.tolist()) == schedule.position
    assert len(turns) == number


def test_one_arm_is_no_schedule_to_follow(engine):
    with engine.building():
        loop = loop_of([Arm(frozenset(), 1)])
        arm, trained = InGraphLoop._turn(loop, loop.fed.arm)
    assert arm is loop.fed.arm and trained is loop.fed.trained
    assert isinstance(trained, tf.Tensor)
