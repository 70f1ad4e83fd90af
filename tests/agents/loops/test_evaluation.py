"""Greedy evaluation: which episodes, and that it leaves no trace."""

import io
import itertools
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console

from targetnet.agents.loops.evaluation import evaluate, exploring
from targetnet.agents.run.display import evaluation_shown
from targetnet.rl_core.errors import BoundsError
from targetnet.rl_core.philox import NumpyStream
from tests.envs import lives


class Uneven(gym.Env):
    """The first env made plays episodes of 50 steps, the others of one; each step pays 1."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)
    made = itertools.count()

    def __init__(self):
        self.length = 50 if next(Uneven.made) == 0 else 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), 1.0, self.t == self.length, False, {}


class Lottery(gym.Env):
    """An episode of one step whose pay its seed decides."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pay = float(self.np_random.random())
        return np.float32(self.np_random.random(2)), {}

    def step(self, action):
        return np.zeros(2, np.float32), self.pay, True, False, {}


class Ramp(Lottery):
    """Pays 1, 2, 3, ... until its time limit; undiscounted that is 6 for three steps."""

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), float(self.t), False, False, {}


class Choice(Lottery):
    """Pays the action it gets."""

    def step(self, action):
        return np.zeros(2, np.float32), float(action), True, False, {}


@pytest.fixture(autouse=True)
def registered():
    classes = {"Uneven": Uneven, "Lottery": Lottery, "Choice": Choice}
    for name, env in classes.items():
        gym.register(f"test/{name}-v0", env)
    gym.register("test/Ramp-v0", Ramp, max_episode_steps=3)
    Uneven.made = itertools.count()
    yield
    for name in [*classes, "Ramp"]:
        del gym.registry[f"test/{name}-v0"]


@pytest.fixture(scope="module")
def agent(lab):
    return lab.filled()


def returns_of(lab, agent, name, episodes, **kwargs):
    return evaluate(agent, lab.config(env_id=f"test/{name}-v0"), episodes, **kwargs)


@pytest.mark.parametrize("episodes", [1, 2, 9, 10, 11, 23])
def test_as_many_episodes_are_played_as_asked_for(lab, agent, episodes):
    assert len(returns_of(lab, agent, "Lottery", episodes)) == episodes


def test_envs_with_short_episodes_play_no_more_of_them(lab, agent):
    """By the first 20 to finish, the slow env would be left out."""
    returns = returns_of(lab, agent, "Uneven", 20)
    envs = next(Uneven.made)
    assert sorted(returns) == [1.0] * (20 - 20 // envs) + [50.0] * (20 // envs)
    assert envs > 1


def test_returns_are_undiscounted_sums_up_to_the_time_limit(lab, agent):
    assert returns_of(lab, agent, "Ramp", 4) == [6.0] * 4  # 1 + 2 + 3


def test_the_policy_is_greedy(lab, agent):
    always_2 = {"head/q/w": np.zeros((8, 3)), "head/q/b": [0, 0, 1]}
    trained = agent.state.weights()
    agent.state.load_weights(trained | {k: np.float32(v) for k, v in always_2.items()})
    assert agent.hyperparameters["epsilon"] == 1.0
    assert returns_of(lab, agent, "Choice", 12) == [2.0] * 12
    agent.state.load_weights(trained)


def test_with_epsilon_that_share_of_actions_is_uniformly_random(lab, agent):
    always_2 = {"head/q/w": np.zeros((8, 3)), "head/q/b": [0, 0, 1]}
    trained = agent.state.weights()
    agent.state.load_weights(trained | {k: np.float32(v) for k, v in always_2.items()})
    half = returns_of(lab, agent, "Choice", 600, epsilon=0.5, seed=1)
    # Two thirds of 0.5 are another action than 2.
    assert half.count(2.0) == pytest.approx(400, abs=45)
    assert half.count(0.0) == pytest.approx(100, abs=35)
    assert half == returns_of(lab, agent, "Choice", 600, epsilon=0.5, seed=1)
    assert half != returns_of(lab, agent, "Choice", 600, epsilon=0.5, seed=2)
    assert returns_of(lab, agent, "Choice", 12, epsilon=0) == [2.0] * 12
    agent.state.load_weights(trained)


@pytest.mark.parametrize("epsilon", [-0.1, 1.5, float("nan"), "often", None, True])
def test_an_epsilon_that_is_no_probability_is_refused(lab, agent, epsilon):
    with pytest.raises(BoundsError, match=r"^epsilon must be a number in \[0, 1\], got "):
        returns_of(lab, agent, "Choice", 1, epsilon=epsilon)


def test_with_epsilon_no_illegal_action_is_taken():
    envs = SimpleNamespace(num_envs=2, num_actions=3, branches=())
    legal = np.array([[False, True, False], [True, False, True]])
    stream = NumpyStream(0, "evaluation")
    play = exploring(lambda *_: legal.argmax(axis=1), 1.0, envs, stream)
    actions = [play(np.zeros((2, 2)), np.zeros(2, bool), legal) for _ in range(50)]
    first, second = np.transpose(actions)
    assert {*first} == {1} and {*second} == {0, 2}


def test_the_same_seed_gives_the_same_returns_and_another_other_ones(lab, agent):
    first = returns_of(lab, agent, "Lottery", 12, seed=5)
    assert returns_of(lab, agent, "Lottery", 12, seed=5) == first
    assert returns_of(lab, agent, "Lottery", 12, seed=6) != first
    assert len(set(first)) == 12  # no episode is played twice


def test_without_a_seed_it_is_derived_from_the_runs(lab, agent):
    by_run = [
        evaluate(agent, lab.config(env_id="test/Lottery-v0", seed=seed), 3) for seed in (1, 1, 2)
    ]
    assert by_run[0] == by_run[1] != by_run[2]


def test_the_episodes_are_not_those_of_training(lab, agent):
    from targetnet.envs import make_envs

    config = lab.config(env_id="test/Lottery-v0", seed=1)
    envs = make_envs("test/Lottery-v0", 3, seed=1)
    envs.reset()
    step = envs.step(np.zeros(3, np.int32))
    envs.close()
    training = {episode.episode_return for episode in step.episodes}
    assert len(training) == 3 and not training & set(evaluate(agent, config, 20))


@pytest.mark.thorough
def test_nothing_is_stored_and_nothing_is_learned(lab):
    agent, twin = lab.filled(num_envs=2), lab.filled(num_envs=2)
    for one in (agent, twin):
        one.learn(3)
    before = agent.inspect(), agent.updates, agent.hyperparameters.env_step
    returns_of(lab, agent, "Lottery", 12)
    assert (agent.inspect(), agent.updates, agent.hyperparameters.env_step) == before
    for scope in ("online", "target"):
        assert lab.same(lab.weights(agent, scope), lab.weights(twin, scope))
    # What comes after is as if there had been no evaluation.
    assert np.array_equal(lab.fill(agent, 20, seed=1), lab.fill(twin, 20, seed=1))
    for one in (agent, twin):
        one.learn(3)
    assert lab.same(agent.state.weights(), twin.state.weights())


class Endless(Ramp):
    """Pays 1, 2, 3, ... for ever, but for every second episode, which ends after 4 steps."""

    episodes = itertools.count()

    def reset(self, *, seed=None, options=None):
        self.ends = seed is not None and next(Endless.episodes) % 2
        return super().reset(seed=seed)

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, bool(self.ends and self.t == 4), False, {}


class EndlessVector(gym.vector.VectorEnv):
    """Two envs that pay 1 and 2 at every step; the first ends an episode every 3 steps."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012
    single_observation_space = Lottery.observation_space
    single_action_space = Lottery.action_space

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions):
        self.t += 1
        terminated = np.zeros(self.num_envs, bool)
        terminated[0] = self.t % 4 == 3
        rewards = np.arange(1.0, self.num_envs + 1)
        no = np.zeros(self.num_envs, bool)
        return np.zeros((self.num_envs, 2), np.float32), rewards, terminated, no, {}


@pytest.fixture
def endless():
    gym.register("test/Endless-v0", Endless, vector_entry_point=EndlessVector)
    Endless.episodes = itertools.count()
    yield "test/Endless-v0"
    del gym.registry["test/Endless-v0"]


def test_an_episode_that_does_not_end_is_cut_and_counts_with_the_return_until_then(
    lab, agent, endless
):
    # make_envs makes one reset; then come episodes 1, 2, ...: those with an odd number end.
    config = lab.config(env_id=endless, eval_max_steps=6)
    returns = evaluate(agent, config, 1)
    assert (list(returns), returns.cut) == ([10.0], 0)  # 1 + 2 + 3 + 4
    Endless.episodes = itertools.count(1)
    returns = evaluate(agent, config, 1)
    assert (list(returns), returns.cut) == ([21.0], 1)  # 1 + ... + 6
    Endless.episodes = itertools.count()
    returns = evaluate(agent, config, 25)
    assert len(returns) == 25 and returns.cut == list(returns).count(21.0) > 0
    assert set(returns) == {10.0, 21.0}


def test_one_that_ends_on_the_very_step_is_not_cut(lab, agent, endless):
    returns = evaluate(agent, lab.config(env_id=endless, eval_max_steps=4), 1)
    assert (list(returns), returns.cut) == ([10.0], 0)
    returns = evaluate(agent, lab.config(env_id="test/Ramp-v0", eval_max_steps=3), 2)
    assert (list(returns), returns.cut) == ([6.0, 6.0], 0)  # its own time limit


@pytest.mark.parametrize("at", [1, 5])
def test_a_game_is_cut_by_its_own_length_and_not_by_that_of_a_life(lab, agent, at):
    def losing_one(observation, legal=None):
        return np.where(observation[:, 0] == at, lives.LOSE, lives.GO_ON)

    config = lab.config(env_id=lives.ID, eval_max_steps=6)
    returns = evaluate(agent, config, 3, policy=losing_one)
    assert (list(returns), returns.lengths, returns.cut) == ([21.0] * 3, [6] * 3, 3)  # 1 + ... + 6


def test_a_vector_envs_episode_goes_on_after_a_cut_and_counts_as_another_one(lab, agent, endless):
    config = lab.config(
        env_id=endless, vectorization="vector_entry_point", eval_max_steps=5, num_envs=2
    )
    returns = evaluate(agent, config, 2)
    assert (sorted(returns), returns.cut) == ([3.0, 10.0], 1)  # 3 * 1, and 5 * 2 cut
    many = evaluate(agent, config, 20)
    assert len(many) == 20 and set(many) <= {3.0, *(5.0 * k for k in range(1, 11))}


def test_cut_episodes_are_named_by_env_and_number_also_by_workers():
    from targetnet.envs import Episode, make_envs

    for vectorization in ("sync", "async"):
        envs = make_envs("CartPole-v1", 3, vectorization=vectorization, seed=1)
        try:
            envs.reset()
            for _ in range(3):
                envs.step(np.zeros(3, int))
            cut = envs.cut(np.array([True, False, True]))
            assert cut == (
                Episode(0, 0, 3.0, 3, False, cut=True),
                Episode(2, 0, 3.0, 3, False, cut=True),
            )
            step = envs.step(np.zeros(3, int))
            assert step.autoreset.tolist() == [True, False, True]
        finally:
            envs.close()


def test_who_watches_is_told_how_far_it_is(lab, agent):
    seen = []
    returns_of(lab, agent, "Ramp", 4, watch=lambda done, env_steps: seen.append((done, env_steps)))
    assert seen == [(0, 4), (0, 8), (4, 12)]


def test_a_long_evaluation_shows_where_there_is_no_terminal_a_line_now_and_then(monkeypatch):
    from targetnet.agents.run import display

    console = Console(file=io.StringIO(), width=200)
    now = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    with display.evaluation_shown(console, 10) as watch:
        for now[0] in (1.0, 59.0, 60.0, 61.0, 119.0, 120.0):
            watch(3, 1_000 * int(now[0]))
    assert console.file.getvalue().splitlines() == [
        "evaluating: 3 of 10 episodes, 60,000 env steps",
        "evaluating: 3 of 10 episodes, 120,000 env steps",
    ]


def test_on_a_terminal_it_shows_it_in_a_line_that_goes_away():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with evaluation_shown(console, 10) as watch:
        watch(1, 10)
    shown = console.file.getvalue()
    assert "evaluating" in shown and shown.endswith("\x1b[2K")  # cleared


def test_a_stop_request_gives_the_returns_so_far(lab, agent):
    assert returns_of(lab, agent, "Lottery", 50, stop=lambda: True) == []
    calls = iter([False] * 3)
    returns = returns_of(lab, agent, "Lottery", 500, stop=lambda: next(calls, True))
    assert 0 < len(returns) < 500
