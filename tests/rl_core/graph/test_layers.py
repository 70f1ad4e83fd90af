"""Layers: numbers by hand or by a slow twin, names, and where the first weights come from."""

import itertools
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import (
    Draws,
    ScopeMismatch,
    ShapeError,
    conv2d,
    dense,
    layer_norm,
    noisy_dense,
    variables_in,
)
from targetnet.rl_core.graph.xla import built_for_xla, sum_of_squares


def put(evaluate, scope, **values):
    """Sets the variables of a scope."""
    found = variables_in(scope)
    assert found.keys() == values.keys()
    for name, value in values.items():
        evaluate(found[name].assign(np.asarray(value, np.float32)))


def first_weights(build, seed, ops_before=0):
    """The initial values of what `build` builds, by name, in a fresh graph."""
    with tf.Graph().as_default(), tf.Session() as session:
        if seed is not None:
            tf.set_random_seed(seed)
        for i in range(ops_before):
            tf.constant(i)
        build()
        session.run(tf.global_variables_initializer())
        return {v.op.name: session.run(v) for v in tf.trainable_variables()}


def test_dense_is_inputs_times_w_plus_b(evaluate):
    y = dense(tf.constant([[1.0, 2.0], [0.0, -1.0]]), 3, "out")
    put(evaluate, "out", w=[[1, 0, 2], [3, 1, 0]], b=[10, 20, 30])
    # [1, 2] @ w = [1 + 6, 2, 2];  [0, -1] @ w = [-3, -1, 0]
    np.testing.assert_array_equal(evaluate(y), [[17, 22, 32], [7, 19, 30]])
    assert y.shape.as_list() == [2, 3]


def test_dense_takes_an_initializer_for_w(evaluate):
    y = dense(tf.ones([1, 4]), 2, "out", initializer=tf.zeros_initializer())
    weights = evaluate(variables_in("out"))
    assert not weights["w"].any() and weights["b"].all()
    np.testing.assert_array_equal(evaluate(y), weights["b"][None])


def slow_conv2d(inputs, w, b, stride):
    """VALID convolution, one output at a time."""
    size, _, _, filters = w.shape
    B, H, W, _ = inputs.shape
    rows, columns = (H - size) // stride + 1, (W - size) // stride + 1
    out = np.zeros((B, rows, columns, filters))
    for n, i, j, f in itertools.product(*map(range, out.shape)):
        top, left = i * stride, j * stride
        patch = inputs[n, top : top + size, left : left + size]
        out[n, i, j, f] = (patch * w[..., f]).sum() + b[f]
    return out


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (2, 1), (3, 2), (3, 3)])
def test_conv2d_agrees_with_a_slow_twin(evaluate, kernel, stride):
    inputs = np.random.default_rng(0).normal(size=(2, 7, 6, 3)).astype(np.float32)
    y = conv2d(tf.constant(inputs), 4, kernel, stride, "conv")
    w, b = evaluate([variables_in("conv")[name] for name in "wb"])
    assert w.shape == (kernel, kernel, 3, 4) and b.shape == (4,)
    np.testing.assert_allclose(evaluate(y), slow_conv2d(inputs, w, b, stride), atol=1e-5)


def assert_same_with_gradients(evaluate, got, wanted, inputs):
    """By the inputs, and by the variables of scope "net"."""
    assert got.shape.as_list() == wanted.shape.as_list()
    np.testing.assert_allclose(evaluate(got), evaluate(wanted), atol=1e-5)
    by = [inputs, *variables_in("net").values()]
    pair = (tf.gradients(tf.sin(y), by) for y in (got, wanted))
    for one, two in zip(*map(evaluate, pair), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)


@pytest.mark.cases(9)
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 1)])
def test_what_is_built_for_xla_is_the_same_convolution(evaluate, kernel, stride, padding):
    """Values and gradients, also where the padding is uneven."""
    inputs = tf.constant(np.random.default_rng(0).normal(size=(2, 7, 6, 3)).astype(np.float32))
    with tf.variable_scope("net"):
        plain = conv2d(inputs, 4, kernel, stride, "conv", padding=padding)
    with tf.variable_scope("net", reuse=True), built_for_xla():
        other = conv2d(inputs, 4, kernel, stride, "conv", padding=padding)
    assert "Conv2D" not in {op.type for op in operations_behind(other)}
    assert_same_with_gradients(evaluate, other, plain, inputs)


def test_what_is_built_for_xla_is_the_same_convolution_in_bfloat16(evaluate):
    x = np.random.default_rng(0).normal(size=(2, 7, 6, 3))
    inputs = tf.cast(tf.constant(x, tf.float32), tf.bfloat16)
    found = []
    for compiled in (False, True):
        with tf.variable_scope("net", reuse=compiled), built_for_xla(compiled):
            y = tf.cast(conv2d(inputs, 4, 3, 2, "conv"), tf.float32)
        gradients = tf.gradients(tf.sin(y), [*variables_in("net").values()])
        found.append(evaluate([y, *gradients]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=0.02 * np.abs(one).max())


@pytest.mark.cases(18)
@pytest.mark.parametrize("n", [1, 3, 8, 9])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_what_is_built_for_xla_is_the_same_dense_layer(evaluate, n, m):
    """Values and gradients, whichever of the sizes is small."""
    inputs = tf.constant(np.random.default_rng(0).normal(size=(6, n)).astype(np.float32))
    with tf.variable_scope("net"):
        plain = dense(inputs, m, "out")
    with tf.variable_scope("net", reuse=True), built_for_xla():
        other = dense(inputs, m, "out")
    assert_same_with_gradients(evaluate, other, plain, inputs)


@pytest.mark.parametrize("sizes", [[1], [15, 1], [16], [5, 7, 9], [1000]])
def test_what_is_built_for_xla_is_the_same_sum_of_squares(evaluate, sizes):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 10, [size]).astype(np.float32) for size in sizes]
    with built_for_xla():
        got = sum_of_squares([tf.constant(array) for array in arrays])
    assert evaluate(got) == sum((array**2).sum() for array in arrays)  # whole numbers: exact


def operations_behind(tensor):
    """Every operation that `tensor` is computed by."""
    seen, left = set(), [tensor.op]
    while left:
        op = left.pop()
        if op not in seen:
            seen.add(op)
            left += [t.op for t in op.inputs]
    return seen


def test_conv2d_by_hand_and_with_padding(evaluate):
    image = tf.reshape(tf.range(1.0, 10.0), [1, 3, 3, 1])  # 1 2 3 / 4 5 6 / 7 8 9
    with tf.variable_scope("net"):
        valid = conv2d(image, 1, 2, 1, "conv")
    with tf.variable_scope("net", reuse=True):
        same = conv2d(image, 1, 2, 1, "conv", padding="SAME")
    put(evaluate, "net/conv", w=[[[[1]], [[0]]], [[[0]], [[-1]]]], b=[10])
    # each pixel minus the one below and to the right of it, plus 10
    np.testing.assert_array_equal(evaluate(valid)[0, :, :, 0], [[6, 6], [6, 6]])  # 1 - 5 + 10
    np.testing.assert_array_equal(
        evaluate(same)[0, :, :, 0], [[6, 6, 13], [6, 6, 16], [17, 18, 19]]
    )


def test_a_convolution_of_bfloat16_has_weights_of_float32(evaluate):
    # bfloat16 has eight bits: 257 is 256 in it, and 1.01 is 1 + 1/128.
    image = tf.cast(tf.constant([257.0, 4.0], shape=[1, 1, 2, 1]), tf.bfloat16)
    with tf.variable_scope("net"):
        y = tf.cast(conv2d(image, 1, 1, 1, "conv"), tf.float32)
    put(evaluate, "net/conv", w=[[[[1.01]]]], b=[0])
    np.testing.assert_array_equal(evaluate(y)[0, 0, :, 0], [256 + 2, 4 + 4 / 128])
    (by_w,) = tf.gradients(y, [variables_in("net/conv")["w"]])
    assert by_w.dtype == tf.float32 and evaluate(by_w).item() == 256 + 4


def test_layer_norm_in_bfloat16_is_that_of_float32_rounded(evaluate):
    x = tf.cast(tf.constant([[1.0, 2.0, 4.0]]), tf.bfloat16)
    y = layer_norm(x, "norm")
    mean, deviation = 7 / 3, np.sqrt(14 / 9 + 1e-5)
    wanted = tf.cast((np.float32([[1, 2, 4]]) - mean) / deviation, tf.bfloat16)
    assert y.dtype == tf.bfloat16
    np.testing.assert_array_equal(*evaluate([tf.cast(of, tf.float32) for of in (y, wanted)]))


def test_layer_norm_by_hand(evaluate):
    # Row 1: mean 2, variance 1. Row 2: mean 0, variance 100, so epsilon is lost in it.
    y = layer_norm(tf.constant([[1.0, 3.0], [-10.0, 10.0]]), "norm")
    one = 1 / math.sqrt(1 + 1e-5)
    np.testing.assert_allclose(evaluate(y), [[-one, one], [-1, 1]], rtol=1e-6)
    put(evaluate, "norm", scale=[2, 3], offset=[10, 20])
    np.testing.assert_allclose(evaluate(y), [[8, 23], [8, 23]], rtol=1e-5)


def test_layer_norm_is_over_the_last_dimension_alone_and_constant_rows_are_zero(evaluate):
    y = layer_norm(tf.constant([[[1.0, 3.0], [5.0, 5.0]], [[100.0, 300.0], [0.0, 0.0]]]), "norm")
    np.testing.assert_allclose(evaluate(y), [[[-1, 1], [0, 0]], [[-1, 1], [0, 0]]], atol=1e-5)


def test_layer_norm_takes_an_epsilon(evaluate):
    y = layer_norm(tf.constant([[1.0, 3.0]]), "norm", epsilon=3.0)  # 1 / sqrt(1 + 3)
    np.testing.assert_allclose(evaluate(y), [[-0.5, 0.5]], rtol=1e-6)


def test_variables_are_named_after_the_layer_and_are_trainable():
    with tf.Graph().as_default():
        with tf.variable_scope("online"):
            image = tf.ones([1, 4, 4, 2])
            conv2d(image, 3, 2, 1, "conv")
            dense(layer_norm(tf.ones([1, 5]), "norm"), 3, "out")
        shapes = {name: tuple(v.shape) for name, v in variables_in("online").items()}
    assert shapes == {
        "conv/w": (2, 2, 2, 3),
        "conv/b": (3,),
        "norm/scale": (5,),
        "norm/offset": (5,),
        "out/w": (5, 3),
        "out/b": (3,),
    }


def test_a_layer_is_shared_under_reuse_and_refused_twice_without(evaluate):
    x = tf.constant([[1.0, 2.0]])
    first = dense(x, 3, "out")
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        again = dense(x, 3, "out")
    np.testing.assert_array_equal(evaluate(first), evaluate(again))
    with pytest.raises(ScopeMismatch) as error:
        dense(x, 3, "out")
    assert str(error.value) == (
        "variable out/w already exists: give the second layer another name, or open its scope "
        "with reuse=True to share the weights"
    )


def test_a_mistake_of_a_scopes_getter_is_not_taken_for_a_second_layer(evaluate):
    def getter(getter, name, *args, **kwargs):
        raise ValueError("mine")

    with (
        tf.variable_scope("net", custom_getter=getter),
        pytest.raises(ValueError, match=r"^mine$"),
    ):
        dense(tf.ones([1, 2]), 3, "out")


# layer, shape of its inputs, words of the message
BAD_INPUTS = [
    (lambda x: dense(x, 2, "out"), [None], ["dense 'out'", "rank 2", "(None,)"]),
    (lambda x: dense(x, 2, "out"), [None, 3, 4], ["dense 'out'", "rank 2", "(None, 3, 4)"]),
    (lambda x: dense(x, 2, "out"), [3, None], ["dense 'out'", "known last size", "(3, None)"]),
    (lambda x: dense(x, 2, "out"), None, ["dense 'out'", "rank 2", "unknown"]),
    (lambda x: conv2d(x, 2, 3, 1, "c"), [None, 8, 8], ["conv2d 'c'", "rank 4", "(None, 8, 8)"]),
    (lambda x: conv2d(x, 2, 3, 1, "c"), [1, 8, 8, None], ["conv2d 'c'", "(1, 8, 8, None)"]),
    (lambda x: layer_norm(x, "n"), [3, None], ["layer_norm 'n'", "known last size"]),
    (lambda x: layer_norm(x, "n"), [], ["layer_norm 'n'", "()"]),
    (lambda x: layer_norm(x, "n"), None, ["layer_norm 'n'", "unknown"]),
]


@pytest.mark.parametrize(("layer", "shape", "words"), BAD_INPUTS)
def test_inputs_of_a_wrong_shape_are_named_with_the_layer(layer, shape, words):
    with tf.Graph().as_default():
        with pytest.raises(ShapeError) as error:
            layer(tf.placeholder(tf.float32, shape))
        assert all(word in str(error.value) for word in words)
        assert tf.global_variables() == []


def two_layers():
    with tf.variable_scope("online"):
        dense(tf.ones([1, 16]), 64, "a")
        dense(tf.ones([1, 16]), 64, "b")
        conv2d(tf.ones([1, 4, 4, 4]), 16, 2, 1, "conv")


def assert_same(got, wanted):
    assert got.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(got[name], wanted[name], err_msg=name)


def test_first_weights_do_not_depend_on_what_was_built_before():
    """TensorFlow's own op seeds count operations; these must not."""
    assert_same(first_weights(two_layers, 7, ops_before=13), first_weights(two_layers, 7))

    def other_order():
        with tf.variable_scope("online"):
            conv2d(tf.ones([1, 4, 4, 4]), 16, 2, 1, "conv")
            dense(tf.ones([1, 16]), 64, "b")
            dense(tf.ones([1, 16]), 64, "a")

    assert_same(first_weights(other_order, 7), first_weights(two_layers, 7))


def test_first_weights_differ_by_seed():
    one, other = first_weights(two_layers, 7), first_weights(two_layers, 8)
    assert all(np.all(one[name] != other[name]) for name in one)


def test_first_weights_differ_by_name_and_by_outer_scope():
    def outer():
        for agent in ("agent_a", "agent_b"):
            with tf.variable_scope(agent):
                two_layers()

    weights = first_weights(outer, 7)
    same_shape = [value for name, value in weights.items() if name.endswith(("a/w", "b/w"))]
    assert len(same_shape) == 4
    for one, other in itertools.combinations(same_shape, 2):
        assert np.mean(one == other) < 0.01


def test_first_weights_are_uniform_within_one_over_the_root_of_the_fan_in():
    for name, value in first_weights(two_layers, 7).items():
        bound = 0.25  # 1 / sqrt(16), for all three: 16 inputs, or a 2 x 2 kernel of 4 channels
        assert np.abs(value).max() <= bound, name
        if value.size >= 256:
            assert np.abs(value).max() > 0.95 * bound, name
            assert abs(value.mean()) < 0.1 * bound, name
            assert np.abs(value).std() == pytest.approx(bound / math.sqrt(12), rel=0.2), name


def test_without_a_seed_first_weights_are_within_the_bound_and_not_the_same_twice():
    one, other = first_weights(two_layers, None), first_weights(two_layers, None)
    assert max(np.abs(value).max() for value in one.values()) <= 0.25
    assert np.any(one["online/a/w"] != other["online/a/w"])


@pytest.mark.parametrize("seed", [0, -1, 2**31, 2**40])
def test_any_whole_number_is_a_seed(seed):
    assert_same(first_weights(two_layers, seed), first_weights(two_layers, seed))


class Fixed:
    """Draws that are known beforehand."""

    def __init__(self, **numbers):
        self.numbers = numbers

    def normal(self, name, shape):
        values = self.numbers[name.split("/")[-1]]
        assert shape == [len(values)]
        return tf.constant(values, tf.float32)


def test_noisy_dense_by_hand(evaluate):
    """e = (4, -9 | 1, -16): f(e) = (2, -3 | 1, -4), so eps_w = [[2, -8], [-3, 12]]."""
    noise = Fixed(into=[4, -9], out=[1, -16])
    y = noisy_dense(tf.constant([[1.0, 10.0]]), 2, "out", noise)
    put(
        evaluate, "out", w=[[1, 2], [3, 4]], b=[5, 6],
        w_sigma=[[0.5, 0.25], [1, 0.5]], b_sigma=[0.5, 1],
    )  # fmt: skip
    # w + w_sigma * eps_w = [[1 + 1, 2 - 2], [3 - 3, 4 + 6]];  b + b_sigma * f = [5.5, 6 - 4]
    np.testing.assert_allclose(evaluate(y), [[2 + 0 + 5.5, 0 + 100 + 2]])


def test_noisy_dense_without_draws_is_dense(evaluate):
    x = tf.constant([[1.0, 10.0]])
    noisy = noisy_dense(x, 3, "out", None)
    with tf.variable_scope("", reuse=True):
        plain = dense(x, 3, "out")
    np.testing.assert_array_equal(*evaluate([noisy, plain]))


def test_noise_begins_at_a_half_over_the_root_of_the_inputs(evaluate):
    noisy_dense(tf.ones([1, 4]), 3, "out", None)
    weights = evaluate(variables_in("out"))
    assert (weights["w_sigma"] == 0.25).all() and (weights["b_sigma"] == 0.25).all()


@pytest.mark.thorough
def test_the_noise_has_mean_zero_and_is_as_large_as_sigma_says(evaluate):
    """One weight: w_sigma * f(e1) f(e2), of standard deviation w_sigma * E|e| = 0.5 * 0.798."""
    counter = tf.placeholder(tf.int64, [])
    y = noisy_dense(tf.ones([1, 1]), 1, "out", Draws(0, "now", counter))
    put(evaluate, "out", w=[[0]], b=[0], w_sigma=[[0.5]], b_sigma=[0])
    values = np.array([evaluate(y, {counter: i}).item() for i in range(4_000)])
    assert abs(values.mean()) < 0.02 and abs(values.std() - 0.5 * np.sqrt(2 / np.pi)) < 0.02
