"""Adam of ours is TensorFlow's, in fewer operations."""

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine
from targetnet.rl_core.optimizers.adam import Adam


def fitted(optimizer):
    """Five steps on x ** 2 + y ** 4: all variables by name after each, and the graph."""
    engine = Engine()
    with engine.building():
        rate = tf.placeholder(tf.float32, [])
        x = tf.get_variable("x", initializer=[3.0, -2.0])
        y = tf.get_variable("y", initializer=[1.5])
        loss = tf.reduce_sum(tf.square(x)) + tf.reduce_sum(y**4)
        step = optimizer(rate, epsilon=1e-4).minimize(loss)
        variables = tf.global_variables()
        values = [v.read_value() for v in variables]
    engine.start()
    call, read = engine.callable(None, [rate], [step]), engine.callable(values)
    after = []
    for value in (0.1, 0.2, 0.0, 0.3, 0.1):
        call(np.float32(value))
        after.append({v.name: value for v, value in zip(variables, read(), strict=True)})
    engine.close()
    return after, engine.graph


def reads_of(variable, graph):
    """How many operations of the optimizer read it."""
    reads = [op for op in graph.get_operations() if op.type == "ReadVariableOp"]
    return sum(op.name.startswith("Adam/") and op.inputs[0].op.name == variable for op in reads)


def test_adam_leaves_the_same_variables_and_bits_as_tensorflows():
    (ours, _), (theirs, _) = fitted(Adam), fitted(tf.train.AdamOptimizer)
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
