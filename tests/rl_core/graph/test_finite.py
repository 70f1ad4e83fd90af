"""What leads out of what is finite is noticed before anything of it is kept."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import ApplyOps, Engine, blocks_of, fused_updates
from targetnet.rl_core.graph.finite import (
    LARGEST_RATE,
    NotFinite,
    all_finite,
    checked,
    numerics_of,
)
from targetnet.rl_core.graph.sync import copy_vars
from targetnet.rl_core.optimizers.adam import Adam
from targetnet.rl_core.optimizers.calls import FusedCalls, PhaseCalls
from targetnet.rl_core.optimizers.packed_adam import LoopAdam, LoopMoments
from tests.rl_core.fed_age import KnownAge

NONE, TORSO = frozenset(), frozenset({"torso"})
HUGE = np.finfo(np.float32).max


class Model:
    """loss = x * torso + head ** 4 / 4, by single updates and by loops, and the target's age."""

    def __init__(self, engine):
        with engine.building():
            self.x, self.rate = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
            with tf.variable_scope("model"):
                v = [tf.get_variable(n, initializer=np.float32(2)) for n in ("torso", "head")]
            self.updates = tf.get_variable("updates", initializer=0, trainable=False)
            self.tried = tf.get_variable("tried", initializer=0, trainable=False)
            self.copies = tf.get_variable("age", initializer=np.int64(0), trainable=False)

            def loss():
                return self.x * v[0].read_value() + v[1].read_value() ** 4 / 4

            now = loss()
            ops = self.ops = ApplyOps(
                now, blocks_of("model"), lambda: Adam(self.rate), learning_rate=self.rate
            )
            self.age = KnownAge()
            with tf.control_dependencies([ops.done]):
                counted = self.updates.assign_add(1, read_value=False)
                end = tf.group(counted, self.copies.assign(0, read_value=False))
                end_without_sync = tf.group(
                    counted, self.copies.assign(self.age.fed_age, read_value=False)
                )
            self.moments = LoopMoments(engine, ops)
            adam = LoopAdam(self.moments, ops.names)

            def update(moments):
                loss_now = loss()
                numerics, made, moments, applied = adam.apply(
                    loss_now, moments, learning_rate=self.rate, max_grad_norm=None
                )
                with tf.control_dependencies([applied]):
                    end = tf.group(
                        self.updates.assign_add(tf.cast(made, tf.int32), read_value=False),
                        self.tried.assign_add(1, read_value=False),
                    )
                return (numerics,), moments, end, made

            count = tf.placeholder(tf.int32, [])
            (numerics,) = fused_updates(update, count, [ops.numerics], adam, compiled=False)
            loops = {NONE: FusedCalls((numerics,), checked(numerics).op, count)}
            self.calls = PhaseCalls(
                engine, ops, self.moments, end, end_without_sync, (now,), loops, 2,
                [self.x, self.rate], self.age,
            )  # fmt: skip
            self.kept = [v.read_value() for v in (*v, self.updates, self.copies)]
            self.slots = [s.read_value() for name in ops.names for s in ops.state(name)]
        self.engine = engine
        engine.start()
        self.age.age_in_python = 0

    def run(self, updates, x, rate=0.5, exempt=NONE):
        self.calls.run(exempt, updates, [np.float32(x), np.float32(rate)], False, 9)

    def state(self):
        self.moments.to_slots(changed=False)
        return [value.item() for value in self.engine.run([*self.kept, *self.slots])]


@pytest.mark.cases(0)
@pytest.mark.parametrize("executor", ["single_threaded", "default"])
def test_nothing_of_an_update_that_is_not_finite_is_kept(executor):
    model = Model(Engine(executor=executor))
    model.run(1, 1.0)
    model.run(2, 1.0)
    before = model.state()
    assert before[2:4] == [3, 1]
    for updates in (1, 2):
        for x, rate, bad in (
            (np.nan, 0.5, [True, True, False]),
            (1e30, 0.5, [False, True, False]),  # the square of the gradient overflows
            (1.0, 1.1 * LARGEST_RATE, [False, False, True]),
        ):
            model.age.age_in_python = 1
            with pytest.raises(NotFinite) as caught:
                model.run(updates, x, rate)
            assert (~np.isfinite(caught.value.numerics)).tolist() == bad
            assert model.state() == before and model.age.age_in_python is None
    model.engine.close()


@pytest.mark.thorough
def test_an_exempt_block_may_be_anything(engine):
    model = Model(engine)
    with pytest.raises(NotFinite):
        model.run(1, 1e30)
    model.run(1, 1e30, exempt=TORSO)
    assert model.state()[:3] == [2, pytest.approx(1.5), 1]


@pytest.mark.thorough
def test_a_loop_ends_with_the_update_that_was_not_made(engine):
    """The first leaves a weight of some 1e17; of that the fourth power is beyond float32."""
    model = Model(engine)
    with pytest.raises(NotFinite):
        model.run(50, 1.0, 1e18)
    assert model.state()[2] == 1 and model.engine.run(model.tried) == 2
    assert np.isfinite(model.state()).all()


def test_a_soft_copy_is_made_only_if_it_is_to_be(engine):
    with engine.building():
        for scope, value in (("online", np.nan), ("target", -0.0)):
            with tf.variable_scope(scope):
                tf.get_variable("w", initializer=np.float32(value))
        due = tf.placeholder(tf.bool, [])
        copy = copy_vars("online", "target", tau=0.5, only_if=due)
        target = tf.trainable_variables()[1].read_value()
    engine.start()
    call = engine.callable(None, [due], [copy])
    call(np.False_)
    assert engine.run(target) == 0 and np.signbit(engine.run(target))
    call(np.True_)
    assert np.isnan(engine.run(target))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_signs_are_finite_only_together(evaluate, at):
    good = np.float32([HUGE, 1e19, LARGEST_RATE])
    assert evaluate(all_finite(numerics_of(*good)))
    bad = good.copy()
    bad[at] = np.inf if at else np.nan
    assert not evaluate(all_finite(numerics_of(*bad)))


def test_the_largest_step_of_adam_carries_no_weight_out_of_float32():
    """What the module says, in float32 with numbers flushed as processors may do it."""
    lr, eps = np.float32(LARGEST_RATE), np.float32(1e-30)  # the least `adam_epsilon`
    for size in np.float32(10.0) ** np.arange(-37, 20):
        for numerics in ([1] * 30, [1] + [0] * 30, [1e-3] * 30 + [1]):
            m = v = p1 = p2 = np.float32(0)
            p1, p2 = np.float32(0.9), np.float32(0.999)
            for sign in numerics:
                g = np.float32(sign) * size
                square = g * g
                if not np.isfinite(square):
                    break
                m += (g - m) * np.float32(0.1)
                v += (square - v) * np.float32(0.001)
                v = np.float32(0) if v < np.finfo(np.float32).tiny else v
                step = m * (lr * np.sqrt(1 - p2) / (1 - p1)) / (np.sqrt(v) + eps)
                assert np.isfinite(HUGE + np.abs(step))
                p1, p2 = p1 * np.float32(0.9), p2 * np.float32(0.999)
