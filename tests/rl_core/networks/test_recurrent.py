"""Recurrent layers against their equations in NumPy, step by step and unrolled."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core import Engine
from targetnet.rl_core.graph.scopes import root_scope
from targetnet.rl_core.graph.xla import built_for_xla
from targetnet.rl_core.networks import RECURRENT

F, U, B, T = 3, 2, 4, 7
rng = np.random.default_rng(0)
FEATURES = rng.normal(size=[T, B, F]).astype(np.float32)
BEGINS = rng.random([T, B]) < 0.3
BEGINS[0] = [True, False, True, False]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(x, state, weights):
    seen = x @ weights["input/w"] + weights["input/b"]
    before = state @ weights["state/w"] + weights["state/b"]
    z = sigmoid(seen[:, :U] + before[:, :U])
    r = sigmoid(seen[:, U : 2 * U] + before[:, U : 2 * U])
    n = np.tanh(seen[:, 2 * U :] + r * before[:, 2 * U :])
    return (1 - z) * n + z * state


def lstm(x, state, weights):
    h, c = state[:, :U], state[:, U:]
    both = x @ weights["input/w"] + weights["input/b"] + h @ weights["state/w"]
    both = both + weights["state/b"]
    i, f, o, new = (both[:, k * U : (k + 1) * U] for k in range(4))
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(new)
    return np.concatenate([sigmoid(o) * np.tanh(c), c], axis=1)


TWINS = {"gru": gru, "lstm": lstm}


class Built:
    """A layer in an engine of its own, with random weights."""

    def __init__(self, kind, held=2, compiled=False):
        self.layer = RECURRENT[kind](U)
        self.engine = Engine()
        with self.engine.building(), root_scope("", 0):
            features = tf.placeholder(tf.float32, [T, B, F])
            state = tf.placeholder(tf.float32, [B, self.layer.state_size])
            begins = tf.placeholder(tf.bool, [T, B])
            with tf.variable_scope("layer"):
                step = self.layer.step(features[0], state)
            variables = {v.op.name.partition("/")[2]: v for v in tf.trainable_variables()}

            @tf2.function(jit_compile=compiled, autograph=False)
            def unroll():
                with (
                    built_for_xla(compiled),
                    tf.variable_scope("layer", reuse=True, auxiliary_name_scope=False),
                ):
                    outputs = self.layer.unroll(features, state, begins, held)
                weighted = outputs * tf.constant(WEIGHTS)
                own = tf.gradients(tf.reduce_sum(weighted), [features, *variables.values()])
                return outputs, *own

            unrolled = unroll()
            draw = np.random.default_rng(1)
            self.weights = {
                name: draw.normal(size=v.shape).astype(np.float32) for name, v in variables.items()
            }
            load = [v.assign(self.weights[name]).op for name, v in variables.items()]
        self.engine.start()
        self.engine.run(load)
        self.step = self.engine.callable(step, [features, state])
        self.unroll = self.engine.callable(unrolled, [features, state, begins])
        self.names = list(variables)


WEIGHTS = rng.normal(size=[T, B, U]).astype(np.float32)


def states(size):
    return np.random.default_rng(2).normal(size=[B, size]).astype(np.float32)


def twin_outputs(kind, weights, features, state, begins=BEGINS):
    outputs = []
    for x, begin in zip(features, begins, strict=True):
        state = TWINS[kind](x, np.where(begin[:, None], 0, state), weights)
        outputs.append(state[:, :U])
    return np.stack(outputs)


@pytest.mark.cases(0)
@pytest.mark.parametrize("kind", RECURRENT)
def test_a_step_is_the_equation(kind):
    built = Built(kind)
    assert built.layer.state_size == {"gru": U, "lstm": 2 * U}[kind]
    state = states(built.layer.state_size)
    features, after = built.step(FEATURES, state)
    wanted = TWINS[kind](FEATURES[0], state, built.weights)
    np.testing.assert_allclose(after, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(features, after[:, :U])
    built.engine.close()


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", RECURRENT)
def test_unrolled_it_is_one_step_after_the_other_and_episodes_begin_anew(kind, compiled):
    built = Built(kind, compiled=compiled)
    state = states(built.layer.state_size)
    outputs, *_ = built.unroll(FEATURES, state, BEGINS)
    wanted = twin_outputs(kind, built.weights, FEATURES, state)
    np.testing.assert_allclose(outputs, wanted, rtol=1e-5, atol=1e-6)
    # A state that is forgotten leaves no trace, whatever it was.
    other = np.where(BEGINS[0][:, None], np.nan, state)
    np.testing.assert_array_equal(built.unroll(FEATURES, other, BEGINS)[0], outputs)
    built.engine.close()


@pytest.mark.cases(0)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", RECURRENT)
def test_gradients_flow_through_time_but_not_into_the_burn_in(kind, compiled):
    held = 2
    built = Built(kind, held, compiled)
    state = states(built.layer.state_size)
    _, of_features, *of_weights = built.unroll(FEATURES, state, BEGINS)

    def loss(features, weights):
        """As if the burn-in's features were numbers: it is weighted, and gives a fixed state."""
        weights = {name: of.astype(np.float64) for name, of in weights.items()}
        first = twin_outputs(kind, weights, features[:held], state, BEGINS[:held])
        kept = state.astype(np.float64)
        for x, begin in zip(FEATURES[:held], BEGINS[:held], strict=True):
            kept = TWINS[kind](x, np.where(begin[:, None], 0, kept), built.weights)
        rest = twin_outputs(kind, weights, features[held:], kept, BEGINS[held:])
        return (np.concatenate([first, rest]) * WEIGHTS).sum()

    def slope(change):
        e = 1e-4
        return (change(e) - change(-e)) / (2 * e)

    for t, b, f in [(0, 1, 0), (1, 3, 2), (2, 0, 1), (6, 2, 0)]:

        def moved(by, place=(t, b, f)):
            features = FEATURES.astype(np.float64)
            features[place] += by
            return loss(features, built.weights)

        assert of_features[t, b, f] == pytest.approx(slope(moved), rel=1e-3, abs=1e-4)
    for name, gradient in zip(built.names, of_weights, strict=True):
        for place in (0, gradient.size - 1):

            def moved(by, name=name, place=place):
                weights = {n: of.astype(np.float64) for n, of in built.weights.items()}
                weights[name].reshape(-1)[place] += by
                return loss(FEATURES.astype(np.float64), weights)

            got = gradient.reshape(-1)[place]
            assert got == pytest.approx(slope(moved), rel=1e-3, abs=1e-4), name
    built.engine.close()
