"""Copies between scopes: numbers by hand, pairs by name, texts of the errors."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import ScopeMismatch, copy_vars, paired_variables, variables_in


def make(scope, **values):
    """A scope with these variables, built in the order of the arguments."""
    with tf.variable_scope(scope) as made:
        for name, value in values.items():
            tf.get_variable(name, initializer=np.asarray(value, np.float32))
    return made.name


def values(engine, scope):
    with engine.graph.as_default():
        return {name: value.tolist() for name, value in engine.run(variables_in(scope)).items()}


def test_a_hard_copy_sets_the_target_and_leaves_the_source(engine):
    with engine.building():
        make("online", w=[1, 2], b=3)
        make("target", w=[7, 8], b=9)
        copy = copy_vars("online", "target")
    engine.start()
    assert values(engine, "target") == {"w": [7, 8], "b": 9}  # nothing is copied by building
    engine.run(copy)
    assert values(engine, "target") == {"w": [1, 2], "b": 3}
    assert values(engine, "online") == {"w": [1, 2], "b": 3}


def test_a_copy_does_not_follow_its_source(engine):
    with engine.building():
        make("online", w=[1, 2])
        make("target", w=[0, 0])
        copy = copy_vars("online", "target")
        step = variables_in("online")["w"].assign_add([10.0, 10.0])
    engine.start()
    engine.run(copy)
    engine.run(step)
    assert values(engine, "online") == {"w": [11, 12]}
    assert values(engine, "target") == {"w": [1, 2]}


def test_a_soft_copy_moves_the_target_by_its_share_of_the_way(engine):
    with engine.building():
        make("online", w=[20, 0], b=1)
        make("target", w=[10, 8], b=1)
        copy = copy_vars("online", "target", tau=0.25)
    engine.start()
    engine.run(copy)  # 10 + 0.25 * 10; 8 - 0.25 * 8; already there
    assert values(engine, "target") == {"w": [12.5, 6], "b": 1}
    engine.run(copy)  # 12.5 + 0.25 * 7.5; 6 - 0.25 * 6
    assert values(engine, "target") == {"w": [14.375, 4.5], "b": 1}
    assert values(engine, "online") == {"w": [20, 0], "b": 1}


def test_a_fed_tau_changes_from_one_copy_to_the_next_without_a_new_operation(engine):
    with engine.building():
        make("online", w=16)
        make("target", w=0)
        tau = tf.placeholder(tf.float32, [], "tau")
        op = copy_vars("online", "target", tau=tau)
    engine.start()
    before = len(engine.graph.get_operations())
    copy = engine.callable(None, [tau], [op])
    copy(np.float32(0.5))  # 0 + 16 / 2
    assert values(engine, "target") == {"w": 8}
    copy(np.float32(0.25))  # 8 + 8 / 4
    assert values(engine, "target") == {"w": 10}
    copy(np.float32(1))
    assert values(engine, "target") == {"w": 16}
    assert len(engine.graph.get_operations()) == before


def test_a_soft_copy_takes_some_variables_over_whole(engine):
    with engine.building():
        make("online", **{"w": [20, 0], "moments/mean": 16})
        make("target", **{"w": [10, 8], "moments/mean": 0})
        due = tf.placeholder(tf.bool, [])
        of_moments = {"tau": 0.25, "whole": lambda name: name.startswith("moments/")}
        op = copy_vars("online", "target", only_if=due, **of_moments)
    engine.start()
    copy = engine.callable(None, [due], [op])
    copy(np.bool_(False))
    assert values(engine, "target") == {"w": [10, 8], "moments/mean": 0}
    copy(np.bool_(True))
    assert values(engine, "target") == {"w": [12.5, 6], "moments/mean": 16}


# 1e8 + 1 * (0.1 - 1e8) is 0 in float32, and -0.3 + (0.1 - -0.3) is not 0.1 either.
@pytest.mark.parametrize("fed", [True, False])
def test_a_soft_copy_with_tau_one_gives_the_sources_bits(engine, fed):
    with engine.building():
        make("online", w=[0.1, 0.1, 1 / 3], b=1e-7)
        make("target", w=[1e8, -0.3, 7.7], b=1e7)
        tau = tf.placeholder(tf.float32, []) if fed else 1.0
        op = copy_vars("online", "target", tau=tau)
    engine.start()
    if fed:
        engine.callable(None, [tau], [op])(np.float32(1))
    else:
        engine.callable(None, targets=[op])()
    assert values(engine, "target") == values(engine, "online")


def test_a_soft_copy_serves_float64_variables_with_a_float32_tau(engine):
    with engine.building():
        for scope, value in [("online", 4.0), ("target", 0.0)]:
            with tf.variable_scope(scope):
                tf.get_variable("w", initializer=np.float64(value))
        tau = tf.placeholder(tf.float32, [])
        op = copy_vars("online", "target", tau=tau)
    engine.start()
    engine.callable(None, [tau], [op])(np.float32(0.5))
    assert values(engine, "target") == {"w": 2.0}


@pytest.mark.parametrize(
    "tau", [0, 0.0, -0.5, 1.5, 2, float("nan"), np.float64(2), np.float32(2), np.int64(3)]
)
def test_a_tau_that_is_no_share_is_refused(tau):
    with tf.Graph().as_default():
        make("online", w=1)
        make("target", w=2)
        with pytest.raises(ValueError, match=rf"tau must be in \(0, 1\], got {tau}"):
            copy_vars("online", "target", tau=tau)


def test_variables_are_paired_by_name_and_not_by_the_order_they_were_built_in(engine):
    with engine.building():
        make("online", w=1, b=2, a=3)
        make("target", b=0, a=0, w=0)  # the same names and shapes, another order
        copy = copy_vars("online", "target")
        pairs = paired_variables("online", "target")
    engine.start()
    engine.run(copy)
    assert values(engine, "target") == {"w": 1, "b": 2, "a": 3}
    assert [(of.op.name, to.op.name) for of, to in pairs] == [
        ("online/w", "target/w"),  # in source order
        ("online/b", "target/b"),
        ("online/a", "target/a"),
    ]


def test_variables_are_paired_by_name_and_not_by_sorted_position(engine):
    with engine.building():
        make("online", a=1, b=2)
        make("target", b=0, c=0)  # by sorted position a would go into b
        copy = copy_vars("online", "target", allow_missing=True)
    engine.start()
    engine.run(copy)
    assert values(engine, "target") == {"b": 2, "c": 0}


def test_layers_of_two_digits_are_paired_with_themselves(engine):
    with engine.building():
        make("online", **{f"layer_{i}": i for i in range(12)})
        make("target", **{f"layer_{i}": -1 for i in reversed(range(12))})
        copy = copy_vars("online", "target")
    engine.start()
    engine.run(copy)
    assert values(engine, "target") == {f"layer_{i}": i for i in range(12)}


def test_variables_of_one_side_only_are_named_with_the_side():
    with tf.Graph().as_default():
        make("online", w=1, extra=1)
        make("target", w=1, other=1)
        with pytest.raises(ScopeMismatch) as error:
            copy_vars("online", "target")
    assert str(error.value) == (
        "cannot copy scope 'online' to 'target': only in source ['extra'], "
        "only in target ['other']. Build both scopes with the same network function."
    )


@pytest.mark.parametrize("only", ["source", "target"])
def test_one_variable_too_many_is_an_error_on_either_side(only):
    with tf.Graph().as_default():
        make("online", w=1, **({"b": 1} if only == "source" else {}))
        make("target", w=1, **({"b": 1} if only == "target" else {}))
        with pytest.raises(ScopeMismatch, match=rf"only in {only} \['b'\]"):
            copy_vars("online", "target")


@pytest.mark.parametrize("allow_missing", [True, False])
def test_scopes_with_nothing_in_common_are_an_error_that_asks_for_the_path(allow_missing):
    with tf.Graph().as_default():
        make("agent_a/online", w=1)
        make("agent_a/target", w=1)
        make("agent_b", v=1)
        with pytest.raises(ScopeMismatch, match="are the scope paths complete"):
            copy_vars("agent_b", "agent_a/target", allow_missing=allow_missing)


@pytest.mark.parametrize("allow_missing", [True, False])
@pytest.mark.parametrize("pair", [copy_vars, paired_variables])
def test_a_scope_that_is_not_there_is_an_error_with_the_nearest(pair, allow_missing):
    with tf.Graph().as_default():
        make("agent_a/online", w=1)
        make("agent_a/target", w=1)
        with pytest.raises(ScopeMismatch, match="'agent_a/onlin'; did you mean 'agent_a/online'"):
            pair("agent_a/onlin", "agent_a/target", allow_missing=allow_missing)
        with pytest.raises(ScopeMismatch, match="'target'; did you mean 'agent_a/target'"):
            pair("agent_a/online", "target", allow_missing=allow_missing)


@pytest.mark.parametrize("allow_missing", [True, False])
def test_different_shapes_are_named_with_both(allow_missing):
    with tf.Graph().as_default():
        make("online", w=[1, 2], b=1)
        make("target", w=[1, 2, 3], b=1)
        with pytest.raises(ScopeMismatch) as error:
            copy_vars("online", "target", allow_missing=allow_missing)
    assert "w is float32(2,) in source and float32(3,) in target" in str(error.value)
    assert "b is" not in str(error.value)


def test_different_dtypes_are_named_with_both():
    with tf.Graph().as_default():
        make("online", w=1)
        with tf.variable_scope("target"):
            tf.get_variable("w", initializer=np.float64(1))
        with pytest.raises(ScopeMismatch, match=r"w is float32\(\) in source and float64\(\)"):
            copy_vars("online", "target")


@pytest.mark.parametrize("tau", [None, 0.5])
def test_allow_missing_copies_the_common_part_and_leaves_the_rest(engine, tau):
    with engine.building():
        make("online", w=4, only_here=5)
        make("target", w=0, only_there=7)
        copy = copy_vars("online", "target", tau=tau, allow_missing=True)
    engine.start()
    engine.run(copy)
    assert values(engine, "target") == {"w": 4 if tau is None else 2, "only_there": 7}
    assert values(engine, "online") == {"w": 4, "only_here": 5}


def test_syncing_one_of_two_agents_leaves_the_other_untouched(engine):
    with engine.building():
        copies = []
        for agent, value in [("agent_a", 1), ("agent_b", 2), ("agent_a2", 3)]:
            with tf.variable_scope(agent):
                online = make("online", w=value)
                target = make("target", w=-value)
                copies.append(copy_vars(online, target))
    engine.start()
    engine.run(copies[0])
    assert values(engine, "agent_a/target") == {"w": 1}
    assert values(engine, "agent_b/target") == {"w": -2}
    assert values(engine, "agent_a2/target") == {"w": -3}
    engine.run(copies[1])
    assert values(engine, "agent_b/target") == {"w": 2}
    assert values(engine, "agent_a2/target") == {"w": -3}


@pytest.mark.parametrize("tau", [None, 0.5])
def test_a_copy_is_one_operation(engine, tau):
    with engine.building():
        make("online", w=[1, 2], b=3)
        make("target", w=[0, 0], b=0)
        copy = copy_vars("online", "target", tau=tau)
    engine.start()
    assert isinstance(copy, tf.Operation)
    engine.callable(None, targets=[copy])()
    assert values(engine, "target") in ({"w": [1, 2], "b": 3}, {"w": [0.5, 1], "b": 1.5})


def test_only_trainable_variables_are_copied(engine):
    with engine.building():
        for scope, value in [("online", 1), ("target", 0)]:
            make(scope, w=value)
            with tf.variable_scope(scope):
                tf.get_variable("age", initializer=value, trainable=False)
        copy = copy_vars("online", "target")
        age = next(v for v in tf.global_variables() if v.op.name == "target/age")
    engine.start()
    engine.run(copy)
    assert values(engine, "target") == {"w": 1}
    assert engine.run(age) == 0
