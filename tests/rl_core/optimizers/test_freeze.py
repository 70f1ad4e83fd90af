"""Exempt blocks stay as they are, to the bit, and nothing is computed for them."""

import itertools
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import AllExempt, ApplyOps, ScopeMismatch, UnknownName, blocks_of, dense
from targetnet.rl_core.graph.finite import LARGEST_RATE
from targetnet.rl_core.optimizers.freeze import BlockLoss

BLOCKS = ("a", "b", "c")
GRADIENTS = {"a": 3.0, "b": 4.0, "c": 12.0}  # norms: 5 of a and b, 13 of all
EXEMPT_SETS = [
    frozenset(names) for n in range(len(BLOCKS)) for names in itertools.combinations(BLOCKS, n)
]


def counting(variable, counter):
    """The variable's value; adds 1 to the counter whenever a gradient by it is computed."""

    @tf.custom_gradient
    def read(value):
        def backward(upstream):
            with tf.control_dependencies([counter.assign_add(1, read_value=False)]):
                return tf.identity(upstream)

        return tf.identity(value), backward

    return read(variable.read_value())


class Linear:
    """loss = 3 a + 4 b + 12 c: every gradient is a constant."""

    def __init__(self, engine, make_optimizer, **options):
        self.engine = engine
        with engine.building():
            self.rate = tf.placeholder_with_default(np.float32(1), [], "rate")
            self.limit = tf.placeholder(tf.float32, [], "limit")
            with tf.variable_scope("model") as scope:
                self.variables, self.computed, terms = {}, {}, []
                for name, gradient in GRADIENTS.items():
                    with tf.variable_scope(name):
                        w = tf.get_variable("w", initializer=np.float32(10))
                        counter = tf.get_variable("computed", initializer=0, trainable=False)
                    terms.append(gradient * counting(w, counter))
                    self.variables[name], self.computed[name] = w, counter
            self.loss = tf.add_n(terms)
            if options.get("max_grad_norm") == "fed":
                options["max_grad_norm"] = self.limit
            self.ops = ApplyOps(
                self.loss, blocks_of(scope.name), lambda: make_optimizer(self.rate), **options
            )
        engine.start()

    def values(self):
        return self.engine.run(self.variables)

    def state(self):
        """Everything a block consists of, as bytes."""
        owned = {n: [self.variables[n], *self.ops.state(n)] for n in BLOCKS}
        return {n: [value.tobytes() for value in self.engine.run(owned[n])] for n in BLOCKS}


sgd = tf.train.GradientDescentOptimizer
adam = tf.train.AdamOptimizer


def test_every_block_is_trained_when_none_is_exempt(engine):
    model = Linear(engine, sgd)
    model.ops.callable(engine)()
    assert model.values() == {"a": 7, "b": 6, "c": -2}  # 10 - gradient


@pytest.mark.cases(6)
@pytest.mark.parametrize("exempt", EXEMPT_SETS, ids=lambda names: "".join(sorted(names)) or "none")
def test_an_exempt_block_keeps_every_bit_with_its_slots_and_step_counters(engine, exempt):
    model = Linear(engine, adam)
    model.ops.callable(engine)()  # so that slots are not zero
    before = model.state()
    for _ in range(3):
        model.ops.callable(engine, exempt)()
    after = model.state()
    assert {name for name in BLOCKS if after[name] == before[name]} == exempt
    for name in BLOCKS:
        assert len(after[name]) == 5  # w, m, v and the two powers of beta
        if name not in exempt:  # all of it moved
            assert all(x != y for x, y in zip(after[name], before[name], strict=True))


@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
def test_gradients_of_exempt_blocks_are_not_computed(engine, max_grad_norm):
    model = Linear(engine, adam, max_grad_norm=max_grad_norm)
    calls = dict.fromkeys(BLOCKS, 0)
    for exempt in EXEMPT_SETS:
        model.ops.callable(engine, exempt, fetches=(model.loss, model.ops.grad_norm))()
        for name in set(BLOCKS) - exempt:
            calls[name] += 1
    assert calls == {"a": 4, "b": 4, "c": 4}  # each is trained in 4 of the 7
    assert engine.run(model.computed) == calls


def test_what_lies_between_an_exempt_head_and_a_trained_torso_is_still_differentiated(engine):
    # y = torso * head = 2 * 5, loss = y: by torso 5, by head 2
    with engine.building():
        with tf.variable_scope("model"):
            torso = tf.get_variable("torso", initializer=np.float32(2))
            head = tf.get_variable("head", initializer=np.float32(5))
        ops = ApplyOps(torso * head, blocks_of("model"), lambda: sgd(1.0))
    engine.start()
    ops.callable(engine, {"head"})()
    assert engine.run([torso, head]) == [-3, 5]  # 2 - 5
    ops.callable(engine, {"torso"})()
    assert engine.run([torso, head]) == [-3, 8]  # 5 - (-3)


@pytest.mark.thorough
def test_no_exempt_set_adds_an_operation(engine):
    model = Linear(engine, adam, max_grad_norm=1.0)
    before = len(engine.graph.get_operations())
    for exempt in EXEMPT_SETS:
        model.ops.callable(engine, exempt)()
        model.ops.callable(engine, exempt, fetches=model.loss)()
    assert len(engine.graph.get_operations()) == before


def test_the_same_exempt_set_gives_the_same_callable(engine):
    model = Linear(engine, sgd)
    make = model.ops.callable
    assert make(engine, {"a", "b"}) is make(engine, ["b", "a"]) is make(engine, ("a", "b", "a"))
    assert make(engine) is make(engine, frozenset()) is make(engine, [])
    assert make(engine, ["a"], fetches=model.loss) is make(engine, {"a"}, fetches=model.loss)
    different = [make(engine, exempt) for exempt in EXEMPT_SETS]
    different += [
        make(engine, fetches=model.loss),
        make(engine, fetches=(model.loss,)),
        make(engine, fetches=[model.loss]),
        make(engine, feeds=[model.rate]),
        make(engine, targets=[model.loss]),
    ]
    assert len(set(map(id, different))) == len(different)


def test_fetches_feeds_and_targets_are_those_of_the_engine(engine):
    model = Linear(engine, sgd)
    update = model.ops.callable(
        engine, {"c"}, fetches=(model.loss, model.ops.grad_norm), feeds=[model.rate]
    )
    assert update(np.float32(0.5)) == (190, 5)  # 10 * (3 + 4 + 12), before the update
    assert model.values() == {"a": 8.5, "b": 8, "c": 10}  # 10 - 1.5, 10 - 2, untouched


@pytest.mark.parametrize("exempt", EXEMPT_SETS, ids=lambda names: "".join(sorted(names)) or "none")
def test_what_is_put_behind_done_sees_the_updated_blocks(engine, exempt):
    with engine.building():
        with tf.variable_scope("model"):
            found = {name: tf.get_variable(name, initializer=np.float32(10)) for name in BLOCKS}
        ops = ApplyOps(tf.add_n(list(found.values())), blocks_of("model"), lambda: sgd(1.0))
        with tf.control_dependencies([ops.done]):
            after = tf.stack([v.read_value() for v in found.values()])
            copy = tf.get_variable("copy", initializer=np.zeros(3, np.float32), trainable=False)
            copied = copy.assign(after, read_value=False)
    engine.start()
    wanted = [10 if name in exempt else 9 for name in BLOCKS]
    got, done = ops.callable(engine, exempt, fetches=(after, ops.done), targets=[copied])()
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(engine.run(copy), wanted)
    assert done == 0 and done.dtype == np.int32


def test_two_losses_over_the_same_blocks_keep_apart(engine):
    with engine.building():
        with tf.variable_scope("model"):
            a = tf.get_variable("a", initializer=np.float32(10))
            b = tf.get_variable("b", initializer=np.float32(10))
        blocks = blocks_of("model")
        down = ApplyOps(a + b, blocks, lambda: adam(1.0))
        up = ApplyOps(-a - b, blocks, lambda: adam(1.0))
    engine.start()
    assert down.callable(engine, {"a"}) is not up.callable(engine, {"a"})
    states = {v.name for name in "ab" for ops in (down, up) for v in ops.state(name)}
    assert len(states) == 2 * 2 * 4  # m, v and two powers: per loss and per block
    resting = engine.run([up.state(name) for name in "ab"])
    down.callable(engine, {"a"})()
    assert engine.run([a, b]) == [10, pytest.approx(9)]
    assert engine.run([up.state(name) for name in "ab"]) == resting
    up.callable(engine, {"b"})()
    assert engine.run([a, b]) == [pytest.approx(11), pytest.approx(9)]


def two_blocks(engine):
    """A torso of w = 1 and b = 1, a head of w = 1; each step takes 1 from what is trained."""
    with engine.building():
        with tf.variable_scope("model"):
            names = ("torso/w", "torso/b", "head/w")
            variables = [tf.get_variable(name, initializer=np.float32(1)) for name in names]
        ops = ApplyOps(tf.add_n(variables), blocks_of("model"), lambda: sgd(1.0))
    engine.start()
    return ops, variables


def test_a_block_is_exempt_by_its_variables_too_and_it_is_the_same_callable(engine):
    ops, (w, b, head) = two_blocks(engine)
    operations = engine.graph.get_operations()
    ops.callable(engine, [b, w])()
    assert engine.run([w, b, head]) == [1, 1, 0]
    assert ops.callable(engine, [w, b]) is ops.callable(engine, {"torso"})
    assert ops.check(["torso", w, b]) == {"torso"}
    assert engine.graph.get_operations() == operations


def test_a_part_of_a_block_cannot_be_exempt_and_one_line_says_what_is_missing(engine):
    ops, (w, b, head) = two_blocks(engine)
    with pytest.raises(ScopeMismatch) as error:
        ops.callable(engine, [w])
    assert str(error.value) == (
        "block 'torso' is trained or left alone as one: model/torso/w cannot be exempt without "
        "model/torso/b; or make smaller blocks"
    )
    with pytest.raises(AllExempt):
        ops.callable(engine, [w, b, head])


def test_a_variable_of_no_block_cannot_be_exempt(engine):
    with engine.building():
        other = tf.get_variable("other", [])
    ops, _ = two_blocks(engine)
    with pytest.raises(ScopeMismatch, match=r"^no block has the exempt variable other$"):
        ops.callable(engine, [other])


def test_all_exempt_is_an_error_of_its_own(engine):
    model = Linear(engine, sgd)
    with pytest.raises(AllExempt, match=r"every block \(a, b, c\) is exempt") as error:
        model.ops.callable(engine, BLOCKS)
    assert isinstance(error.value, ValueError)
    assert model.values() == {"a": 10, "b": 10, "c": 10}


def test_an_unknown_block_is_an_error_with_the_nearest_name(engine):
    with engine.building():
        with tf.variable_scope("online"):
            for name in ("torso", "head"):
                tf.get_variable(name, initializer=np.float32(1))
        both = tf.add_n(tf.trainable_variables())
        ops = ApplyOps(both, blocks_of("online"), lambda: sgd(1.0))
    engine.start()
    assert ops.names == ("torso", "head")
    with pytest.raises(UnknownName) as error:
        ops.callable(engine, {"heads"})
    assert str(error.value) == (
        "no block 'heads' to leave alone, there are torso, head; did you mean 'head'?"
    )
    with pytest.raises(UnknownName):  # before whether any is left
        ops.check(["torso", "head", "tail"])
    assert ops.check(["head"]) == {"head"}


def test_the_first_step_of_a_block_that_rested_long_is_as_long_as_a_fresh_ones():
    """With one Adam for all blocks it would be 0.1 / sqrt(0.001), about three times too long."""
    from targetnet.rl_core import Engine

    rate = 0.01
    first = {}
    for rest in (0, 1_000):
        engine = Engine()
        model = Linear(engine, lambda _: adam(rate))
        for _ in range(rest):
            model.ops.callable(engine, {"a"})()
        before = model.values()["a"]
        assert before == 10
        model.ops.callable(engine)()
        first[rest] = before - model.values()["a"]
        engine.close()
    # Adam's first step: m = 0.1 g and v = 0.001 g^2, corrected to g and g^2: rate * g / (|g| + eps)
    assert first[0] == pytest.approx(rate, rel=1e-3)
    assert first[1_000] == first[0]


def test_a_block_trained_in_turns_steps_as_if_its_own_updates_were_all_there_are(engine):
    model = Linear(engine, lambda _: adam(0.01))
    only_a, not_a = model.ops.callable(engine, {"b", "c"}), model.ops.callable(engine, {"a"})
    for turn in range(60):
        (only_a if turn % 3 == 0 else not_a)()  # 20 updates of a, 40 of b and c
    values = model.values()
    # With a constant gradient every step of Adam is the rate.
    assert values["a"] == pytest.approx(10 - 20 * 0.01, abs=1e-4)
    assert values["b"] == pytest.approx(10 - 40 * 0.01, abs=1e-4)


# exempt -> global norm over the trained blocks of (3, 4, 12)
NORMS = [
    ((), 13),  # 9 + 16 + 144 = 169
    (("a",), math.sqrt(160)),  # 16 + 144
    (("b",), math.sqrt(153)),  # 9 + 144
    (("c",), 5),  # 9 + 16
    (("a", "b"), 12),
    (("a", "c"), 4),
    (("b", "c"), 3),
]


@pytest.mark.parametrize(("exempt", "norm"), NORMS)
@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
def test_the_gradient_norm_is_of_the_trained_blocks_before_clipping(
    engine, exempt, norm, max_grad_norm
):
    model = Linear(engine, sgd, max_grad_norm=max_grad_norm)
    got = model.ops.callable(engine, exempt, fetches=model.ops.grad_norm)()
    assert got == pytest.approx(norm, rel=1e-6)


def test_gradients_are_scaled_down_together_to_the_fed_norm_over_the_trained_blocks(engine):
    model = Linear(engine, sgd, max_grad_norm="fed")

    def steps(exempt, limit):
        before = model.values()
        model.ops.callable(engine, exempt, feeds=[model.limit])(np.float32(limit))
        after = model.values()
        return [before[name] - after[name] for name in BLOCKS]

    np.testing.assert_allclose(steps((), 2.6), [0.6, 0.8, 2.4], rtol=1e-5)  # 2.6 / 13 = 1/5
    np.testing.assert_allclose(steps(("c",), 2.5), [1.5, 2, 0], rtol=1e-5)  # 2.5 / 5 = 1/2
    np.testing.assert_allclose(steps(("a", "b"), 6), [0, 0, 6], rtol=1e-5)  # 6 / 12
    np.testing.assert_allclose(steps(("c",), 5), [3, 4, 0], rtol=1e-5)  # just at the limit
    np.testing.assert_allclose(steps(("c",), 1e9), [3, 4, 0], rtol=1e-5)  # never scaled up


class TwoLosses:
    """loss = 3 a + 4 b + 100 c, and of c alone 12 c + 100 a: nobody may see a 100."""

    def __init__(self, engine, **options):
        self.engine = engine
        with engine.building():
            self.rate = tf.placeholder_with_default(np.float32(0.5), [], "rate")
            with tf.variable_scope("model"):
                a, b, c = (tf.get_variable(n, initializer=np.float32(10)) for n in BLOCKS)
            own = {"c": BlockLoss(12 * c + 100 * a, self.rate)}
            self.ops = ApplyOps(
                3 * a + 4 * b + 100 * c, blocks_of("model"), lambda rate=1.0: sgd(rate), own=own,
                **options,
            )  # fmt: skip
            self.variables = [a, b, c]
        engine.start()

    def steps(self, exempt=(), rate=0.5):
        before = self.engine.run(self.variables)
        norm = self.ops.callable(
            self.engine, exempt, fetches=self.ops.grad_norm, feeds=[self.rate]
        )(np.float32(rate))
        after = self.engine.run(self.variables)
        return [*np.subtract(before, after).tolist(), norm.item()]


def test_a_loss_of_one_block_reaches_that_block_alone_by_a_rate_of_its_own(engine):
    model = TwoLosses(engine)
    assert model.steps() == [3, 4, 6, 13]  # 0.5 * 12; the norm is of 3, 4, 12
    assert model.steps(rate=0.25) == [3, 4, 3, 13]
    assert model.steps({"c"}) == [3, 4, 0, 5]
    assert model.steps({"a", "b"}) == [0, 0, 6, 12]


def test_gradients_of_each_loss_are_clipped_by_a_norm_of_their_own(engine):
    model = TwoLosses(engine, max_grad_norm=2.5)
    np.testing.assert_allclose(model.steps(), [1.5, 2, 1.25, 13])  # 5 -> 2.5;  12 -> 2.5
    np.testing.assert_allclose(model.steps({"a", "c"}), [0, 2.5, 0, 4])


def test_the_largest_of_all_rates_and_the_sum_of_all_losses_must_be_finite(engine):
    model = TwoLosses(engine, learning_rate=np.float32(1))
    numerics = model.ops.numerics_of_next(engine, (), [model.rate])
    loss, norm, rate = numerics(np.float32(0.5))
    assert (loss, norm) == (1070 + 1120, 13) and np.isfinite(rate)
    assert not np.isfinite(numerics(np.float32(1.1 * LARGEST_RATE))[2])


def test_a_gradient_of_zero_is_not_clipped_into_a_nan(engine):
    with engine.building():
        with tf.variable_scope("model"):
            w = tf.get_variable("w", initializer=np.float32(0))
        ops = ApplyOps(tf.square(w), blocks_of("model"), lambda: sgd(1.0), max_grad_norm=1.0)
    engine.start()
    assert ops.callable(engine, fetches=ops.grad_norm)() == 0
    assert engine.run(w) == 0


def test_a_block_may_have_many_variables_and_its_norm_is_over_all_of_them(engine):
    x = np.float32([[1, 2]])
    with engine.building():
        with tf.variable_scope("model"):
            y = dense(tf.constant(x), 1, "torso") + tf.get_variable("scale", [])
        ops = ApplyOps(tf.reduce_sum(y), blocks_of("model"), lambda: sgd(1.0))
    engine.start()
    # by w (1, 2), by b 1, by scale 1
    norm = ops.callable(engine, fetches=ops.grad_norm)()
    assert norm == pytest.approx(math.sqrt(7))
    norm = ops.callable(engine, {"scale"}, fetches=ops.grad_norm)()
    assert norm == pytest.approx(math.sqrt(6))


def test_a_block_belongs_to_an_optimizer_of_its_own(engine):
    model = Linear(engine, adam)
    optimizers = [model.ops.optimizer(name) for name in BLOCKS]
    assert len(set(map(id, optimizers))) == 3
    owned = [v.name for name in BLOCKS for v in model.ops.state(name)]
    assert len(set(owned)) == len(owned) == 3 * 4
    assert [model.ops.variables(name) for name in BLOCKS] == [
        [model.variables[name]] for name in BLOCKS
    ]


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (lambda a, b: {}, "every block needs variables"),
        (lambda a, b: {"a": [a], "empty": []}, "every block needs variables"),
        (lambda a, b: {"a": [a], "b": [b]}, "the loss does not depend on b:0"),
    ],
)
def test_blocks_that_cannot_be_trained_are_refused(engine, blocks, words):
    with engine.building():
        a = tf.get_variable("a", initializer=np.float32(1))
        b = tf.get_variable("b", initializer=np.float32(1))
        with pytest.raises(ValueError, match=words):
            ApplyOps(tf.square(a), blocks(a, b), lambda: sgd(1.0))


def test_a_loss_of_one_block_that_does_not_depend_on_it_is_refused(engine):
    with engine.building():
        a, b = (tf.get_variable(n, initializer=np.float32(1)) for n in "ab")
        with pytest.raises(ScopeMismatch, match="the loss does not depend on b:0"):
            ApplyOps(a * b, {"a": [a], "b": [b]}, sgd, own={"b": BlockLoss(a, tf.constant(1.0))})
