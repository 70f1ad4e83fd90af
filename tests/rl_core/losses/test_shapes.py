"""Sizes that must agree do, in every loss: nothing is broadcast over the batch without a word."""

import ast
import inspect

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import exploration, losses
from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses.td import require_shapes

SIZES = {"A": 3, "B": 4, "D": 2, "M": 5, "N": 6, "T": 7}
STEP = {"a_tm1": "B", "r_t": "B", "discount_t": "B"}
MASKS = {"legal_tm1": "BA", "legal_t": "BA"}
SOFT = {"alpha": 0.9, "temperature": 0.3, "clip": -1.0}
# function, its tensors with their dimensions, its other arguments
FUNCTIONS = [
    (losses.q_learning, {"q_tm1": "BA", **STEP, "q_t": "BA"}, {}),
    (
        losses.double_q_learning,
        {"q_tm1": "BA", **STEP, "q_t_value": "BA", "q_t_selector": "BA"},
        {},
    ),
    (losses.legal_only, {"q": "BA", "legal": "BA"}, {}),
    (losses.categorical_projection, {"z_p": "BM", "p": "BM", "z_q": "N"}, {}),
    (
        losses.categorical_q_learning,
        {"logits_tm1": "BAN", **STEP, "p_t": "BAN", "q_t_selector": "BA", "atoms_z": "N"},
        {},
    ),
    (losses.gaussian_histogram, {"target": "B", "atoms_z": "N"}, {"sigma": 0.75}),
    (
        losses.hl_gauss,
        {"logits_tm1": "BAN", "a_tm1": "B", "target": "B", "atoms_z": "N"},
        {"sigma": 0.75},
    ),
    (
        losses.quantile_huber,
        {"z": "BN", "taus": "BN", "target": "BM", "masses": "BM"},
        {"kappa": 1.0},
    ),
    (
        losses.quantile_q_learning,
        {"z_tm1": "BAN", "taus_tm1": "N", **STEP, "z_t": "BAM", "q_t_selector": "BA"},
        {},
    ),
    (
        losses.fraction_loss,
        {"shares": "BN", "z_edges": "BAM", "z": "BAN", "a_tm1": "B"},
        {"entropy_weight": 0.1},
    ),
    (losses.log_policy, {"q": "BA", "legal": "BA"}, {"temperature": 1.0}),
    (losses.munchausen_bonus, {"q_tm1_target": "BA", "a_tm1": "B", "legal": "BA"}, SOFT),
    (losses.soft_bootstrap, {"q_t": "BA", "z_t": "BAM", "legal": "BA"}, {"temperature": 1.0}),
    (
        losses.munchausen_q_learning,
        {"q_tm1": "BA", **STEP, "q_t": "BA", "q_tm1_target": "BA", **MASKS},
        SOFT,
    ),
    (
        losses.munchausen_quantile,
        {"z_tm1": "BAN", "taus_tm1": "BN", **STEP, "z_t": "BAM", "q_t": "BA",
         "q_tm1_target": "BA", **MASKS},
        {**SOFT, "kappa": 1.0},
    ),
    (
        losses.blend,
        {"of_target": "BAN", "of_online": "BAN", "online_is_lower": "BA"},
        {"online_weight": 0.5, "min_weight": 0.5},
    ),
    (
        losses.functional_penalty,
        {"q_tm1": "BA", "a_tm1": "B", "q_tm1_target": "BA"},
        {"weight": 1.0},
    ),
    (losses.conservative_penalty, {"q_tm1": "BA", "a_tm1": "B"}, {"weight": 1.0}),
    (
        losses.large_margin,
        {"q_tm1": "BA", "a_tm1": "B", "demonstration": "B"},
        {"margin": 0.8, "weight": 1.0},
    ),
    (
        losses.branching_target,
        {"r_t": "B", "discount_t": "B", "q_t_value": "BDA", "q_t_selector": "BDA"},
        {},
    ),
    (
        losses.lambda_returns,
        {"r_t": "TB", "discount_t": "TB", "v_t": "TB", "lambda_t": "TB"},
        {},
    ),
    (
        exploration.epsilon_greedy,
        {"best": "B", "coin": "B", "die": "B", "legal": "BA"},
        {"epsilon": 0.1, "num_actions": 3},
    ),
    (
        exploration.branching_epsilon_greedy,
        {"best": "BD", "coin": "B", "dice": "BD", "legal": "BM"},
        {"epsilon": 0.1, "branches": (2, 3)},
    ),
    (exploration.boltzmann, {"q": "BA", "uniform": "BA", "legal": "BA"}, {"temperature": 1.0}),
]  # fmt: skip
every_function = pytest.mark.parametrize(
    ("function", "dimensions", "others"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", "")
)


def dtype_of(name):
    if name.startswith("legal") or name in ("online_is_lower", "demonstration"):
        return tf.bool
    return tf.int32 if name in ("a_tm1", "best") else tf.float32


def tensors(dimensions, known="ABDMNT"):
    """Placeholders: of the sizes of those letters, of any size in the other dimensions."""
    return {
        name: tf.placeholder(dtype_of(name), [SIZES[c] if c in known else None for c in letters])
        for name, letters in dimensions.items()
    }


def users():
    """Names of all functions that check their arguments."""
    modules = {inspect.getmodule(function) for function, *_ in FUNCTIONS}
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.FunctionDef) and "require_shapes(" in ast.unparse(node.body):
                yield node.name


def test_every_function_that_checks_its_arguments_is_in_the_table():
    in_table = {function.__name__ for function, *_ in FUNCTIONS}
    assert set(users()) == in_table
    takes_tensors = set(losses.__all__) - {"TdLoss", "support", "quantile_midpoints"}
    assert in_table >= takes_tensors - {"huber", "squared", "rescaled", "unscaled"}  # of any shape


@every_function
def test_one_argument_of_another_size_is_refused_and_named(evaluate, function, dimensions, others):
    for name, letters in dimensions.items():
        for axis, letter in enumerate(letters):
            good = tensors(dimensions)
            if sum(letter in other for other in dimensions.values()) == 1:
                continue  # nothing to agree with
            shape = good[name].shape.as_list()
            shape[axis] = 1  # what TensorFlow would broadcast
            bad = tf.placeholder(dtype_of(name), shape)
            with pytest.raises(ShapeError) as error:
                function(**good | {name: bad}, **others)
            message = str(error.value)
            assert message.startswith(f"{function.__name__}: "), message
            assert f"1 in {name} {bad.shape}" in message, message
            assert f"{SIZES[letter]} in " in message and ";" not in message, message


@every_function
def test_sizes_that_are_not_known_yet_pass(evaluate, function, dimensions, others):
    # Gradients need the number of actions.
    for known in ("AMN", ""):
        built = function(**tensors(dimensions, known=known), **others)
        assert all(isinstance(tensor, tf.Tensor) for tensor in tf.nest.flatten(built))


def test_a_reward_of_one_is_not_spread_over_the_batch(evaluate):
    with pytest.raises(ShapeError) as error:
        losses.q_learning(tf.zeros([32, 4]), tf.zeros([32], tf.int32), [1.0], tf.zeros([32]),
                          tf.zeros([32, 4]))  # fmt: skip
    assert str(error.value) == (
        "q_learning: B must be the same in all, got 32 in q_tm1 (32, 4), a_tm1 (32,), "
        "discount_t (32,), q_t (32, 4) and 1 in r_t (1,)"
    )


def test_a_wrong_rank_is_told_before_sizes_are_compared(evaluate):
    with pytest.raises(ShapeError) as error:
        require_shapes("here", one=(tf.zeros([2, 3]), "B"), two=(tf.zeros([4]), "B"),
                       three=(tf.zeros([5]), "B"))  # fmt: skip
    assert str(error.value) == "here: one must have rank 1, got shape (2, 3)"


def test_what_is_left_out_or_of_unknown_rank_passes(evaluate):
    unknown = tf.placeholder(tf.float32)
    got = require_shapes("here", one=(np.ones([2]), "B"), two=(None, "BA"), three=(unknown, "BA"))
    assert got[1] is None and got[2] is unknown and got[0].shape.as_list() == [2]


def test_of_several_ranks_that_will_do_the_one_that_came_is_compared(evaluate):
    z = tf.zeros([2, 3])
    for taus in (tf.zeros([3]), tf.zeros([2, 3])):
        require_shapes("here", z=(z, "BN"), taus=(taus, ("N", "BN")))
    for taus, letter in ((tf.zeros([1]), "N"), (tf.zeros([1, 3]), "B")):
        with pytest.raises(ShapeError, match=f"here: {letter} must be the same in all"):
            require_shapes("here", z=(z, "BN"), taus=(taus, ("N", "BN")))
