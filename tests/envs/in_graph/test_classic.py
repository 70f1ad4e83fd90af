"""Classic control in the graph: the rules are Gymnasium's, step by step.

The twins play at random, 10,000 steps here and 100,000 in the slow run. Every other copy begins
its episodes anywhere in the state space, so that walls, speed limits, wraps and goals are met. Each
step is checked alone, from the twin's own state before it, where only the roundings of one step may
differ; and the copies that begin as the rules say also run freely, which shows that the state is
carried on.
"""

import functools
import math
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.envs.in_graph.acrobot import Acrobot
from targetnet.envs.in_graph.cartpole import THETA_LIMIT, CartPole
from targetnet.envs.in_graph.catch import Catch
from targetnet.envs.in_graph.mountain_car import MountainCar
from targetnet.envs.in_graph.trigonometry import cos_sin

COPIES, LONGEST = 100, 200  # steps of an episode
LAST = np.float32(1 - 2**-24)  # the largest float32 below 1


class Twin(NamedTuple):
    rules: type
    wide: list[float]  # where every other copy begins: each part in [-wide, wide]
    one_step: float  # by how much a state may differ after one step, and
    episode: float  # after a free-running episode
    margin: object  # of states [..., D]: how far from the threshold of termination


# One step's roundings are 2^-53 of what is added: of numbers up to 3 in the cart, 1 in the car. The
# acrobot at its fastest accelerates by hundreds, and each of the method's four stages multiplies
# the roundings of the one before. In free episodes they grow as the pole's fall does, or slowly.
TWINS = {
    "CartPole-v1": Twin(CartPole, [2.4, 3, 0.2, 3], 1e-14, 1e-11,
                        lambda s: np.maximum(abs(s[..., 0]) - 2.4, abs(s[..., 2]) - THETA_LIMIT)),
    "MountainCar-v0": Twin(MountainCar, [1.2, 0.07], 1e-14, 1e-11, lambda s: s[..., 0] - 0.5),
    "Acrobot-v1": Twin(Acrobot, [math.pi, math.pi, 4 * math.pi, 9 * math.pi], 1e-10, 1e-11,
                       lambda s: -np.cos(s[..., 0]) - np.cos(s[..., 0] + s[..., 1]) - 1),
}  # fmt: skip
EVERY_TWIN = pytest.mark.parametrize("name", TWINS)
EVERY_ENV = pytest.mark.parametrize("rules", [CartPole, MountainCar, Acrobot, Catch])
STEPS = pytest.mark.parametrize("steps", [100, pytest.param(1000, marks=pytest.mark.slow)])
COMPILED_OR_NOT = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])


class Tape(NamedTuple):
    """What the twins did, [steps, COPIES, ...]."""

    began: np.ndarray  # whether the step is an episode's first
    before: np.ndarray  # float64 states
    seen: np.ndarray  # observations of them, or nan
    action: np.ndarray
    after: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray


@functools.cache
def twin_tape(name, steps):
    twin, rng = TWINS[name], np.random.default_rng(0)
    env = gym.make(name).unwrapped
    wides = [twin.wide, None] * (COPIES // 2)
    rows = [row for wide in wides for row in _played(env, wide, steps, rng)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Tape(*(c.reshape(COPIES, steps, *c.shape[1:]).swapaxes(0, 1) for c in columns))


def _played(env, wide, steps, rng):
    length = LONGEST
    for _ in range(steps):
        began = length == LONGEST
        if began:
            observation, _ = env.reset(seed=int(rng.integers(2**31)))
            length = 0
            if wide is not None:
                env.state = rng.uniform(-1, 1, len(wide)) * wide
                observation = np.full(observation.shape, np.nan)  # not of this state
        before, seen = np.array(env.state, np.float64), observation
        action = int(rng.integers(env.action_space.n))
        observation, reward, terminated, *_ = env.step(action)
        after = np.array(env.state, np.float64)
        yield began, before, seen, action, after, observation, reward, terminated
        length = LONGEST if terminated else length + 1


def parts_of(states):
    """[..., D] -> D arrays in one piece."""
    return [np.ascontiguousarray(part) for part in np.moveaxis(states, -1, 0)]


def assert_same_step(twin, ran, after, observation, reward, terminated, tolerance):
    states = np.stack(ran.state, axis=-1)
    np.testing.assert_allclose(states, after, rtol=0, atol=tolerance)
    # Observations are float32 of these: one unit in the last place more.
    np.testing.assert_allclose(ran.observation, observation, rtol=2**-23, atol=tolerance)
    unlike = ran.terminated != terminated
    assert (abs(twin.margin(after[unlike])) < tolerance).all()
    np.testing.assert_array_equal(ran.reward[~unlike], reward[~unlike])


@pytest.mark.cases(2)
@EVERY_TWIN
@STEPS
@COMPILED_OR_NOT
def test_each_step_is_the_twins(name, steps, compiled, runner):
    twin, tape = TWINS[name], twin_tape(name, steps)
    flat = Tape(*(column.reshape(-1, *column.shape[2:]) for column in tape))
    run = runner(twin.rules, compiled)
    ran = run.step(parts_of(flat.before), flat.action)
    wanted = flat.after, flat.observation, flat.reward, flat.terminated
    assert_same_step(twin, ran, *wanted, twin.one_step)
    given = ~np.isnan(flat.seen[:, 0])
    seen = run.observe(*parts_of(flat.before[given]))
    np.testing.assert_allclose(seen, flat.seen[given], rtol=2**-23, atol=1e-15)
    assert flat.began.sum() >= COPIES and flat.terminated.sum() > 20


@pytest.mark.cases(5)
@EVERY_TWIN
@STEPS
@COMPILED_OR_NOT
def test_episodes_that_run_freely_are_the_twins(name, steps, compiled, runner):
    twin = TWINS[name]
    tape = Tape(*(column[:, 1::2] for column in twin_tape(name, steps)))
    run = runner(twin.rules, compiled)
    state = parts_of(tape.before[0])
    for t in range(steps):
        first = parts_of(tape.before[t])
        state = [np.where(tape.began[t], *pair) for pair in zip(first, state, strict=True)]
        ran = run.step(state, tape.action[t])
        wanted = tape.after[t], tape.observation[t], tape.reward[t], tape.terminated[t]
        assert_same_step(twin, ran, *wanted, twin.episode)
        state = ran.state


@pytest.mark.cases(2)
@EVERY_ENV
def test_a_compiled_loop_of_steps_gives_what_single_steps_give(rules, runner):
    n, steps = 16, 8  # Catch ends after 9
    rng = np.random.default_rng(1)
    uniform = rng.random((n, rules.begin_draws), np.float32)
    actions = rng.integers(rules.num_actions, size=(steps, n)).astype(np.int32)
    run = runner(rules, False)
    state = run.begin(uniform)
    paid = np.zeros(n, np.float32)
    for action in actions:
        state, reward, _, observation = run.step(state, action)
        paid += reward

    env = rules()

    @tf2.function(jit_compile=True, autograph=False)
    def loop(uniform, actions):
        def body(t, paid, *state):
            moved = env.step(run.form(*state), actions[t], tf.zeros([n, 0]))
            return t + 1, paid + moved.reward, *moved.state

        start = (tf.constant(0), tf.zeros([n]), *env.begin(uniform))
        _, paid, *state = tf.while_loop(lambda t, *_: t < steps, body, start)
        return paid, env.observe(run.form(*state)), *state

    with tf.Graph().as_default(), tf.Session() as session:
        got_paid, got_observation, *got = session.run(loop(uniform, actions))
    np.testing.assert_array_equal(got_paid, paid)
    np.testing.assert_allclose(np.float32(got_observation), observation, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(got, state, rtol=0, atol=1e-12)


@pytest.mark.cases(2)
@EVERY_ENV
def test_shapes_and_dtypes_are_as_declared(rules):
    env = rules()
    with tf.Graph().as_default():
        state = env.begin(tf.zeros([3, env.begin_draws]))
        moved = env.step(state, tf.zeros([3], tf.int32), tf.zeros([3, env.step_draws]))
        for s in (state, moved.state):
            assert all(part.shape == [3] for part in s)
            seen = env.observe(s)
            assert (seen.shape, seen.dtype) == ([3, *env.observation_shape], env.observation_dtype)
        assert [p.dtype for p in state] == [p.dtype for p in moved.state]
        assert (moved.reward.shape, moved.reward.dtype) == ([3], tf.float32)
        assert (moved.terminated.shape, moved.terminated.dtype) == ([3], tf.bool)


# rules         draws of one copy        its first state
BEGINNINGS = [
    (CartPole,    [0, 0, 0, 0],            [-0.05, -0.05, -0.05, -0.05]),
    (CartPole,    [0.25, 0.5, 0.75, LAST], [-0.025, 0, 0.025, 0.05]),
    (MountainCar, [0],                     [-0.6, 0]),
    (MountainCar, [0.5],                   [-0.5, 0]),
    (MountainCar, [LAST],                  [-0.4, 0]),
    (Acrobot,     [0, 0, 0, 0],            [-0.1, -0.1, -0.1, -0.1]),
    (Acrobot,     [0.25, 0.5, 0.75, LAST], [-0.05, 0, 0.05, 0.1]),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "draws", "first"), BEGINNINGS)
def test_first_states_lie_between_the_twins_bounds(rules, draws, first, runner):
    state = np.ravel(runner(rules, False).begin(np.float32([draws])))
    np.testing.assert_allclose(state, first, rtol=0, atol=1.3e-8)  # LAST: 0.2 * 2^-24
    for draw, part, bound in zip(draws, state, first, strict=False):
        assert draw != LAST or part < bound  # the upper bound itself is never drawn


def test_a_first_push_moves_the_pole_against_the_cart(runner):
    # temp = 10 / 1.1 = 9.0909; theta_acc = -9.0909 / (0.5 (4/3 - 0.1 / 1.1)) = -14.634
    # x_acc = 9.0909 + 0.05 * 14.634 / 1.1 = 9.7561; speeds are these times 0.02
    right = runner(CartPole, False).step([np.zeros(1)] * 4, [1])
    np.testing.assert_allclose(right.observation, [[0, 0.195122, 0, -0.292683]], atol=1e-6)
    assert (right.reward, right.terminated) == (1, False)


@pytest.mark.parametrize(("part", "limit"), [(0, 2.4), (2, 12 * 2 * math.pi / 360)])
def test_a_cartpole_at_its_limit_goes_on_and_beyond_it_is_over(part, limit, runner):
    places = np.array([limit, np.nextafter(limit, 9), -limit, np.nextafter(-limit, -9)])
    state = [np.zeros(4) for _ in range(4)]
    state[part] = places  # at rest, so it is still there after Euler's step
    ran = runner(CartPole, False).step(state, [1, 1, 1, 1])
    assert ran.terminated.tolist() == [False, True, False, True]
    assert ran.reward.tolist() == [1, 1, 1, 1]


def test_the_car_is_at_the_goal_from_0_5_on_unless_it_rolls_back(runner):
    position = np.array([0.43, 0.4299, 0.57, 0.6])
    velocity = np.array([0.07, 0.07, -0.07, -0.0001])
    # They arrive at 0.5, 0.4999, 0.5 and 0.6, the third at -0.07 and the last one turned round by
    # the slope: -0.0001 - 0.0025 cos(1.8) = 0.0005.
    ran = runner(MountainCar, False).step([position, velocity], [2, 2, 0, 1])
    assert ran.terminated.tolist() == [True, False, False, True]
    assert ran.reward.tolist() == [-1] * 4


def test_angles_are_wrapped_however_many_turns_a_step_makes(runner):
    # From here the second link makes more than a turn in one step; the twin subtracts 2 pi twice.
    state = np.array([[3.0, 3.0, 12.5, 28.0], [-3.0, -3.0, -12.5, -28.0]])
    ran = runner(Acrobot, False).step(parts_of(state), [2, 0])
    env = gym.make("Acrobot-v1").unwrapped
    for i, action in enumerate((2, 0)):
        env.state = state[i]
        env.step(action)
        np.testing.assert_allclose(np.stack(ran.state, axis=-1)[i], env.state, atol=1e-12)
    assert (np.abs(ran.state[:2]) <= math.pi).all()


@COMPILED_OR_NOT
def test_cosines_and_sines_are_the_c_librarys(compiled, evaluate):
    angle = np.linspace(-30, 30, 100_001)
    cos, sin = evaluate(tf2.function(cos_sin, jit_compile=compiled, autograph=False)(angle))
    np.testing.assert_allclose(cos, np.cos(angle), rtol=0, atol=2e-15)
    np.testing.assert_allclose(sin, np.sin(angle), rtol=0, atol=2e-15)
