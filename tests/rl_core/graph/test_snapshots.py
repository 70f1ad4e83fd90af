"""A ring of snapshots against a list of copies in NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Snapshots, VariableValues


@pytest.fixture
def made(engine):
    """Variables of every shape and kind, snapshots of them, and their values from outside."""
    with engine.building():
        variables = {
            "scalar": tf.get_variable("scalar", [], tf.float32, tf.zeros_initializer()),
            "count": tf.get_variable("count", [], tf.int64, tf.zeros_initializer()),
            "matrix": tf.get_variable("deep/matrix", [3, 2], tf.float32, tf.zeros_initializer()),
        }
        snapshots = Snapshots(engine, variables, k=3)
        values = VariableValues(engine, variables, "of this test")
    engine.start()
    return snapshots, values


def draw(rng):
    return {
        "scalar": np.float32(rng.normal()),
        "count": np.int64(rng.integers(1_000)),
        "matrix": rng.normal(size=(3, 2)).astype(np.float32),
    }


@pytest.mark.thorough
def test_any_order_of_changes_snapshots_and_returns_is_that_of_a_list(made):
    snapshots, values = made
    rng = np.random.default_rng(0)
    past = []
    now = values.read()
    for _ in range(300):
        what = rng.integers(3)
        if what == 0:
            now = draw(rng)
            values.load(now)
        elif what == 1:
            past = [*past, now][-3:]
            snapshots.take()
        elif past:
            back = int(rng.integers(1, len(past) + 1))
            now = past[-back]
            snapshots.restore(back)
        for name, value in values.read().items():
            np.testing.assert_array_equal(value, now[name])


def test_it_adds_no_operation_once_the_graph_is_final(engine, made):
    before = len(engine.graph.get_operations())
    made[0].take()
    made[0].restore(1)
    assert len(engine.graph.get_operations()) == before


def test_its_variables_are_not_trained_and_live_under_their_scope(engine, made):
    with engine.graph.as_default():
        names = {v.op.name: v.shape.as_list() for v in tf.global_variables("past/")}
        assert not tf.trainable_variables("past/")
    assert names == {
        "past/taken": [], "past/scalar": [3], "past/count": [3], "past/matrix": [3, 3, 2],
    }  # fmt: skip
