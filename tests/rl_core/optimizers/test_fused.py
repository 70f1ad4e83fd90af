"""Many updates in one call are the same updates as one by one, compiled or not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import ApplyOps, Engine, blocks_of, copy_vars, dense, fused_updates
from targetnet.rl_core.optimizers.adam import Adam, CenteredRmsProp, Sgd
from targetnet.rl_core.optimizers.freeze import BlockLoss
from targetnet.rl_core.optimizers.packed_adam import LoopAdam, LoopMoments

X = np.float32([[1, 0, 2], [0, 1, -1], [1, 1, 1], [2, -1, 0]])
Y = np.float32([[1], [-1], [2], [0]])
TORSO, NONE = frozenset({"torso"}), frozenset()


class Regression:
    """Two layers fitted to four points, singly and in fused loops."""

    def __init__(self, loops, compiled, *, chosen=False, own=False, optimizer=Adam):
        """`loops`: the exempt sets there is a loop for; `chosen`: loops are fed what they train.

        `own`: the torso has a loss and a rate of its own.
        """
        self.engine, self.has_own = Engine(), own
        with self.engine.building():
            tf.set_random_seed(3)
            self.rate = tf.placeholder(tf.float32, [], "rate")
            self.limit = tf.placeholder(tf.float32, [], "limit")
            self.count = tf.placeholder(tf.int32, [], "count")
            with tf.variable_scope("model") as scope:
                loss, error = self.build()
                self.updates = tf.get_variable("updates", initializer=0, trainable=False)
            self.ops = ApplyOps(
                loss,
                blocks_of(scope.name),
                lambda rate=self.rate: optimizer(rate),
                own=self.own(error),
                max_grad_norm=self.limit,
            )
            with tf.control_dependencies([self.ops.done]):
                self.end = self.updates.assign_add(1, read_value=False)
            self.stats = (loss, self.ops.grad_norm, error)
            self.moments = LoopMoments(self.engine, self.ops)
            self.trained = None
            if chosen:
                self.trained = {name: tf.placeholder(tf.bool, [], name) for name in self.ops.names}
            self.loops = {exempt: self.loop(exempt, compiled) for exempt in loops}
        self.engine.start()

    def build(self):
        y = dense(tf.nn.tanh(dense(tf.constant(X), 5, "torso")), 1, "head")
        error = y - Y
        return tf.reduce_mean(tf.square(error)), error

    def own(self, error):
        loss = tf.reduce_mean(tf.exp(error))
        return {"torso": BlockLoss(loss, 0.3 * self.rate)} if self.has_own else {}

    def loop(self, exempt, compiled):
        adam = LoopAdam(self.moments, [name for name in self.ops.names if name not in exempt])

        def update(moments):
            with tf.variable_scope("model", reuse=True):
                loss, error = self.build()
            numerics, made, moments, applied = adam.apply(
                loss, moments, self.trained, learning_rate=self.rate, max_grad_norm=self.limit,
                own=self.own(error),
            )  # fmt: skip
            with tf.control_dependencies([applied]):
                counted = self.updates.assign_add(tf.cast(made, tf.int32), read_value=False)
            return (loss, numerics[1], error), moments, counted, made

        return fused_updates(update, self.count, self.stats, adam, compiled=compiled)

    def fused(self, updates, exempt=NONE, rate=0.05, limit=0.5):
        self.moments.to_loops()
        call = self.engine.callable(self.loops[exempt], [self.count, self.rate, self.limit])
        return call(np.int32(updates), np.float32(rate), np.float32(limit))

    def fused_as_chosen(self, updates, exempt):
        self.moments.to_loops()
        feeds = [self.count, self.rate, self.limit, *self.trained.values()]
        trained = [np.bool_(name not in exempt) for name in self.trained]
        call = self.engine.callable(self.loops[NONE], feeds)
        return call(np.int32(updates), np.float32(0.05), np.float32(0.5), *trained)

    def single(self, updates, exempt=NONE, rate=0.05, limit=0.5):
        call = self.ops.callable(
            self.engine,
            exempt,
            fetches=self.stats,
            feeds=[self.rate, self.limit],
            targets=[self.end],
        )
        self.moments.to_slots()
        return [call(np.float32(rate), np.float32(limit)) for _ in range(updates)][-1]

    def state(self):
        """Weights, slots and step counters, by block."""
        self.moments.to_slots(changed=False)
        owned = {n: [*self.ops.variables(n), *self.ops.state(n)] for n in self.ops.names}
        return self.engine.run(owned)


def assert_close(got, wanted):
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6)


def assert_same_state(one, other):
    one, other = one.state(), other.state()
    for block in one:
        assert_close(one[block], other[block])


# Compiling costs most of these tests: one of them does both in the default run.
RARELY_COMPILED = [pytest.param("compiled", marks=pytest.mark.slow), "plain"]


@pytest.fixture(scope="module", params=["compiled", "plain"])
def compiled(request):
    return request.param == "compiled"


@pytest.fixture
def models(compiled):
    """One to run fused, one to run singly; equal in the beginning."""
    pair = Regression([NONE, TORSO], compiled), Regression([], compiled)
    yield pair
    for model in pair:
        model.engine.close()


@pytest.mark.cases(1)
def test_k_fused_updates_are_k_single_updates(models):
    fused, single = models
    assert_close(fused.fused(7), single.single(7))  # the last update's statistics
    assert_same_state(fused, single)
    assert fused.engine.run(fused.updates) == 7
    # once more, now that slots and counters are not fresh
    assert_close(fused.fused(5), single.single(5))
    assert_same_state(fused, single)


@pytest.mark.cases(0)
@pytest.mark.parametrize("compiled", RARELY_COMPILED, indirect=True)
def test_the_number_of_updates_and_the_rates_are_fed_and_the_graph_does_not_grow(models):
    fused, single = models
    before = len(fused.engine.graph.get_operations())
    for updates, rate, limit in [(1, 0.1, 1e9), (4, 0.01, 0.1), (2, 0.0, 1.0), (3, 0.05, 0.5)]:
        assert_close(
            fused.fused(updates, NONE, rate, limit), single.single(updates, NONE, rate, limit)
        )
    assert_same_state(fused, single)
    assert fused.engine.run(fused.updates) == 10
    assert len(fused.engine.graph.get_operations()) == before


@pytest.mark.cases(0)
@pytest.mark.parametrize("compiled", RARELY_COMPILED, indirect=True)
def test_single_and_fused_updates_may_alternate(models):
    """They share slots and step counters, so Adam does not notice."""
    mixed, single = models
    mixed.single(2)
    mixed.fused(3)
    mixed.single(1)
    assert_close(mixed.fused(2), single.single(8))
    assert_same_state(mixed, single)


@pytest.mark.cases(0)
@pytest.mark.parametrize("compiled", RARELY_COMPILED, indirect=True)
def test_a_fused_exempt_block_keeps_every_bit_and_the_others_move_as_singly(models):
    fused, single = models
    fused.fused(2)
    single.single(2)
    before = fused.state()["torso"]
    assert_close(fused.fused(4, TORSO), single.single(4, TORSO))
    for now, then in zip(fused.state()["torso"], before, strict=True):
        np.testing.assert_array_equal(now, then)
    assert_same_state(fused, single)


@pytest.mark.cases(0)
@pytest.mark.parametrize("compiled", RARELY_COMPILED, indirect=True)
def test_after_a_fused_rest_a_blocks_step_is_as_long_as_after_a_single_one(models):
    fused, single = models
    for model, rest in [(fused, fused.fused), (single, single.single)]:
        rest(50, TORSO)
        before = model.state()["torso"][0]
        model.single(1, rate=0.01)
        step = np.abs(model.state()["torso"][0] - before)
        np.testing.assert_allclose(step, 0.01, rtol=1e-3)  # the first step of Adam is the rate


@pytest.mark.cases(0)
@pytest.mark.parametrize("compiled", RARELY_COMPILED, indirect=True)
def test_the_fused_norm_is_over_the_trained_blocks_before_clipping(models):
    fused, _ = models
    # No rate, so nothing moves: the parts' squares add up to the whole's.
    whole = fused.fused(1, NONE, rate=0.0)[1]
    head = fused.fused(1, TORSO, rate=0.0)[1]
    torso = fused.single(1, frozenset({"head"}), rate=0.0)[1]
    assert 0 < head < whole
    assert head**2 + torso**2 == pytest.approx(whole**2, rel=1e-5)


@pytest.mark.thorough
def test_blocks_that_are_chosen_when_it_runs_are_trained_as_singly():
    """Also their step counters, which stand still in a block that rests."""
    chosen, single = Regression([NONE], compiled=False, chosen=True), Regression([], False)
    for updates, exempt in [(3, NONE), (20, TORSO), (2, NONE)]:
        assert_close(chosen.fused_as_chosen(updates, exempt), single.single(updates, exempt))
        assert_same_state(chosen, single)
    for model in (chosen, single):
        model.engine.close()


HEAD = frozenset({"head"})


@pytest.mark.cases(1)
@pytest.mark.parametrize("compiled", RARELY_COMPILED[::-1], indirect=True)
def test_a_block_with_a_loss_and_a_rate_of_its_own_moves_as_singly(compiled):
    fused = Regression([NONE, TORSO, HEAD], compiled, own=True)
    chosen, single = (Regression([NONE], compiled, chosen=True, own=True) for _ in range(2))
    for updates, exempt in [(3, NONE), (4, TORSO), (2, HEAD), (2, NONE)]:
        wanted = single.single(updates, exempt)
        assert_close(fused.fused(updates, exempt), wanted)
        assert_close(chosen.fused_as_chosen(updates, exempt), wanted)
        assert_same_state(fused, single)
        assert_same_state(chosen, single)
    for model in (fused, chosen, single):
        model.engine.close()


OPTIMIZERS = {
    "rmsprop": lambda rate: CenteredRmsProp(rate, 0.9, 0.02, pull=None),
    "sgd": lambda rate: Sgd(rate, lambda: tf.constant(0.8), pull=lambda _, w: 0.01 * w),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("compiled", RARELY_COMPILED, indirect=True)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_of_other_optimizers_are_those_of_single_ones(compiled, name):
    fused, single = (
        Regression(loops, compiled, own=True, optimizer=OPTIMIZERS[name])
        for loops in ([NONE, TORSO], [])
    )
    for updates, exempt in [(3, NONE), (4, TORSO), (2, NONE)]:
        assert_close(fused.fused(updates, exempt), single.single(updates, exempt))
        assert_same_state(fused, single)
    fused.single(1)
    assert_close(fused.fused(1), single.single(2))
    for model in (fused, single):
        model.engine.close()


@pytest.mark.parametrize("executor", ["single_threaded", "default"])
@pytest.mark.parametrize("compiled", [True, False])
def test_each_update_sees_what_the_one_before_left_and_the_last_result_is_given(compiled, executor):
    engine = Engine(executor=executor)
    with engine.building():
        w = tf.get_variable("w", initializer=np.float32(1))
        count = tf.placeholder(tf.int32, [])

        def update(carried):
            now = w.read_value()
            with tf.control_dependencies([now]):
                doubled = w.assign(2.0 * now, read_value=False)
            return (now, tf.cast(now, tf.int32)), carried, doubled, None

        like = (tf.zeros([]), tf.zeros([], tf.int32))
        loop = fused_updates(update, count, like, compiled=compiled)
    engine.start()
    call = engine.callable(loop, [count])
    assert call(np.int32(5)) == (16, 16)  # 1 2 4 8 16: what the fifth found
    assert engine.run(w) == 32
    assert call(np.int32(1)) == (32, 32)
    engine.close()


@pytest.mark.parametrize("compiled", [True, False])
def test_a_copy_may_be_made_inside_the_loop_when_it_is_due(engine, compiled):
    with engine.building():
        for scope in ("online", "target"):
            with tf.variable_scope(scope):
                tf.get_variable("w", initializer=np.float32(0))
        w = next(v for v in tf.global_variables() if v.op.name == "online/w")
        age = tf.get_variable("age", initializer=0, trainable=False)
        period, count = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])

        def update(carried):
            moved = w.assign_add(1.0, read_value=False)
            with tf.control_dependencies([moved]):
                older = age.read_value() + 1

            def copied():
                with tf.control_dependencies([copy_vars("online", "target")]):
                    return tf.constant(0)

            young = tf.cond(older >= period, copied, lambda: older)
            return (older,), carried, age.assign(young, read_value=False), None

        loop = fused_updates(update, count, [tf.constant(0)], compiled=compiled)
        target = next(v for v in tf.global_variables() if v.op.name == "target/w")
    engine.start()
    call = engine.callable(loop, [count, period])
    call(np.int32(7), np.int32(3))  # copies at w = 3 and 6
    assert engine.run([w, target, age]) == [7, 6, 1]
    call(np.int32(1), np.int32(2))  # the fed period holds at once: age 2 is due
    assert engine.run([w, target, age]) == [8, 8, 0]
