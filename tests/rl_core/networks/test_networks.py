"""Q-networks: shapes, blocks, and what a head computes."""

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.graph.scopes import blocks_of, variables_in
from targetnet.rl_core.losses import support
from targetnet.rl_core.networks import (
    ACTIVATIONS,
    ByteBounds,
    Conditions,
    Streams,
    categorical_head,
    fqf_head,
    impala_torso,
    implicit_head,
    minatar_torso,
    mlp_torso,
    nature_torso,
    q_head,
    q_network,
    quantile_head,
    scaled_bytes,
)
from targetnet.rl_core.networks.heads import embedding
from targetnet.rl_core.random import Draws

ONE, TWO = Streams(3), Streams(3, dueling=True)
DEEP = Streams(3, dueling=True, hidden=[5], noisy=True)
PLAIN = q_network(mlp_torso([8, 4]), q_head(ONE))
DUELING = q_network(mlp_torso([8, 4]), q_head(TWO))
ATOMS = support(-1.0, 3.0, 5)
NETWORKS = {
    f"{kind}{name}": q_network(mlp_torso([8, 4]), head)
    for name, streams in {"": ONE, "_dueling": TWO, "_deep_and_noisy": DEEP}.items()
    for kind, head in {
        "q": q_head(streams),
        "categorical": categorical_head(streams, ATOMS),
        "quantile": quantile_head(streams, 7),
        "implicit": implicit_head(streams, 6, 4),
        "fqf": fqf_head(streams, 5),
    }.items()
}
HEADS = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def built(network, observation):
    with tf.variable_scope("online"):
        return network(tf.constant(observation))[0].q


def draws(purpose="now", counter=0):
    return Draws(3, purpose, tf.constant(counter, tf.int64))


@pytest.mark.cases(15)
@HEADS
@pytest.mark.parametrize("shape", [(2,), (), (2, 3), (4, 4, 2)])
def test_a_network_gives_one_value_per_action_whatever_the_observations_shape(
    evaluate, network, shape
):
    q = built(network, np.ones((5, *shape), np.float32))
    assert q.dtype == tf.float32
    assert evaluate(q).shape == (5, 3)


@HEADS
def test_a_batch_size_may_be_unknown_when_the_network_is_built(evaluate, network):
    observation = tf.placeholder(tf.float32, [None, 2])
    with tf.variable_scope("online"):
        q = network(observation)[0].q
    assert evaluate(q, {observation: np.ones((7, 2))}).shape == (7, 3)


def test_a_torso_and_a_q_head_are_the_blocks_torso_and_head(evaluate):
    built(PLAIN, np.ones((1, 2), np.float32))
    assert sorted(blocks_of("online")) == ["head", "torso"]


def test_a_dueling_head_is_the_blocks_value_and_advantage(evaluate):
    built(DUELING, np.ones((1, 2), np.float32))
    assert sorted(blocks_of("online")) == ["advantage", "torso", "value"]


def test_the_same_network_under_two_scopes_has_the_same_names_in_both(evaluate):
    for scope in ("online", "target"):
        with tf.variable_scope(scope):
            DUELING(tf.ones([1, 2]))
    assert variables_in("online").keys() == variables_in("target").keys()


def test_a_torso_has_a_layer_of_each_size_given(evaluate):
    with tf.variable_scope("online"):
        features = mlp_torso([8, 4])(tf.ones([5, 2]))
    assert features.shape.as_list() == [5, 4]
    shapes = sorted(tuple(v.shape.as_list()) for v in variables_in("online").values())
    assert shapes == [(2, 8), (4,), (8,), (8, 4)]


def test_the_torso_ends_in_a_relu(evaluate):
    with tf.variable_scope("online"):
        features = mlp_torso([64])(tf.constant(np.linspace(-3, 3, 10, dtype=np.float32)[:, None]))
    got = evaluate(features)
    assert got.min() == 0 and got.max() > 0


FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "tanh": math.tanh,
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "gelu": lambda x: x * math.erfc(-x / math.sqrt(2)) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_and_its_gradient_are_those_of_its_formula(evaluate, name):
    xs, step = [-20.0, -3.0, -1.0, -0.125, 0.25, 1.0, 4.0, 20.0], 1e-5
    x = tf.constant(xs)
    y = ACTIVATIONS[name](x)
    of = FORMULAS[name]
    assert evaluate(y) == pytest.approx([of(v) for v in xs], rel=1e-5, abs=1e-6)
    slopes = [(of(v + step) - of(v - step)) / (2 * step) for v in xs]
    assert evaluate(tf.gradients(y, x)[0]) == pytest.approx(slopes, rel=1e-4, abs=1e-5)


# Torso, shape of its observations, and how often an activation is in it.
ACTIVATED = [(mlp_torso, (2,), 2), (minatar_torso, (10, 10, 4), 3), (nature_torso, (84, 84, 4), 5),
             (impala_torso, (21, 21, 3), 15)]  # fmt: skip


@pytest.mark.parametrize(("torso", "shape", "times"), ACTIVATED)
def test_the_activation_follows_each_layer_of_a_torso_and_each_hidden_one_of_a_head(
    evaluate, torso, shape, times
):
    seen = []

    def activation(x):
        seen.append(x)
        return tf.tanh(x)

    head = q_head(Streams(3, dueling=True, hidden=[5, 6], activation=activation))
    network = q_network(torso([8, 4], activation=activation), head)
    q = built(network, np.zeros((1, *shape), np.float32))
    assert len(seen) == times + 4
    assert "Relu" not in {op.type for op in q.graph.get_operations()}


def test_layer_norm_adds_a_scale_and_a_shift_to_every_layer_of_the_torso(evaluate):
    torsos = {"plain": mlp_torso([8, 4]), "normal": mlp_torso([8, 4], normalise=True)}
    for name, torso in torsos.items():
        with tf.variable_scope(name):
            torso(tf.ones([1, 2]))
    assert len(variables_in("normal")) == len(variables_in("plain")) + 4


def test_a_normalised_torso_does_not_see_how_large_its_inputs_are(evaluate):
    x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        torso = mlp_torso([8], normalise=True)
        small, large = torso(tf.constant(x)), torso(tf.constant(1000 * x))
    for name, variable in variables_in("online").items():
        if name.endswith("dense_0/b"):
            evaluate(variable.assign(np.zeros(8)))
    np.testing.assert_allclose(evaluate(small), evaluate(large), atol=1e-2)


def advantage_bias():
    blocks = blocks_of("online")
    (bias,) = (v for v in blocks["advantage"] if v.shape.as_list() == [3])
    return bias


def test_adding_a_constant_to_every_advantage_changes_no_dueling_value(evaluate):
    q = built(DUELING, np.arange(6, dtype=np.float32).reshape(3, 2))
    before = evaluate(q)
    evaluate(advantage_bias().assign_add(3 * [5.0]))
    np.testing.assert_allclose(evaluate(q), before, atol=1e-5)


def test_a_dueling_value_is_the_value_plus_the_advantage_less_the_mean_advantage(evaluate):
    q = built(DUELING, np.ones((1, 2), np.float32))
    blocks = blocks_of("online")
    for variable in [*blocks["value"], *blocks["advantage"]]:
        evaluate(variable.assign(tf.zeros_like(variable)))
    evaluate(advantage_bias().assign([1, 2, 6]))
    (value_bias,) = (v for v in blocks["value"] if v.shape.as_list() == [1])
    evaluate(value_bias.assign([10]))
    np.testing.assert_allclose(evaluate(q), [[8, 9, 13]])  # mean 3: 10 + (1, 2, 6) - 3


def test_each_atom_of_a_dueling_distribution_is_less_its_mean_over_actions(evaluate):
    with tf.variable_scope("online"):
        x = Streams(2, dueling=True)(tf.ones([1, 3]), 2, None)  # [B, A, n]
    biases = {"value/v/b": [10, 20], "advantage/a/b": [1, 2, 3, 6]}
    for name, variable in variables_in("online").items():
        evaluate(variable.assign(biases.get(name, tf.zeros_like(variable))))
    # the means of (1, 3) and (2, 6) are 2 and 4: (10, 20) + (1, 2) - (2, 4), + (3, 6) - (2, 4)
    np.testing.assert_allclose(evaluate(x), [[[9, 18], [11, 22]]])


@pytest.mark.cases(11)
@HEADS
def test_bytes_are_pixels_and_are_scaled_to_between_0_and_1(evaluate, network):
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        pixels = network(tf.constant([[0, 255]], tf.uint8))[0].q
        floats = network(tf.constant([[0.0, 1.0]]))[0].q
    np.testing.assert_allclose(evaluate(pixels), evaluate(floats), rtol=1e-5, atol=1e-6)


# low, high -> what a network sees of the bytes 2, 6
SCALED = [
    (np.uint8(0), np.uint8(8), [0.25, 0.75]),
    (np.uint8(2), np.uint8(6), [0.0, 1.0]),
    (np.uint8([0, 4]), np.uint8([4, 6]), [0.5, 1.0]),  # each by its own
    (np.uint8([2, 4]), np.uint8([2, 8]), [0.0, 0.5]),  # the first can only be 2
]


@pytest.mark.parametrize(("low", "high", "seen"), SCALED, ids=str)
def test_bytes_are_scaled_by_their_own_bounds(evaluate, low, high, seen):
    scaled = scaled_bytes(tf.constant([[2, 6]], tf.uint8), ByteBounds(low, high))
    np.testing.assert_array_equal(evaluate(scaled), [seen])


def test_without_bounds_bytes_stay_as_they_are():
    observation = tf.constant([[2, 6]], tf.uint8)
    assert scaled_bytes(observation, None) is observation


def test_bools_are_0_and_1(evaluate):
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        bools = PLAIN(tf.constant([[False, True]]))[0].q
        floats = PLAIN(tf.constant([[0.0, 1.0]]))[0].q
    np.testing.assert_array_equal(evaluate(bools), evaluate(floats))


# What the heads know beside q.


def of(kind, x, **how):
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        values, _ = NETWORKS[kind](tf.constant(x), **how)
        return values


def test_a_categorical_q_is_the_mean_of_the_atoms_under_the_softmax(evaluate):
    x = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float32)
    values = evaluate(of("categorical_dueling", x)._asdict() | {"z": (), "taus": (), "own": ()})
    assert values["logits"].shape == (5, 3, 5)
    p = np.exp(values["logits"])
    p /= p.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(values["q"], p @ [-1, 0, 1, 2, 3], rtol=1e-5, atol=1e-6)


def test_a_quantile_q_is_the_mean_of_the_quantiles_at_the_midpoints(evaluate):
    values = of("quantile", np.ones((2, 2), np.float32))
    q, z = evaluate([values.q, values.z])
    assert z.shape == (2, 3, 7)
    np.testing.assert_allclose(q, z.mean(axis=2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values.taus, (np.arange(7) + 0.5) / 7, rtol=1e-6)


def test_a_single_quantile_is_the_value(evaluate):
    with tf.variable_scope("single"):
        values = quantile_head(Streams(3), 1)(tf.ones([2, 4]))
    q, z = evaluate([values.q, values.z])
    assert z.shape == (2, 3, 1)
    np.testing.assert_array_equal(q, z[:, :, 0])


def test_implicit_quantiles_without_draws_are_those_of_the_midpoints(evaluate):
    values = of("implicit", np.ones((2, 2), np.float32))
    q, z = evaluate([values.q, values.z])
    assert z.shape == (2, 3, 4)
    np.testing.assert_allclose(q, z.mean(axis=2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values.taus, [0.125, 0.375, 0.625, 0.875])


def test_implicit_quantiles_are_drawn_for_learning_and_the_policy_stays(evaluate):
    x = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float32)
    fixed, drawn, other = of("implicit", x), of("implicit", x, conditions=Conditions(draws())), None
    other = of("implicit", x, conditions=Conditions(draws(counter=1)))
    z, taus, taus_2 = evaluate([drawn.z, drawn.taus, other.taus])
    assert z.shape == (5, 3, 6) and taus.shape == (5, 6)
    assert len(np.unique(taus)) == 30 and not np.isin(taus_2, taus).any()
    np.testing.assert_array_equal(*evaluate([fixed.q, drawn.q]))


def test_an_implicit_quantile_is_that_of_its_own_fraction(evaluate):
    """Two fractions asked for together are what each is asked for alone."""
    from targetnet.rl_core.networks import heads

    features = tf.constant(np.random.default_rng(2).normal(size=(2, 4)).astype(np.float32))
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        alone = [heads.implicit_head(ONE, 1, k)(features).z for k in (1, 3)]
    one, three = evaluate(alone)
    # The middle one of 1/6, 1/2, 5/6 is the only one of 1/2.
    # A value is a sum of terms that may cancel, and two products need not sum in the same order.
    np.testing.assert_allclose(one[..., 0], three[..., 1], rtol=1e-5, atol=1e-6)


def of_shares(shares, x, **how):
    """Values of an FQF head that proposes these shares whatever it is shown."""
    with tf.variable_scope("fqf", reuse=tf.AUTO_REUSE):
        values = fqf_head(ONE, len(shares))(tf.constant(x), **how)
        weights = variables_in(tf.get_variable_scope().name)
    w, b = weights["fractions/shares/w"], weights["fractions/shares/b"]
    return values, [w.assign(tf.zeros_like(w)), b.assign(np.log(shares))]


X = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32)


def test_an_fqf_q_weighs_quantiles_in_the_middle_of_its_shares_by_these(evaluate):
    values, set_shares = of_shares([0.5, 0.125, 0.375], X)
    evaluate(set_shares)
    q, z, taus = evaluate([values.q, values.z, values.taus])
    np.testing.assert_allclose(taus, [[0.25, 0.5625, 0.8125]] * 2, rtol=1e-6)
    by_hand = 0.5 * z[..., 0] + 0.125 * z[..., 1] + 0.375 * z[..., 2]
    np.testing.assert_allclose(q, by_hand, rtol=1e-5, atol=1e-6)
    assert z.shape == (2, 3, 3) and values.own is None


def test_an_fqf_head_knows_in_an_update_the_quantiles_at_its_edges(evaluate):
    """Of two equal shares the edge is at 1/2, the only midpoint of an implicit head of one."""
    values, set_shares = of_shares([0.5, 0.5], X, draws=draws())
    with tf.variable_scope("fqf", reuse=True):
        at_half = implicit_head(ONE, 1, 1)(tf.constant(X)).z
    evaluate(set_shares)
    shares, z_edges = values.own
    np.testing.assert_allclose(*evaluate([z_edges, at_half]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(evaluate(shares), [[0.5, 0.5]] * 2)


def test_the_fractions_of_an_fqf_head_receive_gradient_of_its_shares_alone(evaluate):
    values, _ = of_shares([0.25, 0.75], X, draws=draws())
    variables = [*variables_in("fqf/fractions").values()]
    shares, z_edges = values.own
    assert tf.gradients([values.q, values.z, values.taus, z_edges], variables) == [None, None]
    assert None not in tf.gradients(shares, variables)


def test_the_embedding_of_a_fraction_is_a_relu_of_cosines(evaluate):
    taus = np.array([[0.0, 0.25], [0.5, 1.0]], np.float32)
    got = embedding(tf.constant(taus), 3, 4)
    w, b = (evaluate(variables_in("embedding")[f"cosines/{n}"]) for n in "wb")
    waves = np.cos(np.pi * np.arange(4) * taus[..., None])  # cos(pi i tau), i = 0 ... 3
    np.testing.assert_allclose(evaluate(got), np.maximum(waves @ w + b, 0), atol=1e-6)


# Noise.


@pytest.mark.thorough
def test_noise_is_new_with_every_counter_and_purpose_and_absent_without_draws(evaluate):
    x = np.ones((2, 2), np.float32)
    given = [draws(), draws(), draws("then"), draws(counter=1)]
    how = [{}, *({"conditions": Conditions(d)} for d in given)]
    mean, once, again, elsewhere, later = evaluate([of("q_deep_and_noisy", x, **h).q for h in how])
    np.testing.assert_array_equal(once, again)
    different = [mean, once, elsewhere, later]
    assert len({q.tobytes() for q in different}) == 4


def test_both_streams_are_noisy_and_hidden_layers_too(evaluate):
    of("q_deep_and_noisy", np.ones((1, 2), np.float32))
    noisy = {name for name in variables_in("online") if name.endswith("w_sigma")}
    assert noisy == {
        "value/dense_0/w_sigma", "value/v/w_sigma",
        "advantage/dense_0/w_sigma", "advantage/a/w_sigma",
    }  # fmt: skip


# Torsos for pictures.


@pytest.mark.parametrize(
    ("torso", "shape", "units", "weights"),
    [
        # 3*3*4*16 + 16;  8*8*16 * 128 + 128
        (minatar_torso(), (10, 10, 4), 128, 592 + 131_200),
        # 8*8*4*32 + 32;  4*4*32*64 + 64;  3*3*64*64 + 64;  7*7*64 * 512 + 512
        (nature_torso(), (84, 84, 4), 512, 8_224 + 32_832 + 36_928 + 1_606_144),
        # 9*(4*16 + 4*16*16) + 16*5;  9*(16*32 + 4*32*32) + 32*5;  9*5*32*32 + 32*5;
        # 11*11*32 * 256 + 256
        (impala_torso(), (84, 84, 4), 256, 9_872 + 41_632 + 46_240 + 991_488),
    ],
    ids=["minatar", "nature", "impala"],
)
def test_a_torso_for_pictures_has_the_weights_of_its_paper(evaluate, torso, shape, units, weights):
    with tf.variable_scope("torso"):
        features = torso(tf.ones([2, *shape]))
    assert features.shape.as_list() == [2, units]
    assert sum(v.shape.num_elements() for v in variables_in("torso").values()) == weights
    assert np.isfinite(evaluate(features)).all()


@pytest.mark.parametrize("make", [nature_torso, impala_torso])
def test_convolutions_compute_in_bfloat16_and_dense_layers_in_float32(evaluate, make):
    x = tf.constant(np.random.default_rng(0).random([2, 36, 36, 4], np.float32))
    with tf.variable_scope("torso"):
        exact = make((8,), normalise=True)(x)
    before = len(tf.get_default_graph().get_operations())
    with tf.variable_scope("torso", reuse=True):
        rounded = make((8,), normalise=True, compute=tf.bfloat16)(x)
    added = tf.get_default_graph().get_operations()[before:]
    kinds = {(op.type, op.inputs[0].dtype) for op in added if op.type in ("Conv2D", "MatMul")}
    assert kinds == {("Conv2D", tf.bfloat16), ("MatMul", tf.float32)}
    variables = tf.trainable_variables()
    found = [(y, tf.gradients(y**2, variables)) for y in (exact, rounded)]
    (one, gradients), (other, of_rounded) = evaluate(found)
    assert 0 < np.linalg.norm(one - other) < 0.05 * np.linalg.norm(one)
    assert {of.dtype for of in of_rounded} == {np.dtype(np.float32)}
    apart = [np.linalg.norm(a - b) for a, b in zip(gradients, of_rounded, strict=True)]
    assert np.linalg.norm(apart) < 0.1 * np.linalg.norm([np.linalg.norm(of) for of in gradients])


@pytest.mark.parametrize("shape", [(4,), (10, 10), (20, 20, 4)])
def test_a_picture_that_is_too_small_or_none_is_refused_in_one_line(shape):
    with tf.Graph().as_default(), pytest.raises(ShapeError) as caught:
        nature_torso()(tf.ones([2, *shape]))
    assert "\n" not in str(caught.value)
    assert f"at least 36x36, got {list(shape)}" in str(caught.value)
