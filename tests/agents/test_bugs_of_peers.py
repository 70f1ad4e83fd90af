"""One test for each well-known mistake of DQN implementations, by its name.

Each is looked for where a user would meet it: in a loop over envs, or in an agent's weights.
"""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.plain import training_loop
from targetnet.envs import make_envs
from targetnet.rl_core import Engine, Stream, copy_vars
from targetnet.rl_core.schedules import Linear
from tests.agents.pool import POOL
from tests.rl_core.replay.memories import named, uniform


class Marks(gym.Env):
    """Shows (episode's mark, time); ends at time 3, by termination or, if asked, truncation.

    Uneven episodes end at time 2, 3 or 4, as their marks say.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, truncates=False, uneven=False):
        self.truncates, self.uneven = truncates, uneven

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.mark, self.time = float(self.np_random.integers(1_000)), 0
        return self.shown(), {}

    def step(self, action):
        self.time += 1
        ends = self.time == (2 + self.mark % 3 if self.uneven else 3)
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


def begun(steps=60, num_envs=1, **settings):
    """An agent and its envs, before a loop over Marks."""
    config = DqnConfig(
        env_id="Marks-v0", num_envs=num_envs, env_steps=steps, hidden=(4,), batch_size=8,
        replay_capacity=120, xla=False,
        **{"learn_period": 1, "updates_per_learn": 1, "learn_start": 0, "epsilon": 1.0} | settings,
    )  # fmt: skip
    envs = make_envs(config.env_id, num_envs, seed=config.seed, env_kwargs=config.env_kwargs)
    agent = POOL.agent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    return agent, envs


def looped(**settings):
    """An agent after the loop; of each tick: env step, updates, target age, epsilon."""
    agent, envs = begun(**settings)
    ticks = [
        (tick.env_step, agent.updates, agent.inspect().target_age, agent.hyperparameters["epsilon"])
        for tick in training_loop(agent, envs)
    ]
    return agent, ticks


@pytest.fixture(scope="module", params=[1, 3], ids=["1 env", "3 envs"])
def sampled(request):
    """What a replay gives that was filled from envs whose episodes are truncated one by one."""
    how = {"truncates": True, "uneven": True}
    envs = make_envs("Marks-v0", request.param, seed=0, env_kwargs=how)
    engine = Engine()
    with engine.building():
        replay = uniform(90, request.param, (2,), np.float32)
        feeds = [
            tf.placeholder(kind, [request.param, *shape])
            for kind, shape in [(tf.float32, [2]), (tf.float32, []), (tf.bool, []), (tf.bool, [])]
        ]
        action = tf.zeros([request.param], tf.int32)
        write = replay.write(named(feeds[0], action, *feeds[1:]))
        counter = tf.placeholder(tf.int64, [])
        batch = replay.sample(64, Stream(0, "sample"), counter)
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
    _, s_t, _, discount_t = sampled
    assert (s_t[:, 1] == 2 + s_t[:, 0] % 3).any() and (discount_t == 0.5).all()


def test_wrong_next_observation_with_memory_saving_and_truncation(sampled):
    """Each observation is stored once; the one after the last step is not the next episode's."""
    s_tm1, s_t, _, _ = sampled
    np.testing.assert_array_equal(s_t, np.add(s_tm1, [0, 1]))


def test_pseudo_step_of_the_autoreset_learned_from(sampled):
    """From the final observation to the first one of the next episode nothing was done."""
    s_tm1, _, r_t, _ = sampled
    assert set(s_tm1[:, 1]) == {0, 1, 2, 3} and (s_tm1[:, 1] < 2 + s_tm1[:, 0] % 3).all()
    np.testing.assert_array_equal(r_t, s_tm1[:, 1] + 1)


def test_target_never_moves(lab):
    agent, envs = begun(steps=20, sync_period=6)
    begin = lab.weights(agent, "target")
    for _ in training_loop(agent, envs):
        pass
    assert agent.updates > 6
    assert not lab.same(lab.weights(agent, "target"), begin)
    assert not lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))


def test_target_synced_to_an_unrelated_start(lab):
    agent = lab.agent(averaged_targets=2)
    for scope in ("target", "past_target/0"):
        assert lab.same(lab.weights(agent, scope), lab.weights(agent, "online"))


@pytest.mark.thorough
def test_interval_divided_by_the_number_of_envs_in_place():
    """With 3 envs the target is still copied every 7 updates, and the config still says 7."""
    agent, ticks = looped(num_envs=3, sync_period=7, updates_per_learn=1)
    assert agent.config.sync_period == agent.hyperparameters["sync_period"] == 7
    assert [age for _, updates, age, _ in ticks if updates] == [u % 7 for _, u, _, _ in ticks if u]


@pytest.mark.thorough
def test_sync_tested_inside_the_learn_test():
    """Learning every 4 env steps, a copy every 6 updates: not every 6 env steps where it learns.

    These would be every 12 env steps, or 3 updates; without a common divisor of the periods one
    could not tell.
    """
    _, ticks = looped(learn_period=4, sync_period=6)
    assert ticks[-1][1] > 12
    assert {(updates, age) for _, updates, age, _ in ticks} == {
        (u, u % 6) for u in range(ticks[-1][1] + 1)
    }


def test_pairing_by_sorted_names(evaluate):
    """Both orders of building differ, and both from the sorted one: layer_1, layer_10, layer_2."""
    for scope, order in (("online", [1, 2, 10]), ("target", [10, 2, 1])):
        with tf.variable_scope(scope):
            for i in order:
                tf.get_variable(
                    f"layer_{i}", initializer=tf.fill([2], 1.0 * i * (scope == "online"))
                )
    evaluate(copy_vars("online", "target"))
    with tf.variable_scope("target", reuse=True):
        copies = [tf.get_variable(f"layer_{i}", [2]) for i in (1, 2, 10)]
    np.testing.assert_array_equal(evaluate(copies), [[1, 1], [2, 2], [10, 10]])


@pytest.mark.thorough
def test_seed_ignored(lab):
    """Of weights, of exploration, of the envs and of batches."""
    agents, weights = [], []
    for seed in (0, 0, 1):
        agent, envs = begun(seed=seed)
        weights.append(agent.state.weights())
        for _ in training_loop(agent, envs):
            pass
        agents.append(agent)
    assert agents[0].state.digest() == agents[1].state.digest() != agents[2].state.digest()
    rows = [agent.state.contents.time_steps(0, 40) for agent in agents]
    seen = [[w["torso/dense_0/w"], w["head/q/w"]] for w in weights]
    for of_agent, r in zip(seen, rows, strict=True):
        of_agent += [r["observation"], r["action"]]
    # Batches last: of the same rows, whatever the seed that they came from.
    state, rows = agents[0].state.read(), [(0, agents[0].state.contents.time_steps(0, 60))]
    for of_agent, agent in zip(seen, agents, strict=True):
        agent.state.restore(state, rows)
        of_agent.append(agent.learn(stats=True).td_error)
    for first, again, other in zip(*seen, strict=True):
        assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.cases(1)
@pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])
def test_a_live_learning_rate_overwritten(updates):
    """By the config's schedule, at the next update."""
    schedule = Linear(start=1e-2, end=1e-3, steps=100)
    agent, envs = begun(steps=40, learning_rate=schedule, updates_per_learn=updates)
    moved = []
    for tick in training_loop(agent, envs):
        if tick.env_step == 20:
            agent.hyperparameters["learning_rate"] = 1e-20
            before = agent.state.weights()["head/q/w"].copy()
        if tick.env_step > 20:
            moved.append(not np.array_equal(agent.state.weights()["head/q/w"], before))
    assert len(moved) >= 20 and not any(moved)
    assert agent.hyperparameters["learning_rate"] == 1e-20


def test_importance_weights_not_normalised(lab):
    """The largest is 1, so that beta scales losses only down: smallest priority / own priority."""
    agent = lab.agent(
        prioritized=True, priority_alpha=1.0, priority_beta=1.0, loss="squared", learning_rate=1e-12
    )
    zeros = {n: np.zeros_like(v) for n, v in lab.weights(agent, "online").items()}
    agent.state.load_weights(zeros)  # all values are 0: a TD error is the reward
    for i, reward in enumerate([0.0, 2.0, 4.0, 8.0]):
        lab.step(agent, [i, 1.0], reward=reward, autoreset=i == 0)
    alike = agent.learn(stats=True)  # new rows have one priority
    assert alike.loss == pytest.approx(np.mean(alike.td_error**2) / 2, rel=1e-4)
    weighted = agent.learn(stats=True)  # weights 2/2, 2/4 and 2/8
    assert {*alike.td_error.round(3)} == {*weighted.td_error.round(3)} == {2, 4, 8}
    by_hand = np.mean(2 / weighted.td_error * weighted.td_error**2) / 2
    assert weighted.loss == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.cases(1)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_epsilon_schedule_counted_in_calls_not_env_steps(num_envs):
    """Nor in time steps: three envs reach its end in a third of them, and are greedy from then."""
    schedule = Linear(start=1.0, end=0.0, steps=60)
    agent, ticks = looped(steps=80, num_envs=num_envs, learn_start=1_000, epsilon=schedule)
    for env_step, _, _, epsilon in ticks:
        assert epsilon == pytest.approx(max(0.0, 1 - env_step / 60))
    assert len(ticks) > 80 / num_envs  # resets are time steps too
    rows = agent.state.contents.time_steps(0, len(ticks))
    begun_at = [0, *(env_step for env_step, *_ in ticks[:-1])]
    pairs = zip(rows["action"], rows["observation"], strict=True)
    greedy = [
        (env_step, np.array_equal(actions, agent.greedy(shown)))
        for env_step, (actions, shown) in zip(begun_at, pairs, strict=True)
    ]
    assert sum(env_step >= 60 for env_step, _ in greedy) > 5
    assert all(best for env_step, best in greedy if env_step >= 60)
    assert not all(best for _, best in greedy)
