"""A scope's variables as arrays: out, and in again, with nothing shared."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import ScopeMismatch, ScopeWeights


@pytest.fixture
def weights(engine):
    """Of scope agent_a/online: w = [1, 2], torso/b = 3; another scope has the same names."""
    with engine.building():
        for scope, factor in [("agent_a/online", 1), ("agent_a/online_2", 100)]:
            with tf.variable_scope(scope):
                tf.get_variable("w", initializer=np.float32([1, 2]) * factor)
                tf.get_variable("torso/b", initializer=np.float32(3) * factor)
        pair = ScopeWeights(engine, "agent_a/online"), ScopeWeights(engine, "agent_a/online_2")
    engine.start()
    return pair


def as_lists(weights):
    return {name: value.tolist() for name, value in weights.read().items()}


def test_weights_are_read_by_the_name_after_the_scope(weights):
    assert as_lists(weights[0]) == {"w": [1, 2], "torso/b": 3}
    assert as_lists(weights[1]) == {"w": [100, 200], "torso/b": 300}


def test_weights_are_loaded_by_name_in_any_order_and_into_this_scope_alone(weights):
    weights[0].load({"torso/b": np.float32(7), "w": np.float32([8, 9])})
    assert as_lists(weights[0]) == {"w": [8, 9], "torso/b": 7}
    assert as_lists(weights[1]) == {"w": [100, 200], "torso/b": 300}
    weights[0].load(weights[1].read())
    assert as_lists(weights[0]) == as_lists(weights[1])


def test_loaded_arrays_may_change_afterwards(engine):
    """An assigned feed shares its memory with the variable if it happens to be aligned."""
    with engine.building():
        with tf.variable_scope("model"):
            tf.get_variable("w", initializer=np.zeros(64, np.float32))
        weights = ScopeWeights(engine, "model")
    engine.start()
    memory = np.zeros(64 * 4 + 64, np.uint8)
    offset = -memory.ctypes.data % 64
    aligned = memory[offset : offset + 256].view(np.float32)
    aligned[:] = 1
    weights.load({"w": aligned})
    aligned[:] = 2
    np.testing.assert_array_equal(weights.read()["w"], np.ones(64))
    read = weights.read()["w"]
    if read.flags.writeable:
        read[:] = 3
    np.testing.assert_array_equal(weights.read()["w"], np.ones(64))


# what is given instead, what the message must say
WRONG = [
    ({"torso/b": np.float32(3)}, ["w should be float32(2,)", "got nothing"]),
    ({"w": np.zeros(2, np.float32), "torso/b": np.float32(0), "x": np.float32(1)},
     ["x should be absent", "got float32()"]),
    ({"w": np.zeros(3, np.float32), "torso/b": np.float32(0)}, ["float32(2,)", "float32(3,)"]),
    ({"w": np.zeros(2), "torso/b": np.float32(0)}, ["float32(2,)", "float64(2,)"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_weights_that_do_not_fit_are_refused_and_nothing_is_loaded(weights, given, words):
    with pytest.raises(ScopeMismatch) as error:
        weights[0].load(given)
    assert all(word in str(error.value) for word in ["'agent_a/online'", *words])
    assert as_lists(weights[0]) == {"w": [1, 2], "torso/b": 3}


def test_loading_adds_no_operation(engine, weights):
    before = len(engine.graph.get_operations())
    for _ in range(3):
        weights[0].load(weights[1].read())
    assert len(engine.graph.get_operations()) == before


def test_the_nearest_scope_is_named_where_the_scope_is_not_there(engine):
    with engine.building():
        with tf.variable_scope("online"):
            tf.get_variable("w", [])
        with pytest.raises(ScopeMismatch, match="scope 'onlin'; did you mean 'online'"):
            ScopeWeights(engine, "onlin")
