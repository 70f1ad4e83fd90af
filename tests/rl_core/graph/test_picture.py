"""Pictures of a graph: everything that the operations need, under names that can be read."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import graph_pb2

from targetnet.rl_core.graph.picture import picture, tidy_names


def test_a_loose_operation_is_in_the_one_scope_that_it_reads_else_in_the_one_that_reads_it():
    reads = {
        "fed": [],
        "online/w": [],
        "online_1/product": ["fed", "online/w"],
        "w_guarded": ["online/w"],  # reads online alone
        "w_guarded/helper": [],
        "target/product": ["fed", "w_guarded"],
        "key": [],  # target alone reads what reads it
        "Read/ReadVariableOp": ["key"],
        "target/noise": ["Read/ReadVariableOp"],
        "add": ["online_1/product", "target/product"],
        "part": ["fed"],
        "gone": [],
    }
    assert tidy_names(reads, fed=["fed"]) == {
        "fed": "inputs/fed",
        "online/w": "online/w",
        "online_1/product": "online/call_1/product",
        "w_guarded": "online/w_guarded",
        "w_guarded/helper": "online/w_guarded/helper",
        "target/product": "target/product",
        "key": "target/key",
        "Read/ReadVariableOp": "target/Read/ReadVariableOp",
        "target/noise": "target/noise",
        "add": "other/add",
        "part": "inputs/part",
        "gone": "other/gone",
    }


def test_two_operations_never_get_one_name():
    reads = {"loss/sub": [], "sub": ["loss/sub"], "sub/y": [], "loss_1/add": ["sub"]}
    names = tidy_names(reads)
    assert names["sub"] == "loss/sub_" and names["sub/y"] == "loss/sub_/y"
    assert len(set(names.values())) == len(names)


def test_a_scope_whose_name_ends_in_a_number_is_no_later_visit_of_another():
    assert tidy_names({"apply_2/add": []}) == {"apply_2/add": "apply_2/add"}


@pytest.fixture
def product():
    """x @ w + 1 in a scope, and an operation that it does not need."""
    with tf.Graph().as_default(), tf.variable_scope("model", use_resource=True):
        x = tf.placeholder(tf.float32, [None, 3], "x")
        w = tf.get_variable("w", [3, 2], initializer=tf.zeros_initializer())
        large = tf.constant(np.ones(1_000, np.float32), name="large")
        tf.negative(x, name="not_needed")
        yield tf.add(x @ w, tf.reduce_sum(large), name="result").op


def test_a_picture_has_what_is_needed_with_shapes_and_without_large_constants(product):
    before = len(product.graph.get_operations())
    graph = graph_pb2.GraphDef.FromString(picture([product]))
    nodes = {node.name: node for node in graph.node}
    assert {"model/result", "model/x", "model/w", "model/large"} <= nodes.keys()
    assert not any("not_needed" in name or "Initializer" in name for name in nodes)
    for node in graph.node:
        assert {name.lstrip("^").partition(":")[0] for name in node.input} <= nodes.keys()
    shape = nodes["model/result"].attr["_output_shapes"].list.shape[0]
    assert [dim.size for dim in shape.dim] == [-1, 2]
    assert "value" not in nodes["model/large"].attr and graph.ByteSize() < 2_000
    assert len(product.graph.get_operations()) == before


def test_a_graph_that_is_built_again_has_the_same_picture():
    """TensorFlow keeps what an operation waits for in a set, in another order each time."""

    def drawn():
        with tf.Graph().as_default():
            group = tf.group(*[tf.constant(float(i), name=f"c_{i}") for i in range(20)])
            return picture([group])

    assert {drawn() for _ in range(5)} == {drawn()}


def test_a_picture_that_would_be_too_large_is_left_out(product):
    size = len(picture([product]))
    assert len(picture([product], size)) == size and picture([product], size - 1) == b""
