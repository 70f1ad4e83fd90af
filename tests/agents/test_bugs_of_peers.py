"""One test for each well-known mistake of DQN implementations, by its name.

Each is looked for where a user would meet it: in a loop over envs, or in an agent's weights.
"""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from agents.config import DqnConfig
from agents.dqn import DqnAgent
from agents.runner import training_loop
from envs import make_envs
from rl_core import Engine, Stream, UniformReplay, copy_vars
from rl_core.schedules import Linear


class Marks(gym.Env):
    """Shows (episode's seed, time); ends at time 3, by termination or, if asked, truncation."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, truncates=False):
        self.truncates = truncates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.mark, self.time = float(self.np_random.integers(1_000)), 0
        return self.shown(), {}

    def step(self, action):
        self.time += 1
        ends = self.time == 3
        return (
            self.shown(),
            float(self.time),
            ends and not self.truncates,
            self.truncates and ends,
            {},
        )

    def shown(self):
        return np.array([self.mark, self.time], np.float32)


gym.register("Marks-v0", Marks)


def looped(steps=60, num_envs=1, truncates=False, **settings):
    """An agent after a loop over Marks; of each tick: env step, updates, target age, epsilon."""
    config = DqnConfig(
        env_id="Marks-v0", num_envs=num_envs, env_steps=steps, hidden=(4,), batch_size=8,
        replay_capacity=120, learn_start=0, xla=False, env_kwargs={"truncates": truncates},
        **{"learn_period": 1, "epsilon": 1.0} | settings,
    )  # fmt: skip
    envs = make_envs(config.env_id, num_envs, seed=config.seed, env_kwargs=config.env_kwargs)
    agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    ticks = [
        (tick.env_step, agent.updates, agent.inspect().target_age, agent.hyperparameters["epsilon"])
        for tick in training_loop(agent, envs)
    ]
    return agent, ticks


@pytest.fixture(scope="module", params=[1, 3], ids=["1 env", "3 envs"])
def sampled(request):
    """What a replay gives that was filled from envs whose episodes are truncated."""
    envs = make_envs("Marks-v0", request.param, seed=0, env_kwargs={"truncates": True})
    engine = Engine()
    with engine.building():
        replay = UniformReplay(90, request.param, (2,), np.float32)
        feeds = [
            tf.placeholder(kind, [request.param, *shape])
            for kind, shape in [(tf.float32, [2]), (tf.float32, []), (tf.bool, []), (tf.bool, [])]
        ]
        action = tf.zeros([request.param], tf.int32)
        write = replay.write(feeds[0], action, *feeds[1:])
        counter = tf.placeholder(tf.int64, [])
        batch = replay.sample(64, Stream(0, "sample"), counter, tf.constant(0.5))
    engine.start()
    append = engine.callable(None, feeds, [write])
    step = envs.reset()
    for _ in range(50):
        append(step.observation, step.reward, step.terminated, step.autoreset)
        step = envs.step(np.zeros(request.param, np.int32))
    read = engine.callable([batch.s_tm1, batch.s_t, batch.r_t, batch.discount_t], [counter])
    columns = [np.concatenate(c) for c in zip(*[read(np.int64(i)) for i in range(9)], strict=True)]
    engine.close()
    return columns


def test_time_limit_stored_as_terminal(sampled):
    s_tm1, _, _, discount_t = sampled
    assert (s_tm1[:, 1] == 2).any() and (discount_t == 0.5).all()


def test_wrong_next_observation_with_memory_saving_and_truncation(sampled):
    """Each observation is stored once; the one after the last step is not the next episode's."""
    s_tm1, s_t, _, _ = sampled
    np.testing.assert_array_equal(s_t, np.add(s_tm1, [0, 1]))


def test_pseudo_step_of_the_autoreset_learned_from(sampled):
    """From the final observation to the first one of the next episode nothing was done."""
    s_tm1, _, r_t, _ = sampled
    assert set(s_tm1[:, 1]) == {0, 1, 2}
    np.testing.assert_array_equal(r_t, s_tm1[:, 1] + 1)


def test_target_never_moves(lab):
    agent, _ = looped(steps=20, sync_period=6)
    begin = lab.agent()
    assert agent.updates > 6
    assert not lab.same(lab.weights(agent, "target"), lab.weights(begin, "target"))
    assert not lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))


def test_target_synced_to_an_unrelated_start(lab):
    agent = lab.agent()
    assert lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))


def test_interval_divided_by_the_number_of_envs_in_place():
    """With 3 envs the target is still copied every 7 updates, and the config still says 7."""
    agent, ticks = looped(num_envs=3, sync_period=7, updates_per_learn=1)
    assert agent.config.sync_period == agent.hyperparameters["sync_period"] == 7
    assert [age for _, updates, age, _ in ticks if updates] == [u % 7 for _, u, _, _ in ticks if u]


def test_sync_tested_inside_the_learn_test():
    """Periods without a common divisor: learning every 4 env steps, a copy every 3 updates."""
    _, ticks = looped(learn_period=4, sync_period=3)
    assert {(updates, age) for _, updates, age, _ in ticks} == {
        (u, u % 3) for u in range(ticks[-1][1] + 1)
    }


def test_pairing_by_sorted_names(evaluate):
    """layer_10 sorts before layer_2, and after it in the order of building."""
    for scope, order in (("online", [2, 10]), ("target", [10, 2])):
        with tf.variable_scope(scope):
            for i in order:
                tf.get_variable(
                    f"layer_{i}", initializer=tf.fill([2], 1.0 * i * (scope == "online"))
                )
    evaluate(copy_vars("online", "target"))
    with tf.variable_scope("target", reuse=True):
        pair = [tf.get_variable(f"layer_{i}", [2]) for i in (2, 10)]
    np.testing.assert_array_equal(evaluate(pair), [[2, 2], [10, 10]])


def test_seed_ignored(lab):
    """Of weights, of exploration, of the envs and of batches."""
    agents = [looped(seed=seed)[0] for seed in (0, 0, 1)]
    rows = [agent.contents.time_steps(0, 40) for agent in agents]
    assert agents[0].digest() == agents[1].digest() != agents[2].digest()
    for column in ("observation", "action"):
        first, again, other = (getattr(r, column) for r in rows)
        assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_live_learning_rate_overwritten():
    """By the config's schedule, at the next update."""
    schedule = Linear(start=1e-2, end=1e-3, steps=100)
    config = DqnConfig(
        env_id="Marks-v0", env_steps=40, hidden=(4,), learn_start=0, learn_period=1, batch_size=8,
        learning_rate=schedule, xla=False,
    )  # fmt: skip
    envs = make_envs(config.env_id, seed=0)
    agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    moved = []
    for tick in training_loop(agent, envs):
        if tick.env_step == 20:
            agent.hyperparameters["learning_rate"] = 1e-20
            before = agent.weights()["head/q/w"].copy()
        if tick.env_step > 20:
            moved.append(not np.array_equal(agent.weights()["head/q/w"], before))
    assert len(moved) >= 20 and not any(moved)
    assert agent.hyperparameters["learning_rate"] == 1e-20


def test_importance_weights_not_normalised(lab):
    """The largest is 1, so that beta scales losses only down: with one priority all weigh 1."""
    plain, weighted = lab.agent(batch_size=4), lab.agent(batch_size=4, prioritized=True)
    for agent in (plain, weighted):
        lab.step(agent, [1.0, 2.0], autoreset=True)
        lab.step(agent, [0.0, 1.0], reward=2.0, terminated=True)
    weighted.hyperparameters["priority_beta"] = 1.0
    assert weighted.learn(stats=True).loss == pytest.approx(plain.learn(stats=True).loss, rel=1e-6)


@pytest.mark.parametrize("num_envs", [1, 3])
def test_epsilon_schedule_counted_in_calls_not_env_steps(num_envs):
    """Nor in time steps: three envs reach its end in a third of them."""
    _, ticks = looped(num_envs=num_envs, epsilon=Linear(start=1.0, end=0.0, steps=60))
    assert len(ticks) > 60 / num_envs  # resets are time steps too
    for env_step, _, _, epsilon in ticks:
        assert epsilon == pytest.approx(max(0.0, 1 - env_step / 60))
