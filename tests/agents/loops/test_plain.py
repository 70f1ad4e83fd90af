"""The order in which the loop calls envs and agent, on a tape; and what it counts."""

import inspect

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.plain import LearnClock, LoopState, training_loop
from targetnet.envs import make_envs
from targetnet.envs.interface import Step
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.schedules import Linear
from tests.agents.steady import STEADY


class FakeEnvs:
    """Writes to the tape; `resets` are the steps (from 1) that are only resets, for all envs."""

    def __init__(self, tape, num_envs=1, resets=()):
        self.tape, self.num_envs, self.resets = tape, num_envs, resets
        self.steps = 0

    def reset(self):
        self.tape.append("reset")
        return self._row(True)

    def step(self, actions):
        self.steps += 1
        self.tape.append("step")
        return self._row(self.steps in self.resets)

    def _row(self, autoreset):
        N = self.num_envs
        no = np.zeros(N, bool)
        return Step(np.full((N, 1), self.steps), np.zeros(N), no, no, np.full(N, autoreset), ())


class FakeAgent:
    """Writes to the tape."""

    def __init__(self, tape, **settings):
        self.tape = tape
        self.config = DqnConfig(**STEADY | settings)
        knobs = DqnConfig.knobs()
        configured = {knob.name: getattr(self.config, knob.name) for knob in knobs}
        self.hyperparameters = Hyperparameters(knobs, configured)

    def step(self, observation, reward, terminated, autoreset, legal=None):
        self.tape.append(f"act {observation[0, 0]}")
        return np.zeros(len(observation), np.int32)

    def learn(self, updates=1, *, stats=False):
        self.tape.append(f"learn {updates}")
        return "stats" if stats else None


def run(num_envs=1, resets=(), **settings):
    """The tape of a whole run, and its ticks."""
    tape = []
    agent = FakeAgent(tape, num_envs=num_envs, **settings)
    ticks = list(training_loop(agent, FakeEnvs(tape, num_envs, resets)))
    return tape, ticks


def updates(tape):
    return [int(entry.split()[1]) for entry in tape if entry.startswith("learn")]


def test_the_loop_stores_and_acts_then_learns_then_steps():
    tape, _ = run(env_steps=4, learn_start=0, learn_period=2)
    assert tape == [
        *("reset", "act 0", "step"),
        *("act 1", "step"),
        *("act 2", "learn 1", "step"),  # after act 2, which stored what env step 2 led to
        *("act 3", "step"),
    ]


def test_learning_waits_for_learn_start():
    tape, _ = run(env_steps=6, learn_start=3, learn_period=1)
    assert tape == [
        *("reset", "act 0", "step"),
        *("act 1", "step"),
        *("act 2", "step"),
        *("act 3", "learn 1", "step"),
        *("act 4", "learn 1", "step"),
        *("act 5", "learn 1", "step"),
    ]


def test_the_phases_that_learn_start_held_back_are_not_made_up_for():
    tape, _ = run(env_steps=100, learn_start=50, learn_period=10)
    assert updates(tape) == [1] * 5  # at 50, 60, 70, 80, 90


def test_a_reset_is_no_env_step():
    tape, ticks = run(env_steps=4, learn_start=0, learn_period=2, resets=[2, 3, 5])
    assert [tick.env_step for tick in ticks] == [1, 1, 1, 2, 2, 3, 4]
    assert [entry for entry in tape if "learn" in entry or "act" in entry] == [
        *("act 0", "act 1", "act 2", "act 3", "act 4", "learn 1", "act 5", "act 6"),
    ]


def test_a_phase_is_as_many_updates_as_the_config_says():
    tape, _ = run(env_steps=9, learn_start=0, learn_period=4, updates_per_learn=3)
    assert updates(tape) == [3, 3]


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (8, [1, 1, 1, 1]),  # eight envs: a phase per time step
        (4, [2, 2, 2, 2]),  # more envs than the period: the phases are not lost
        (1, [8, 8, 8, 8]),
        (3, [2, 3, 3, 2]),  # 8 / 3, 16 / 3, 24 / 3, 32 / 3: 2, 5, 8, 10 phases by then
        (16, [1, 1]),
        (12, [1, 1]),  # at 16 and at 24 env steps
    ],
)
def test_with_many_envs_a_time_step_makes_as_many_phases_as_it_has_periods(period, expected):
    tape, ticks = run(num_envs=8, env_steps=40, learn_start=0, learn_period=period)
    assert updates(tape) == expected
    assert [tick.env_step for tick in ticks] == [8, 16, 24, 32, 40]


def test_env_steps_of_some_envs_resetting_count_the_others_only():
    tape = []
    envs = FakeEnvs(tape, num_envs=4)
    flags = iter([[True] * 4, [False] * 4, [True, False, False, True], [False] * 4])
    row = envs._row
    envs._row = lambda autoreset: row(autoreset)._replace(autoreset=np.array(next(flags)))
    agent = FakeAgent(tape, num_envs=4, env_steps=10, learn_start=0, learn_period=100)
    assert [tick.env_step for tick in training_loop(agent, envs)] == [4, 6, 10]


def test_statistics_come_about_once_every_log_period_and_only_with_learning():
    _, ticks = run(env_steps=40, learn_start=5, learn_period=2, log_period=10)
    # Asked at the first phase at or after 10, 20, 30; the tick is of the step after it.
    assert [tick.env_step for tick in ticks if tick.stats] == [11, 21, 31]


def test_schedules_follow_the_env_steps():
    tape = []
    agent = FakeAgent(tape, env_steps=4, epsilon=Linear(start=1.0, end=0.0, steps=4))
    seen = []
    agent.step = lambda *row, legal: (
        seen.append(agent.hyperparameters["epsilon"]) or np.zeros(1, np.int32)
    )
    for _ in training_loop(agent, FakeEnvs(tape, resets=[3])):
        pass
    assert seen == [1.0, 0.75, 0.5, 0.5, 0.25]  # the reset does not lower it


def test_a_live_value_set_between_two_items_holds_from_the_next_on_against_its_schedule():
    tape = []
    agent = FakeAgent(
        tape, env_steps=6, learn_start=0, learn_period=1, epsilon=Linear(start=1, end=0, steps=6)
    )
    seen = []
    agent.step = lambda *row, legal: (
        seen.append(agent.hyperparameters["epsilon"]) or np.zeros(1, np.int32)
    )
    for tick in training_loop(agent, FakeEnvs(tape)):
        if tick.env_step == 2:
            agent.hyperparameters["epsilon"] = 0.9
            agent.hyperparameters["updates_per_learn"] = 5
    assert seen == [1.0, pytest.approx(5 / 6), 0.9, 0.9, 0.9, 0.9]
    assert updates(tape) == [1, 5, 5, 5, 5]


def test_shortening_the_learn_period_below_its_age_makes_one_phase_due_at_once():
    tape = []
    agent = FakeAgent(tape, env_steps=97, learn_start=0, learn_period=1000)
    for tick in training_loop(agent, FakeEnvs(tape)):
        if tick.env_step == 90:
            agent.hyperparameters["learn_period"] = 3
    assert updates(tape) == [1, 1, 1]  # at 90, 93 and 96, not 30 at 90
    assert tape.index("learn 1") == tape.index("act 90") + 1


# The clock alone.


@pytest.mark.parametrize("new_steps", [1, 2, 3, 7, 8, 64])
@pytest.mark.parametrize("period", [1, 3, 4, 8, 100])
def test_by_any_time_there_were_as_many_phases_as_whole_periods(new_steps, period):
    clock = LearnClock()
    total = 0
    for step in range(1, 200):
        total += clock.phases_due(new_steps, period)
        assert total == step * new_steps // period


def test_a_time_step_without_transitions_makes_nothing_due():
    clock = LearnClock()
    assert [clock.phases_due(n, 2) for n in (0, 0, 1, 0, 1, 0)] == [0, 0, 0, 0, 1, 0]


def test_a_period_shortened_live_leaves_no_backlog():
    clock = LearnClock()
    assert [clock.phases_due(1, 1000) for _ in range(900)] == [0] * 900
    assert [clock.phases_due(1, 10) for _ in range(12)] == [1] + [0] * 9 + [1, 0]


def test_a_period_lengthened_live_keeps_its_age():
    clock = LearnClock()
    assert [clock.phases_due(1, 5) for _ in range(4)] == [0] * 4
    assert [clock.phases_due(1, 8) for _ in range(5)] == [0, 0, 0, 1, 0]


# End to end on envs of one state.


class OneState(gym.Env):
    """Pays 1 at every step and then ends, as it is told."""

    observation_space = gym.spaces.Box(1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, end):
        self.end = end

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action):
        end = self.end
        return np.ones(1, np.float32), 1.0, end == "terminated", end == "truncated", {}


class FarEnd(OneState):
    """As OneState, but ends in a state 2 in which it is never asked to act.

    Its value is whatever the network makes of 2; that of the reset's 1 is another.
    """

    observation_space = gym.spaces.Box(1, 2, (1,), np.float32)

    def step(self, action):
        _, *rest = super().step(action)
        return np.full(1, 2, np.float32), *rest


@pytest.fixture
def one_state_envs():
    gym.register("test/OneState-v0", OneState)
    gym.register("test/FarEnd-v0", FarEnd)
    yield
    del gym.registry["test/OneState-v0"], gym.registry["test/FarEnd-v0"]


def train(lab, env_id, end, num_envs=1, **settings):
    """The agent after a run; its settings are such that it ends near the fixed point."""
    from targetnet.agents.dqn.agent import DqnAgent

    config = lab.config(
        env_id=env_id,
        num_envs=num_envs,
        env_steps=800,
        discount=0.5,
        learn_period=1,
        sync_period=10,
        learn_start=10,
        loss="squared",
        **settings,
    )
    envs = make_envs(env_id, num_envs, seed=0, env_kwargs={"end": end})
    agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    for _ in training_loop(agent, envs):
        pass
    envs.close()
    return agent


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("end", "num_envs", "value"),
    [
        ("terminated", 1, 1.0),
        ("terminated", 3, 1.0),
        ("truncated", 1, 2.0),  # q = 1 + q / 2: a time limit is not the end
        ("truncated", 3, 2.0),
        ("never", 1, 2.0),
    ],
)
def test_only_a_terminated_step_cuts_the_value_off(lab, one_state_envs, end, num_envs, value):
    agent = train(lab, "test/OneState-v0", end, num_envs)
    assert agent.learn(stats=True).q_mean == pytest.approx(value, abs=0.05)


def test_a_truncated_step_bootstraps_from_its_own_final_observation(lab, one_state_envs):
    """q(1) = 1 + q(2) / 2, and q(2) is never trained: so it is not 1 + q(1) / 2."""
    agent = train(lab, "test/FarEnd-v0", "truncated")
    agent.sync()
    w = lab.weights(agent, "online")

    def q(observation):
        hidden = np.maximum(observation * w["torso/dense_0/w"][0] + w["torso/dense_0/b"], 0)
        return (hidden @ w["head/q/w"] + w["head/q/b"]).max()

    stats = agent.learn(stats=True)
    assert abs(q(2) - q(1)) > 0.2  # or the test would show nothing
    assert q(1) == pytest.approx(1 + q(2) / 2, abs=0.1)
    assert np.abs(stats.td_error).max() < 0.1


@pytest.mark.cases(1)
@pytest.mark.parametrize(("learn_period", "sync_period"), [(4, 3), (3, 7), (7, 4)])
def test_the_sync_fires_where_learn_period_and_sync_period_do_not_divide_each_other(
    lab, one_state_envs, learn_period, sync_period
):
    from targetnet.agents.dqn.agent import DqnAgent

    config = lab.config(
        **STEADY | {"learn_period": learn_period, "sync_period": sync_period, "env_steps": 120}
    )
    envs = make_envs("test/OneState-v0", seed=0, env_kwargs={"end": "terminated"})
    agent = DqnAgent(config, (1,), np.float32, 2)
    for _ in training_loop(agent, envs):
        assert agent.inspect().target_age == agent.updates % sync_period
    assert agent.updates == 119 // learn_period


def test_the_fakes_have_what_the_real_ones_have():
    """Or the tape would prove nothing."""
    from targetnet.agents.dqn.agent import DqnAgent
    from targetnet.envs.interface import Envs

    for fake, real in ((FakeAgent, DqnAgent), (FakeEnvs, Envs)):
        public = [name for name in vars(fake) if not name.startswith("_")]
        assert public and {*public} <= {*dir(real)}
        for name in public:
            takes = inspect.signature(getattr(real, name)).parameters
            assert {*inspect.signature(getattr(fake, name)).parameters} <= {*takes}, name


def test_statistics_come_once_in_a_period_also_after_many_without_an_update():
    state, period = LoopState(next_log=10), 10
    taken = []
    for env_step in range(43, 70):  # the first update of a long `learn_start`
        state.env_step = env_step
        if state.takes_stats(period):
            taken.append(env_step)
    assert taken == [43, 50, 60] and state.next_log == 70
