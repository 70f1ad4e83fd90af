"""A ring of past states: which slot holds what, and looking back over updates."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import PastStates, ScopeMismatch, dense, variables_in
from targetnet.rl_core.errors import BoundsError


class Model:
    """y = w * x; an update adds 1 to w. The ring looks back at it."""

    def __init__(self, engine, k, w=1.0):
        self.engine = engine
        with engine.building():
            self.x = tf.placeholder(tf.float32, [])
            with tf.variable_scope("model") as scope:
                self.w = tf.get_variable("w", initializer=np.float32(w))
                self.now = self.w * self.x
            add = self.w.assign_add(1.0, read_value=False)
            self.past = PastStates(engine, scope.name, k=k)
            self.before = []
            for i in range(k):
                with self.past.scope(i):
                    self.before.append(tf.get_variable("w") * self.x)
        engine.start()
        self.update = engine.callable(None, targets=[add])

    def slots(self):
        return self.engine.run(self.before, {self.x: 1.0})


def test_snapshots_fill_the_slots_in_turn_and_overwrite_the_oldest(engine):
    model = Model(engine, k=3)
    slots = []
    for _ in range(5):  # of w = 1, 2, 3, 4, 5
        slots.append(model.past.snapshot())
        model.update()
    assert slots == [0, 1, 2, 0, 1]
    assert model.slots() == [4, 5, 3]


def test_a_snapshot_leaves_the_source_and_the_other_slots(engine):
    model = Model(engine, k=2)
    model.past.snapshot()
    assert engine.run(model.w) == 1
    assert model.slots() == [1, 0]


def test_restore_brings_back_any_slot_in_any_order(engine):
    model = Model(engine, k=3)
    for _ in range(3):  # slots 0, 1, 2 hold 1, 2, 3; w is 4 in the end
        model.past.snapshot()
        model.update()
    for slot, w in [(1, 2), (0, 1), (2, 3), (2, 3)]:
        model.past.restore(slot)
        assert engine.run(model.w) == w
    assert model.slots() == [1, 2, 3]  # restoring changes no slot
    assert model.past.snapshot() == 0  # and does not move the ring


def test_restore_after_overwriting_gives_the_newer_state(engine):
    model = Model(engine, k=2)
    for _ in range(3):
        model.past.snapshot()
        model.update()
    model.past.restore(0)
    assert engine.run(model.w) == 3


@pytest.mark.parametrize(("taken", "slot"), [(0, 0), (1, 1), (2, 2), (3, 2), (5, 3), (1, -1)])
def test_a_slot_without_a_snapshot_is_an_index_error(engine, taken, slot):
    model = Model(engine, k=2)
    for _ in range(taken):
        model.past.snapshot()
    with pytest.raises(BoundsError, match=f"no snapshot in slot {slot}: {taken} taken .* of 2"):
        model.past.restore(slot)
    assert engine.run(model.w) == 1


def test_the_state_now_and_at_t_minus_1_over_two_updates_in_a_row(engine):
    model = Model(engine, k=1, w=5.0)
    seen = []
    for _ in range(2):
        model.past.snapshot()
        model.update()
        seen.append(engine.run([model.before[0], model.now], {model.x: 10.0}))
    assert seen == [[50, 60], [60, 70]]  # 10 * (5, 6), then 10 * (6, 7)


def test_no_gradient_reaches_the_past(engine):
    with engine.building():
        x = tf.ones([1, 2])
        with tf.variable_scope("model") as scope:
            now = dense(x, 1, "out")
        past = PastStates(engine, scope.name, k=2)
        with past.scope(1):
            before = dense(x, 1, "out")
        loss = tf.reduce_sum(tf.square(now - before))
        copies = list(variables_in(past.name).values())
        assert len(copies) == 4  # two slots of w and b
        assert tf.gradients(loss, copies) == [None] * 4
        assert None not in tf.gradients(loss, list(variables_in("model").values()))


def test_the_ring_lives_under_the_outer_scope_it_was_made_in(engine):
    with engine.building():
        rings = []
        for agent, w in [("agent_a", 1.0), ("agent_b", 2.0)]:
            with tf.variable_scope(agent):
                with tf.variable_scope("online") as online:
                    tf.get_variable("torso/w", initializer=np.float32(w))
                rings.append(PastStates(engine, online.name, k=2))
        assert [ring.name for ring in rings] == ["agent_a/past", "agent_b/past"]
        held = {ring.name: variables_in(ring.name) for ring in rings}
        assert list(held["agent_a/past"]) == ["0/torso/w", "1/torso/w"]
    engine.start()
    rings[1].snapshot()
    assert engine.run(held) == {
        "agent_a/past": {"0/torso/w": 0, "1/torso/w": 0},
        "agent_b/past": {"0/torso/w": 2, "1/torso/w": 0},
    }
    with pytest.raises(BoundsError):
        rings[0].restore(0)  # each counts its own


def test_a_ring_may_have_another_name(engine):
    with engine.building():
        with tf.variable_scope("model") as scope:
            tf.get_variable("w", [])
        assert PastStates(engine, scope.name, k=1, name="best").name == "best"
        assert list(variables_in("best")) == ["0/w"]


def test_copies_have_the_shape_and_dtype_of_their_source(engine):
    with engine.building():
        with tf.variable_scope("model") as scope:
            tf.get_variable("w", initializer=np.float64([[1, 2], [3, 4]]))
            tf.get_variable("b", initializer=np.float32([5]))
        past = PastStates(engine, scope.name, k=1)
        copies = variables_in(past.name)
    engine.start()
    past.snapshot()
    got = engine.run(copies)
    np.testing.assert_array_equal(got["0/w"], [[1, 2], [3, 4]])
    assert (got["0/w"].dtype, got["0/b"].dtype) == (np.float64, np.float32)


def test_snapshots_and_restores_add_no_operation(engine):
    model = Model(engine, k=2)
    before = len(engine.graph.get_operations())
    for _ in range(3):
        model.past.restore(model.past.snapshot())
    assert len(engine.graph.get_operations()) == before


@pytest.mark.parametrize("k", [0, -1])
def test_a_ring_without_a_slot_is_refused(engine, k):
    with engine.building():
        with tf.variable_scope("model"):
            tf.get_variable("w", [])
        with pytest.raises(ValueError, match=f"k must be a whole number >= 1 .* got {k}"):
            PastStates(engine, "model", k=k)


def test_a_ring_of_a_scope_without_variables_is_refused(engine):
    with engine.building():
        with tf.variable_scope("model"):
            tf.get_variable("w", [])
        operations = engine.graph.get_operations()
        with pytest.raises(ScopeMismatch, match="scope 'mode'; did you mean 'model'"):
            PastStates(engine, "mode", k=1)
        assert engine.graph.get_operations() == operations
