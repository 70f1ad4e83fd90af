"""A phase of updates: one fused call where there is a loop for it, else one call per update."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import ApplyOps, PhaseCalls, blocks_of, fused_updates
from targetnet.rl_core.optimizers.adam import Adam
from targetnet.rl_core.optimizers.calls import FusedCalls
from targetnet.rl_core.optimizers.packed_adam import LoopAdam, LoopMoments
from tests.rl_core.fed_age import KnownAge

close_to = functools.partial(pytest.approx, rel=1e-5)
NONE, HEAD = frozenset(), frozenset({"head"})


class Steps:
    """loss = torso + head: every step of Adam is the rate."""

    def __init__(self, engine, fused, *, loop=True, min_updates=2):
        """`fused`: the exempt sets there is a loop for, or a call that makes one update."""
        self.engine = engine
        with self.engine.building():
            self.rate = tf.placeholder(tf.float32, [])
            with tf.variable_scope("model"):
                self.variables = [
                    tf.get_variable(name, initializer=np.float32(10)) for name in ("torso", "head")
                ]
            self.counts = [
                tf.get_variable(name, initializer=0, trainable=False) for name in ("single", "loop")
            ]
            # How often the graph was asked for the age.
            self.asked = tf.get_variable("asked", initializer=np.int64(0), trainable=False)
            self.age = KnownAge()
            loss = tf.add_n([v.read_value() for v in self.variables])
            ops = ApplyOps(loss, blocks_of("model"), lambda: Adam(self.rate))
            kept = tf.get_variable("kept", initializer=np.int64(0), trainable=False)
            with tf.control_dependencies([ops.done]):
                counted = self.counts[0].assign_add(1, read_value=False)
                end = tf.group(counted, self.asked.assign_add(1, read_value=False))
                end_without_sync = tf.group(
                    counted, kept.assign(self.age.fed_age, read_value=False)
                )
            stats = (loss, ops.grad_norm)
            count = tf.placeholder(tf.int32, []) if loop else None
            self.moments = LoopMoments(self.engine, ops)
            loops = {exempt: self.loop(ops, exempt, count, stats) for exempt in fused}
            self.calls = PhaseCalls(
                self.engine, ops, self.moments, end, end_without_sync, stats, loops, min_updates,
                [self.rate], self.age,
            )  # fmt: skip
        self.engine.start()

    def loop(self, ops, exempt, count, like):
        adam = LoopAdam(self.moments, [name for name in ops.names if name not in exempt])

        def update(moments):
            loss = tf.add_n([v.read_value() for v in self.variables])
            numerics, made, moments, applied = adam.apply(
                loss, moments, learning_rate=self.rate, max_grad_norm=None
            )
            with tf.control_dependencies([applied]):
                counted = self.counts[1].assign_add(1, read_value=False)
            return (loss, numerics[1]), moments, counted, made

        last = fused_updates(update, count, like, adam, compiled=False)
        return FusedCalls(last, last[0].op, count)

    def run(self, exempt, updates, wanted=False, period=3):
        return self.calls.run(exempt, updates, [np.float32(0.5)], wanted, period)


@pytest.mark.cases(2)
@pytest.mark.parametrize("fused", [[], [NONE], [HEAD], [NONE, HEAD]], ids=str)
def test_a_phase_is_as_many_updates_with_or_without_a_loop_for_it(engine, fused):
    steps = Steps(engine, fused)
    loss, norm = steps.run(NONE, 4, wanted=True)
    assert loss == close_to(17)  # before the fourth: 20 - 3 * (0.5 + 0.5)
    assert norm == close_to(2**0.5)
    loss, norm = steps.run(HEAD, 3, wanted=True)
    assert loss == close_to(15)  # 20 - 4 - 2 * 0.5
    assert norm == close_to(1)
    assert steps.engine.run(steps.variables) == close_to([6.5, 8])  # 10 - 7 / 2, 10 - 4 / 2
    looped = 4 * (NONE in fused) + 3 * (HEAD in fused)
    assert steps.engine.run(steps.counts) == [7 - looped, looped]


@pytest.mark.cases(1)
@pytest.mark.parametrize("updates", [1, 2, 5])
@pytest.mark.parametrize("exempt", [NONE, HEAD], ids=["with a loop", "without"])
def test_unless_wanted_no_statistics_are_given_and_the_updates_are_made_all_the_same(
    engine, exempt, updates
):
    steps = Steps(engine, [NONE])
    assert steps.run(exempt, updates) is None
    torso, head = steps.engine.run(steps.variables)
    assert torso == close_to(10 - updates / 2)
    assert head == (10 if exempt else close_to(10 - updates / 2))


def test_statistics_of_a_loop_need_no_second_call_which_takes_long_to_make(engine, monkeypatch):
    steps, made = Steps(engine, [NONE]), []
    make = engine._raw_callable
    monkeypatch.setattr(engine, "_raw_callable", lambda *of: made.append(of) or make(*of))
    assert steps.run(NONE, 4, wanted=True)[0] == close_to(17)
    assert steps.run(NONE, 4) is None
    loops = [of for of in made if len(of[1]) == 2]  # fed the number of updates too
    assert len(loops) == 1


def test_a_phase_of_one_is_a_single_call(engine):
    steps = Steps(engine, [NONE])
    steps.run(NONE, 1)
    assert steps.engine.run(steps.counts) == [1, 0]


def test_a_phase_of_one_is_a_fused_call_where_that_serves_one_too(engine):
    steps = Steps(engine, [NONE], min_updates=1)
    assert steps.run(NONE, 1, wanted=True)[0] == close_to(20)
    assert steps.engine.run(steps.counts) == [0, 1]


def test_calls_that_make_one_update_are_made_as_often(engine):
    steps = Steps(engine, [NONE], loop=False, min_updates=1)
    assert steps.run(NONE, 3, wanted=True)[0] == close_to(18)  # before the third
    assert steps.run(NONE, 2) is None
    steps.run(HEAD, 1)
    assert steps.engine.run(steps.counts) == [1, 5]
    steps.moments.to_slots(changed=False)
    assert steps.engine.run(steps.variables) == close_to([7, 7.5])


@pytest.mark.parametrize("loop", [True, False])
def test_a_copy_is_passed_by_in_calls_of_one_as_in_loops(engine, loop):
    steps = Steps(engine, [NONE], loop=loop, min_updates=1)
    steps.age.age_in_python = 0
    steps.run(NONE, 8)  # of ages 1, 2, 0, 1, 2, 0, 1, 2
    assert steps.age.age_in_python == 2


def test_the_graph_decides_about_a_copy_only_where_one_is_due_or_nobody_knows(engine):
    steps = Steps(engine, [])
    steps.run(NONE, 4)
    assert steps.engine.run(steps.asked) == 4
    steps.age.age_in_python = 0
    steps.run(NONE, 7)  # of ages 1, 2, 0, 1, 2, 0, 1
    assert steps.engine.run(steps.asked) == 4 + 2
    steps.run(NONE, 1, period=1)
    assert steps.engine.run(steps.asked) == 4 + 2 + 1
    assert steps.engine.run(steps.counts) == [12, 0]


@pytest.mark.thorough
def test_phases_add_no_operation(engine):
    steps = Steps(engine, [NONE])
    before = len(steps.engine.graph.get_operations())
    for updates in (1, 3, 2):
        for exempt in (NONE, HEAD):
            steps.run(exempt, updates)
            steps.run(exempt, updates, wanted=True)
    assert len(steps.engine.graph.get_operations()) == before
