"""Saving and restoring variables in a graph of TensorFlow 1.

Without initialisers, under other names, without the building code, averages straight into the
averaged, and variables folded to constants in one file.
"""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import (
    CheckpointStore,
    VariableValues,
    copy_vars,
    variables_in,
    variables_to_restore,
)


def pair():
    """v1 = [0, 0, 0] and v2 = [0, 0, 0, 0, 0]."""
    return [tf.get_variable(f"v{i}", [n], initializer=tf.zeros_initializer())
            for i, n in ((1, 3), (2, 5))]  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    """A file of v1 = [1, 1, 1] and v2 = [-1, -1, -1, -1, -1]."""
    with tf.Graph().as_default(), tf.Session() as session:
        v1, v2 = pair()
        session.run(tf.global_variables_initializer())
        session.run([v1.assign_add(tf.ones([3])), v2.assign_sub(tf.ones([5]))])
        return tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))


def test_two_variables_are_restored_without_running_initialisers(saved):
    with tf.Graph().as_default(), tf.Session() as session:
        v1, v2 = pair()
        tf.train.Saver().restore(session, saved)
        assert session.run(v1).tolist() == [1] * 3 and session.run(v2).tolist() == [-1] * 5


def test_and_by_a_checkpoint_of_ours_into_an_engine(engine, tmp_path):
    (tmp_path / "run").mkdir()
    store = CheckpointStore(tmp_path / "run" / "checkpoints")
    arrays = {"v1": np.ones(3, np.float32), "v2": -np.ones(5, np.float32)}
    store.write(0, arrays, {}, {})
    with engine.building():
        values = VariableValues(engine, {v.op.name: v for v in pair()}, "of this graph")
    engine.start()
    values.load(store.latest().variables)
    got = values.read()
    assert got["v1"].tolist() == [1] * 3 and got["v2"].tolist() == [-1] * 5


def test_a_variable_is_restored_into_one_of_another_name_through_a_map(saved):
    with tf.Graph().as_default(), tf.Session() as session:
        other = tf.get_variable("weights", [5])
        tf.train.Saver({"v2": other}).restore(session, saved)
        assert session.run(other).tolist() == [-1] * 5


@pytest.mark.slow
def test_a_meta_graph_runs_with_none_of_the_code_that_built_it(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], "x")
        w = tf.get_variable("w", initializer=np.float32([[1], [2]]))
        tf.matmul(x, w, name="y")
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "model"))
    program = """
import sys, tensorflow.compat.v1 as tf
with tf.Graph().as_default(), tf.Session() as session:
    tf.train.import_meta_graph(sys.argv[1] + ".meta").restore(session, sys.argv[1])
    print(session.run("y:0", {"x:0": [[3, 4]]}).tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model")], capture_output=True, text=True
    )
    assert done.stdout.strip() == "[[11.0]]", done.stderr


@pytest.fixture
def averaged():
    """A session with v under `model`, its average under `ema`, after one move with decay 0.99."""
    with tf.Graph().as_default(), tf.Session() as session:
        for scope in ("model", "ema"):
            with tf.variable_scope(scope):
                tf.get_variable("v", initializer=np.float32(0))
        decay = tf.placeholder(tf.float32, [])
        move = copy_vars("model", "ema", tau=1.0 - decay)
        v, shadow = (variables_in(scope)["v"] for scope in ("model", "ema"))
        session.run(tf.global_variables_initializer())
        session.run(v.assign(10.0))
        session.run(move, {decay: 0.99})
        yield session, v, shadow


def test_the_average_of_0_that_became_10_with_decay_0_99(averaged):
    session, v, shadow = averaged
    assert session.run(v) == 10
    # 1 - 0.99 is 0.00999999 in float32.
    assert f"{session.run(shadow):.7f}" == "0.0999999"


def test_the_average_is_restored_straight_into_the_averaged(averaged, tmp_path):
    session, v, shadow = averaged
    saver = tf.train.Saver(variables_to_restore("model", "ema"))
    path = saver.save(session, str(tmp_path / "averages"))
    assert session.run(v) == 10
    tf.train.Saver({"model/v": v}).restore(session, path)  # knows of no average
    assert session.run(v) == session.run(shadow) != 10


def test_variables_folded_to_constants_in_one_file_run_again(tmp_path):
    path = tmp_path / "combined.pb"
    with tf.Graph().as_default() as graph, tf.Session() as session:
        v1 = tf.get_variable("v1", initializer=np.float32([1]))
        v2 = tf.get_variable("v2", initializer=np.float32([2]))
        tf.add(v1, v2, name="add")
        session.run(tf.global_variables_initializer())
        folded = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["add"]
        )
        path.write_bytes(folded.SerializeToString())
    with tf.Graph().as_default(), tf.Session() as session:
        (result,) = tf.import_graph_def(
            tf.GraphDef.FromString(path.read_bytes()), return_elements=["add:0"]
        )
        assert session.run(result).tolist() == [3.0]
