"""Any env in the graph as an ordinary Gymnasium env, whose episodes repeat exactly."""

from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from gymnasium.utils.env_checker import check_env

from targetnet.envs.in_graph import gymnasium_env as module
from targetnet.envs.in_graph.gymnasium_env import InGraphGymEnv
from targetnet.envs.in_graph.interface import EnvStep, InGraphEnv
from targetnet.envs.in_graph.table import SPECS
from targetnet.envs.minatar import PALETTE
from targetnet.rl_core.errors import EnvError

GAME = module._Game


class DiceState(NamedTuple):
    dice: tf.Tensor  # [N, 2] float32


class Dice(InGraphEnv):
    """Shows the draws of its last step, and pays the action."""

    observation_shape = (2,)
    observation_dtype = np.float32
    num_actions = 3
    max_episode_steps = None
    begin_draws = 2
    step_draws = 2

    def begin(self, uniform):
        return DiceState(uniform)

    def step(self, state, action, uniform):
        return EnvStep(DiceState(uniform), tf.cast(action, tf.float32), tf.equal(action, 2))

    def observe(self, state):
        return state.dice


class Planes(Dice):
    """A board of two planes: the first covers the left half, the second all of the top row."""

    observation_shape = (2, 2, 2)
    observation_dtype = np.bool_

    def observe(self, state):
        return tf.constant([[[[True, True], [False, True]], [[True, False], [False, False]]]])


@pytest.fixture
def make():
    """An id or rules -> the env; closed afterwards."""
    made = []

    def make(rules, **kwargs):
        made.append(InGraphGymEnv(rules, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close()


def rows(env, seed, actions):
    observation, _ = env.reset(seed=seed)
    taken = [(observation, 0.0, False)]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        assert not truncated
        taken.append((observation, reward, terminated))
    return taken


def assert_same(left, right):
    for (a, *rest_a), (b, *rest_b) in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)
        assert rest_a == rest_b


@pytest.mark.parametrize("rules", ["InGraph/CartPole-v1", "InGraph/Catch-v0", Dice()])
def test_an_episode_is_its_seed_and_its_actions_whatever_came_before(make, rules):
    env = make(rules)
    first = rows(env, 7, [1, 0, 1, 1])
    second = rows(env, 8, [0, 0, 1])
    rows(env, 9, [1, 1])
    # After another history, in an env of its own, and at once again.
    assert_same(rows(env, 8, [0, 0, 1]), second)
    assert_same(rows(make(rules), 8, [0, 0, 1]), second)
    assert_same(rows(env, 7, [1, 0, 1, 1]), first)


def test_every_step_of_every_episode_has_draws_of_its_own(make):
    env = make(Dice())
    seen = np.array([row for seed in (0, 1, 2**40) for row, *_ in rows(env, seed, [0] * 20)])
    assert seen.shape == (63, 2) and len(np.unique(seen)) == 126
    assert 0 <= seen.min() < 0.1 and 0.9 < seen.max() < 1


def test_a_step_gives_pythons_own_numbers(make):
    env = make(Dice())
    env.reset(seed=1)
    _, reward, terminated, truncated, info = env.step(np.int64(2))
    assert (reward, terminated, truncated, info) == (2.0, True, False, {})
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]


def test_resets_without_a_seed_follow_from_the_last_seed(make):
    env = make(Dice())

    def three():
        first, _ = env.reset(seed=5)
        return [first, env.reset()[0], env.reset()[0]]

    ours, again = three(), three()
    np.testing.assert_array_equal(ours, again)
    assert len(np.unique(ours)) == 6


def test_an_earlier_observation_is_not_overwritten(make):
    env = make(Dice())
    first, _ = env.reset(seed=3)
    kept = first.copy()
    env.step(0)
    np.testing.assert_array_equal(first, kept)


def test_cartpole_is_played_as_gymnasiums(make):
    ours, twin = make("InGraph/CartPole-v1"), gym.make("CartPole-v1").unwrapped
    for seed in range(5):
        ours.reset(seed=seed)
        twin.reset()
        twin.state = np.concatenate(ours._state)
        ended = False
        while not ended:
            observation, *rest, _ = twin.step(1 - seed % 2)
            got, *got_rest, _ = ours.step(1 - seed % 2)
            np.testing.assert_allclose(got, observation, rtol=1e-6, atol=1e-9)
            assert got_rest == rest
            ended = rest[1]


def test_the_spec_truncates_after_the_time_limit():
    env = gym.make(SPECS["InGraph/MountainCar-v0"])
    env.reset(seed=1)
    ends = [env.step(1)[2:4] for _ in range(200)]
    env.close()
    assert ends == [(False, False)] * 199 + [(False, True)]


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Catch-v0"])
def test_gymnasiums_checker_has_no_complaint(make, name, recwarn):
    check_env(make(f"InGraph/{name}"), skip_render_check=True)
    # Rules do not say how large an observation may be.
    assert [w for w in recwarn if "value is -infinity" not in str(w.message)
            and "value is infinity" not in str(w.message)] == []  # fmt: skip


def test_a_board_is_drawn_cell_by_cell(make):
    env = make("InGraph/Catch-v0", render_mode="rgb_array")
    observation, _ = env.reset(seed=1)
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((160, 80, 3), np.uint8)
    for y, x in np.ndindex(10, 5):
        colour = PALETTE[int(observation[y, x])]
        assert (picture[16 * y : 16 * y + 16, 16 * x : 16 * x + 16] == colour).all()


def test_of_several_planes_the_last_is_seen(make):
    env = make(Planes(), render_mode="rgb_array")
    env.reset(seed=1)
    # Top left both planes, top right the second, bottom left the first, bottom right none.
    np.testing.assert_array_equal(env.render()[::16, ::16], PALETTE[[[2, 2], [1, 0]]])


def test_without_a_render_mode_there_is_no_picture(make):
    env = make("InGraph/Catch-v0")
    env.reset(seed=1)
    assert env.render() is None


@pytest.mark.parametrize(
    ("rules", "mode", "problem"),
    [
        ("InGraph/CartPole-v1", "rgb_array", "of CartPole must be None, got 'rgb_array'"),
        ("InGraph/Catch-v0", "human", "of Catch must be None or 'rgb_array', got 'human'"),
    ],
)
def test_a_picture_that_the_rules_do_not_have_is_refused(make, rules, mode, problem):
    with pytest.raises(ValueError, match=problem):
        make(rules, render_mode=mode)


def test_arguments_of_the_rules_are_checked(make):
    with pytest.raises(EnvError, match="takes no argument 'rows'"):
        make("InGraph/Catch-v0", rows=8)


def test_copies_share_one_built_game_and_other_arguments_are_another(make, monkeypatch):
    built = []
    monkeypatch.setattr(module, "_GAMES", {})
    monkeypatch.setattr(module, "_Game", lambda rules: built.append(rules) or GAME(rules))
    monkeypatch.setattr(module, "make_rules", lambda env_id, given: Dice())
    first, second = (make("InGraph/Dice-v0") for _ in range(2))
    assert len(built) == 1
    sticky = make("InGraph/Dice-v0", size=0.5)
    assert len(built) == 2 and built[0] is not built[1]
    # Each copy has a state of its own.
    actions = [1, 0, 0, 1, 1]
    alone = rows(first, 3, actions)
    second.reset(seed=4), sticky.reset(seed=4)
    for _ in actions:
        second.step(0), sticky.step(0)
    again = rows(second, 3, actions)
    for row, other in zip(alone, again, strict=True):
        np.testing.assert_array_equal(row[0], other[0])
        assert row[1:] == other[1:]


def test_the_latest_games_are_kept_and_no_more(make, monkeypatch):
    monkeypatch.setattr(module, "_GAMES", {})
    monkeypatch.setattr(module, "make_rules", lambda env_id, given: Dice())
    for number in range(12):
        make("InGraph/Dice-v0", size=number / 20)
    assert len(module._GAMES) == module._MOST_GAMES
    assert "0.55" in [*module._GAMES][-1] and "0.2" in next(iter(module._GAMES))
