"""A model and its backup: out of sync after a change, in sync after a copy, and a look back.

Both scopes compute a + 2 b from a = 1 and b = 3: 7.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import (
    PastStates,
    ScopeMismatch,
    copy_vars,
    stop_gradient_getter,
    variables_in,
)


def total(**extra):
    a = tf.get_variable("a", initializer=np.float32(1))
    b = tf.get_variable("b", initializer=np.float32(3))
    more = [tf.get_variable(name, initializer=np.float32(value)) for name, value in extra.items()]
    return tf.add_n([a + 2.0 * b, *more])


class Pair:
    def __init__(self, engine, **extra):
        """`extra`: variables that only the original has."""
        self.engine = engine
        with engine.building():
            with tf.variable_scope("original"):
                self.original = total(**extra)
            with tf.variable_scope("backup", custom_getter=stop_gradient_getter):
                self.backup = total()
            self.a = variables_in("original")["a"]
            self.set_a = self.a.assign(3.0)
            self.copy = copy_vars("original", "backup", allow_missing=bool(extra))
        engine.start()

    def both(self):
        return tuple(self.engine.run([self.original, self.backup]))


def test_in_sync_out_of_sync_and_in_sync_again(engine):
    pair = Pair(engine)
    assert pair.both() == (7, 7)  # 1 + 2 * 3
    engine.run(pair.set_a)
    assert pair.both() == (9, 7)  # 3 + 2 * 3
    engine.run(pair.copy)
    assert pair.both() == (9, 9)


def test_a_variable_that_only_the_original_has_is_an_error_unless_it_is_allowed(engine):
    with engine.building():
        with tf.variable_scope("original"):
            total(c=10)
        with tf.variable_scope("backup"):
            total()
        with pytest.raises(ScopeMismatch, match=r"only in source \['c'\], only in target \[\]"):
            copy_vars("original", "backup")


def test_the_common_part_is_copied_when_that_is_allowed(engine):
    pair = Pair(engine, c=10)
    assert pair.both() == (17, 7)
    engine.run(pair.set_a)
    engine.run(pair.copy)
    assert pair.both() == (19, 9)  # c stays the original's own


def test_no_gradient_reaches_the_guarded_scope_and_training_leaves_it(engine):
    with engine.building():
        with tf.variable_scope("original"):
            original = total()
        with tf.variable_scope("backup", custom_getter=stop_gradient_getter):
            backup = total()
        loss = tf.square(original - backup - 1.0)  # by original -2, so by a -2 and by b -4
        guarded, free = variables_in("backup").values(), variables_in("original").values()
        assert tf.gradients(loss, list(guarded)) == [None, None]
        gradients = tf.gradients(loss, list(free))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)  # of all trainable variables
    engine.start()
    assert engine.run(gradients) == [-2, -4]
    engine.run(train)
    assert engine.run([original, backup]) == [12, 7]  # a = 2, b = 5


def test_two_updates_in_a_row_with_the_state_at_t_and_at_t_minus_1(engine):
    with engine.building():
        with tf.variable_scope("original") as scope:
            now = total()
        past = PastStates(engine, scope.name, k=1)
        with past.scope(0):
            before = total()
        add = variables_in("original")["a"].assign_add(1.0)
        assert tf.gradients(now - before, list(variables_in(past.name).values())) == [None, None]
    engine.start()
    seen = []
    for _ in range(2):
        past.snapshot()
        engine.run(add)
        seen.append(tuple(engine.run([before, now])))
    assert seen == [(7, 8), (8, 9)]
    past.restore(0)
    assert engine.run([before, now]) == [8, 8]
