"""Scope queries find what lies under a scope and nothing else; a guard lets no gradient in."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import (
    ArgumentError,
    ScopeMismatch,
    UnknownName,
    blocks_of,
    dense,
    stop_gradient_getter,
    variables_in,
)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def make(scope, *names):
    with tf.variable_scope(scope) as made:
        for name in names:
            tf.get_variable(name, [])
    return made.name


def test_a_scope_does_not_match_one_whose_name_begins_with_it():
    make("online", "w")
    make("online_2", "w")
    make("online2", "w")
    make("offline/online", "w")  # nor one that ends with it
    assert [v.op.name for v in variables_in("online").values()] == ["online/w"]
    assert blocks_of("online").keys() == {"w"}


def test_variables_are_keyed_by_the_name_that_follows_the_scope_in_the_order_they_were_built():
    with tf.variable_scope("online"):
        make("torso", "w", "b")
        make("head", "w")
        make("a_late_one", "w")
    found = variables_in("online")
    assert list(found) == ["torso/w", "torso/b", "head/w", "a_late_one/w"]
    assert found["head/w"].op.name == "online/head/w"


def test_a_repeated_scope_name_is_cut_off_once():
    make("online/online", "w")
    assert list(variables_in("online")) == ["online/w"]
    assert list(variables_in("online/online")) == ["w"]


@pytest.mark.parametrize("name", ["v1.0", "a-b", "a>b", "v.", ".v"])
def test_special_characters_in_a_scope_are_only_characters(name):
    make(name, "w")
    make("v1x0", "other")  # "." is no wildcard
    make("vx", "other")
    make("a", "other")
    assert list(variables_in(name)) == ["w"]


def test_optimizer_slots_and_counters_are_not_part_of_the_scope():
    make("online", "w")
    w = variables_in("online")["w"]
    with tf.variable_scope("online"):
        tf.train.AdamOptimizer(0.1).minimize(tf.square(w))
        tf.get_variable("step", [], trainable=False)
    under = [v.op.name for v in tf.global_variables() if v.op.name.startswith("online/")]
    assert len(under) > 2  # they are named under the same prefix
    assert list(variables_in("online")) == ["w"]
    assert blocks_of("online") == {"w": [w]}


def test_outer_scopes_keep_two_agents_apart():
    with tf.variable_scope("agent_a"):
        a = make("online", "w")
    with tf.variable_scope("agent_b"):
        b = make("online", "w")
    assert (a, b) == ("agent_a/online", "agent_b/online")
    assert [v.op.name for v in variables_in(a).values()] == ["agent_a/online/w"]
    assert list(variables_in("agent_b")) == ["online/w"]
    with pytest.raises(ScopeMismatch, match="did you mean 'agent_a/online'"):
        variables_in("online")  # a full path is wanted


# asked for, what the one line ends with; there are experiment_with_a_long_name/online and past/0
WRONG_SCOPES = [
    ("pst", "; did you mean 'past'?"),
    ("past/1", "; did you mean 'past/0'?"),
    ("online", "; did you mean 'experiment_with_a_long_name/online'?"),
    ("zzz", "; this graph has some in experiment_with_a_long_name, past"),
]


@pytest.mark.parametrize("ask", [variables_in, blocks_of])
@pytest.mark.parametrize(("scope", "end"), WRONG_SCOPES)
def test_a_scope_without_variables_is_an_error_with_the_nearest_that_has_some(ask, scope, end):
    make("experiment_with_a_long_name/online", "w")
    make("past/0", "w")
    with pytest.raises(ScopeMismatch) as error:
        ask(scope)
    assert str(error.value) == f"no trainable variables in scope {scope!r}{end}"


def test_a_scope_without_variables_gives_none_where_that_is_allowed():
    make("online", "w")
    assert variables_in("target", allow_missing=True) == {}


def test_a_scope_is_a_path_and_not_the_scope_object():
    with tf.variable_scope("online") as online:
        tf.get_variable("w", [])
    with pytest.raises(ArgumentError, match=r"such as online\.name, got <"):
        variables_in(online)


@pytest.mark.parametrize("ask", [variables_in, blocks_of])
def test_outside_of_the_graph_one_line_says_how_to_get_inside(engine, ask):
    with engine.building():
        make("online", "w")
    where = r"scope 'online': {}; did you mean: `with engine\.building\(\):`"
    with pytest.raises(ScopeMismatch, match=where.format("this graph has none")):
        ask("online")  # the tests' own graph, which is empty
    # A new thread is eager, as a program is outside of every `with`.
    with ThreadPoolExecutor(1) as threads:
        error = threads.submit(ask, "online").exception()
    assert isinstance(error, ScopeMismatch)
    assert re.search(where.format("no graph is being built here"), str(error))
    engine.start()
    with engine.building():
        assert list(ask("online")) == ["w"]


def test_blocks_are_the_child_scopes_in_the_order_they_were_built():
    with tf.variable_scope("online"):
        make("torso/dense_0", "w", "b")
        make("value", "w")
        make("torso/dense_1", "w")  # back to the torso
        tf.get_variable("scale", [])
    names = {block: [v.op.name for v in vs] for block, vs in blocks_of("online").items()}
    assert names == {
        "torso": ["online/torso/dense_0/w", "online/torso/dense_0/b", "online/torso/dense_1/w"],
        "value": ["online/value/w"],
        "scale": ["online/scale"],
    }
    assert list(names) == ["torso", "value", "scale"]


def test_names_choose_and_order_the_blocks():
    make("online/torso", "w")
    make("online/value", "w")
    make("online/advantage", "w")
    assert list(blocks_of("online", ["advantage", "torso"])) == ["advantage", "torso"]
    with pytest.raises(UnknownName) as error:
        blocks_of("online", ["valu"])
    assert str(error.value) == (
        "no block 'valu' in scope 'online', there are torso, value, advantage; "
        "did you mean 'value'?"
    )


def test_blocks_share_no_variable_and_leave_none_out():
    with tf.variable_scope("online"):
        dense(dense(tf.ones([1, 3]), 4, "a"), 2, "b")
    spread = [v.name for block in blocks_of("online").values() for v in block]
    assert sorted(spread) == sorted(v.name for v in variables_in("online").values())
    assert len(set(spread)) == 4  # two layers of w and b


def test_no_gradient_reaches_a_guarded_scope():
    x = tf.ones([1, 3])
    with tf.variable_scope("online"):
        online = dense(x, 2, "out")
    with tf.variable_scope("target", custom_getter=stop_gradient_getter):
        target = dense(x, 2, "out")
    loss = tf.reduce_sum(tf.square(online - target))
    guarded, learning = list(variables_in("target").values()), list(variables_in("online").values())
    assert tf.gradients(loss, guarded) == [None, None]
    assert all(gradient is not None for gradient in tf.gradients(loss, learning))


def test_the_guard_holds_in_scopes_within_the_guarded_one():
    with tf.variable_scope("target", custom_getter=stop_gradient_getter):
        y = dense(dense(tf.ones([1, 3]), 4, "torso"), 1, "head")
    assert tf.gradients(y, list(variables_in("target").values())) == [None] * 4


def test_the_guard_lets_gradients_pass_through_to_the_inputs():
    x = tf.ones([1, 3])
    with tf.variable_scope("target", custom_getter=stop_gradient_getter):
        y = dense(x, 1, "out")
    assert tf.gradients(y, [x]) != [None]


def test_guarded_values_are_the_variables_and_found_by_the_scope(evaluate):
    with tf.variable_scope("target", custom_getter=stop_gradient_getter):
        seen = tf.get_variable("w", initializer=np.float32([1, 2]))
    (variable,) = variables_in("target").values()
    assert not hasattr(seen, "assign") and variable.op.name == "target/w"
    np.testing.assert_array_equal(evaluate(seen), [1, 2])
    evaluate(variable.assign([3, 4]))
    np.testing.assert_array_equal(evaluate(seen), [3, 4])


def test_a_scope_may_be_read_unguarded_and_guarded(evaluate):
    # loss = w * stop(w): the gradient is the guarded factor alone, w = 5, and not 2 w = 10.
    with tf.variable_scope("online"):
        free = tf.get_variable("w", initializer=np.float32(5))
    with tf.variable_scope("online", reuse=True, custom_getter=stop_gradient_getter):
        guarded = tf.get_variable("w")
    assert evaluate(tf.gradients(free * guarded, [free])[0]) == 5
    assert len(variables_in("online")) == 1  # reuse made no second one


def test_a_guarded_scope_is_reused_guarded(evaluate):
    x = tf.placeholder(tf.float32, [None, 2])
    with tf.variable_scope("target", custom_getter=stop_gradient_getter):
        first = dense(x, 1, "out")
    with tf.variable_scope("target", reuse=True, custom_getter=stop_gradient_getter):
        second = dense(2.0 * x, 1, "out")
    assert len(variables_in("target")) == 2
    assert tf.gradients(second, list(variables_in("target").values())) == [None, None]
    feed = {x: [[1, 0], [0, 1]]}
    half = {x: [[0.5, 0], [0, 0.5]]}
    np.testing.assert_array_equal(evaluate(first, feed), evaluate(second, half))


def test_a_guarded_scope_without_reuse_may_not_be_built_twice():
    make("target", "w")
    with (
        tf.variable_scope("target", custom_getter=stop_gradient_getter),
        pytest.raises(ValueError, match="target/w already exists"),
    ):
        tf.get_variable("w", [])
