"""Stored rows turned back into what an env gave: the inverse of writing them."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from targetnet.envs.spaces import read_spaces
from targetnet.envs.stacks import frame_shape
from targetnet.envs.stored_observations import given_back, wanted_space
from targetnet.rl_core.errors import EnvError
from tests.envs.test_nests import SPACES

ONE = {
    "numbers": Box(-1, 1, (2, 3), np.float32),
    "a single number": Box(-1, 1, (), np.float32),
    "a place": Discrete(5, start=-2),
    "several places": MultiDiscrete([[3, 2], [4, 5]], start=[[1, 0], [-3, 7]]),
    "bits": MultiBinary((2, 3)),
    "channels last": Box(0, 255, (8, 9, 3), np.uint8),
    "channels first": Box(0, 255, (3, 8, 9), np.uint8),
    "bools": Box(0, 1, (4,), np.bool_),
    "a dict": Dict(SPACES),
    "a tuple": Tuple((Discrete(3), Dict(SPACES))),
    "a dict of one": Dict({"outer": Dict({"inner": Discrete(3)})}),
}


def same(found, wanted):
    """Compares nests of arrays, one observation after the other: values and dtypes."""
    if isinstance(wanted[0], dict):
        assert found.keys() == wanted[0].keys()
        for key in found:
            same(found[key], [one[key] for one in wanted])
    elif isinstance(wanted[0], tuple):
        assert len(found) == len(wanted[0])
        for i, part in enumerate(found):
            same(part, [one[i] for one in wanted])
    else:
        np.testing.assert_array_equal(found, np.stack(wanted), strict=True)


@pytest.mark.parametrize("name", ONE)
def test_what_is_written_comes_back_as_the_env_gave_it(name):
    space = ONE[name]
    space.seed(3)
    spaces = read_spaces("test/Env-v0", space, Discrete(2))
    shown = [rounded(space.sample()) for _ in range(7)]
    rows = np.zeros((7, *spaces.observation_shape), spaces.observation_dtype)
    for row, observation in enumerate(shown):
        spaces.writer(rows[row, ...])(observation)
    same(given_back("test/Env-v0", space, rows), shown)


def rounded(observation):
    """The same, with float64 numbers that float32 has."""
    if isinstance(observation, dict):
        return {key: rounded(of) for key, of in observation.items()}
    if isinstance(observation, tuple):
        return tuple(map(rounded, observation))
    array = np.asarray(observation)
    return array.astype(np.float32).astype(np.float64) if array.dtype == np.float64 else observation


def test_a_frame_is_stored_with_an_axis_more_and_comes_back_without():
    space = Box(0, 255, (5, 6), np.uint8)
    pictures = np.random.default_rng(0).integers(0, 255, (4, 5, 6), np.uint8)
    rows = pictures.reshape(4, *frame_shape((5, 6)))
    assert rows.shape == (4, 5, 6, 1)
    np.testing.assert_array_equal(given_back("test/Env-v0", space, rows), pictures, strict=True)


def wanted(space, *keys, masks="auto"):
    return wanted_space("test/Env-v0", read_spaces("test/Env-v0", space, Discrete(2), keys, masks))


def test_only_wanted_parts_are_in_the_space():
    space = Dict(SPACES)
    assert wanted(space) is space
    assert wanted(space, "lamps", "arm") == Dict({"arm": SPACES["arm"], "lamps": SPACES["lamps"]})
    with pytest.raises(EnvError, match="did you mean 'lamps'"):
        wanted(space, "lamp")


def test_a_part_that_is_a_mask_is_not_in_the_space_also_within_a_dict():
    mask, board = MultiBinary(2), Box(-1, 1, (3,))
    assert wanted(Dict({"action_mask": mask, "board": board})) == Dict({"board": board})
    space = Dict({"seen": Dict({"board": board, "may": mask}), "x": Discrete(2)})
    found = wanted(space, masks="seen.may")
    assert found == Dict({"seen": Dict({"board": board}), "x": Discrete(2)})


def test_wanted_parts_stay_in_the_order_in_which_rows_have_them():
    """Gymnasium sorts a plain dict's; an env may give pairs in an order of its own."""
    space = Dict([("velocity", Box(-1, 1, (2,))), ("angle", Box(-1, 1, (3,))), ("x", Discrete(2))])
    space.seed(3)
    keys, shown = ("angle", "velocity"), [space.sample() for _ in range(4)]
    spaces = read_spaces("test/Env-v0", space, Discrete(2), keys)
    rows = np.zeros((4, *spaces.observation_shape), spaces.observation_dtype)
    for row, observation in zip(rows, shown, strict=True):
        spaces.writer(row)(observation)
    found = given_back("test/Env-v0", wanted_space("test/Env-v0", spaces), rows)
    for key in keys:
        np.testing.assert_array_equal(found[key], [of[key] for of in shown])


def test_a_tuple_keeps_all_its_parts_or_is_refused():
    pair = Tuple((Discrete(2), Discrete(3)))
    assert wanted(pair, "0", "1") is pair
    with pytest.raises(EnvError, match="parts of a tuple cannot be left out"):
        wanted(pair, "1")
