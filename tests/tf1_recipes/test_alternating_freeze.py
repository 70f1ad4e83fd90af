"""Two variables trained in turns: minimise |x - y| from x = 3 and y = 31 by Adam, rate 0.01.

x rests in updates 0 to 4 of every ten and y in 5 to 9. The one that rests keeps every bit; the
one that moves does so as if its own updates were all there are.
"""

import itertools
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import AllExempt, ApplyOps, Arm, FreezeSchedule, blocks_of

RATE = 0.01


class AdamTwin:
    """Kingma & Ba (2015), algorithm 1, for one number, with step counters of its own."""

    def __init__(self, value):
        self.value, self.m, self.v, self.t = value, 0.0, 0.0, 0

    def step(self, gradient):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        self.value -= RATE * m / (math.sqrt(v) + 1e-8)


class Distance:
    """loss = |x - y|, or (x - y)^2 whose gradient changes as they move."""

    def __init__(self, engine, distance=tf.abs):
        self.engine = engine
        with engine.building():
            with tf.variable_scope("model"):
                self.x = tf.get_variable("x", initializer=np.float32(3))
                self.y = tf.get_variable("y", initializer=np.float32(31))
            self.loss = distance(self.x - self.y)
            self.ops = ApplyOps(self.loss, blocks_of("model"), lambda: tf.train.AdamOptimizer(RATE))
        engine.start()

    def values(self):
        return [float(value) for value in self.engine.run([self.x, self.y])]


def test_only_the_one_whose_turn_it_is_moves_and_it_moves_as_adam_by_hand(engine):
    model, x, y = Distance(engine), AdamTwin(3.0), AdamTwin(31.0)
    turns = FreezeSchedule([Arm({"x"}, 5), Arm({"y"}, 5)])
    for update in range(40):
        before = model.values()
        ((exempt, _),) = turns.phases(1)
        model.ops.callable(engine, exempt)()
        after = model.values()
        if update % 10 < 5:
            y.step(+1.0)  # d|x - y| / dy, as y > x
            assert after[0] == before[0] and after[1] < before[1]
        else:
            x.step(-1.0)
            assert after[1] == before[1] and after[0] > before[0]
        assert after == pytest.approx([x.value, y.value], abs=1e-4)
    # 20 steps each, all of length 0.01
    assert model.values() == pytest.approx([3.2, 30.8], abs=1e-4)


def test_with_gradients_that_change_each_still_follows_its_own_adam(engine):
    model, x, y = Distance(engine, tf.square), AdamTwin(3.0), AdamTwin(31.0)
    turns = FreezeSchedule([Arm({"x"}, 5), Arm({"y"}, 5)])
    for _ in range(60):
        ((exempt, _),) = turns.phases(1)
        model.ops.callable(engine, exempt)()
        twin, other = (y, x) if exempt == {"x"} else (x, y)
        twin.step(2 * (twin.value - other.value))  # d(x - y)^2
        assert model.values() == pytest.approx([x.value, y.value], rel=1e-5)


def test_n_apply_ops_serve_every_exempt_set(engine):
    """n = 4: 15 exempt sets, 4 apply ops, and the graph does not grow."""
    names = "wxyz"
    with engine.building():
        with tf.variable_scope("model"):
            variables = [tf.get_variable(name, initializer=np.float32(10)) for name in names]
        ops = ApplyOps(
            tf.add_n(variables), blocks_of("model"), lambda: tf.train.GradientDescentOptimizer(1.0)
        )
    engine.start()
    operations = engine.graph.get_operations()
    applying = [op for op in operations if "GradientDescent" in op.type]
    assert len(applying) == 4
    sets = [frozenset(some) for n in range(4) for some in itertools.combinations(names, n)]
    callables = {exempt: ops.callable(engine, exempt) for exempt in sets}
    assert len(set(map(id, callables.values()))) == len(sets) == 15
    for exempt, update in callables.items():
        before = engine.run(variables)
        update()
        moved = [a != b for a, b in zip(engine.run(variables), before, strict=True)]
        assert moved == [name not in exempt for name in names]
    assert engine.graph.get_operations() == operations


def test_callables_are_kept_per_loss_and_per_exempt_set(engine):
    with engine.building():
        with tf.variable_scope("model"):
            x = tf.get_variable("x", initializer=np.float32(3))
            y = tf.get_variable("y", initializer=np.float32(31))
        blocks = blocks_of("model")
        near, far = (
            ApplyOps(loss, blocks, lambda: tf.train.GradientDescentOptimizer(1.0))
            for loss in (tf.abs(x - y), -tf.abs(x - y))
        )
    engine.start()
    made = {
        (loss, exempt): ops.callable(engine, exempt)
        for loss, ops in [("near", near), ("far", far)]
        for exempt in [frozenset(), frozenset("x"), frozenset("y")]
    }
    assert len(set(map(id, made.values()))) == 6
    assert near.callable(engine, ["x"]) is made["near", frozenset("x")]
    made["near", frozenset("x")]()
    assert engine.run([x, y]) == [3, 30]
    made["far", frozenset("y")]()
    assert engine.run([x, y]) == [2, 30]


def test_leaving_everything_alone_is_a_clear_error(engine):
    model = Distance(engine)
    with pytest.raises(AllExempt, match=r"every block \(x, y\) is exempt, so nothing would be"):
        model.ops.callable(engine, {"x", "y"})
    assert model.values() == [3, 31]


def penalised_agents():
    """Two agents that put the square of each weight into the collection `penalties`."""
    for agent, value in [("agent", 2.0), ("agent_2", 3.0)]:
        with tf.variable_scope(agent):
            for block in ("torso", "head"):
                with tf.variable_scope(block):
                    w = tf.get_variable("w", initializer=np.float32(value))
                    tf.add_to_collection("penalties", tf.square(w, name="penalty"))


def names_in(scope):
    return [term.op.name for term in tf.get_collection("penalties", scope=scope)]


def test_losses_in_a_collection_are_gathered_by_scope(evaluate):
    penalised_agents()
    assert len(tf.get_collection("penalties")) == 4
    assert names_in("agent/") == ["agent/torso/penalty", "agent/head/penalty"]
    assert names_in("agent_2/torso/") == ["agent_2/torso/penalty"]
    mine = tf.add_n(tf.get_collection("penalties", scope="agent/"))
    assert evaluate(mine) == 8  # 2^2 + 2^2
    assert tf.gradients(mine, [v for v in tf.trainable_variables() if "agent_2" in v.name]) == [
        None,
        None,
    ]


def test_without_the_slash_a_collection_gives_the_losses_of_the_longer_name_too(evaluate):
    penalised_agents()
    assert len(names_in("agent")) == 4
    assert len(names_in("agent/")) == 2


def test_a_collection_matches_the_name_of_the_operation_not_of_the_variable(evaluate):
    """A scope opened again has the old variables under a new name scope."""
    penalised_agents()
    with tf.variable_scope("agent/torso", reuse=True):
        again = tf.square(tf.get_variable("w"), name="penalty")
    tf.add_to_collection("penalties", again)
    assert again.op.name == "agent/torso_1/penalty"
    assert names_in("agent/torso/") == ["agent/torso/penalty"]
    assert len(names_in("agent/")) == 3


def test_penalties_of_one_block_and_the_loss_are_trained_apart_by_exempt_sets(engine):
    # loss = sum of squares of agent's torso and head, both 2: by each 4
    with engine.building():
        penalised_agents()
        ops = ApplyOps(
            tf.add_n(tf.get_collection("penalties", scope="agent/")),
            blocks_of("agent"),
            lambda: tf.train.GradientDescentOptimizer(0.25),
        )
        variables = tf.trainable_variables()
    engine.start()
    ops.callable(engine, {"head"})()
    assert engine.run(variables) == [1, 2, 3, 3]  # 2 - 0.25 * 4
