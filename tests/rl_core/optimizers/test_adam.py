"""Adam of ours is TensorFlow's, in fewer operations; the others are their formulas."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine
from targetnet.rl_core.optimizers.adam import Adam, CenteredRmsProp, Sgd

RATES = (0.1, 0.2, 0.0, 0.3, 0.1)


def fitted(optimizer):
    """Five steps on x ** 2 + y ** 4: all variables by name after each, and the graph."""
    engine = Engine()
    with engine.building():
        rate = tf.placeholder(tf.float32, [])
        x = tf.get_variable("x", initializer=[3.0, -2.0])
        y = tf.get_variable("y", initializer=[1.5])
        loss = tf.reduce_sum(tf.square(x)) + tf.reduce_sum(y**4)
        step = optimizer(rate).minimize(loss)
        variables = tf.global_variables()
        values = [v.read_value() for v in variables]
    engine.start()
    call, read = engine.callable(None, [rate], [step]), engine.callable(values)
    after = []
    for value in RATES:
        call(np.float32(value))
        after.append({v.name: value for v, value in zip(variables, read(), strict=True)})
    engine.close()
    return after, engine.graph


def reads_of(variable, graph):
    """How many operations of the optimizer read it."""
    reads = [op for op in graph.get_operations() if op.type == "ReadVariableOp"]
    return sum(op.name.startswith("Adam/") and op.inputs[0].op.name == variable for op in reads)


def test_adam_leaves_the_same_variables_and_bits_as_tensorflows():
    (ours, _), (theirs, _) = (
        fitted(lambda rate, of=of: of(rate, epsilon=1e-4)) for of in (Adam, tf.train.AdamOptimizer)
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], other[name], name)


def test_adam_counts_its_steps():
    after, _ = fitted(Adam)
    powers = [variables["beta1_power:0"] for variables in after]
    np.testing.assert_allclose(powers, [0.81, 0.729, 0.6561, 0.59049, 0.531441], rtol=1e-6)


def test_adam_reads_each_step_counter_once():
    _, graph = fitted(Adam)
    assert [reads_of(name, graph) for name in ("beta1_power", "beta2_power")] == [1, 1]


def decayed(variable, value):
    """What a weight decay of 0.25 and a rate of 0.1 take off."""
    return 0.025 * value


MADE = {
    "rmsprop": lambda rate: CenteredRmsProp(rate, 0.9, 0.02, pull=None),
    "sgd": lambda rate: Sgd(rate, lambda: tf.constant(0.8), pull=None),
    "sgd, decayed": lambda rate: Sgd(rate, lambda: tf.constant(0.8), pull=decayed),
}


def by_hand(name):
    """The same five steps of x and y, in float64."""
    w, m, v, after = np.array([3.0, -2.0, 1.5]), np.zeros(3), np.zeros(3), []
    for rate in RATES:
        g = np.array([2 * w[0], 2 * w[1], 4 * w[2] ** 3])
        taken = 0.025 * w * ("decayed" in name)
        if name == "rmsprop":
            m, v = 0.9 * m + 0.1 * g, 0.9 * v + 0.1 * g**2
            w = w - rate * g / np.sqrt(v - m**2 + 0.02)
        else:
            m = 0.8 * m + g
            w = w - rate * m - taken
        after.append(w)
    return after


def test_rmsprop_takes_no_root_of_a_variance_that_rounds_below_0():
    """As PyTorch's does, whose weights are NaN then."""
    with tf.Graph().as_default(), tf.Session() as session:
        g = tf.constant(12_345.678)
        of = CenteredRmsProp(0.1, 0.95, 1e-8, pull=None)
        m, v = tf.constant(12_345.678), tf.square(g) * (1 - 1e-6)
        assert session.run(v - tf.square(m)) < 0
        assert session.run(of.step(g, m, v, tf.constant(0.1))) == pytest.approx(1.2345678e7)


@pytest.mark.parametrize("name", MADE)
def test_no_step_makes_a_weight_infinite(name):
    with tf.Graph().as_default(), tf.Session() as session:
        large, rate = tf.constant(1e19), tf.constant(1e18)
        of = MADE[name](rate)
        taken = of.step(large, of.next_m(large, large), of.next_v(large, large), rate)
        assert session.run(taken) == np.float32(1e30)


@pytest.mark.parametrize("name", MADE)
def test_an_optimizer_makes_the_steps_of_its_formula(name):
    after, _ = fitted(MADE[name])
    found = [np.append(step["x:0"], step["y:0"]) for step in after]
    np.testing.assert_allclose(found, by_hand(name), rtol=2e-5)
