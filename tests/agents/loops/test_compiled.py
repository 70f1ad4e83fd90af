"""The compiled loop against the same loop written out in Python, and against itself."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.compiled import compiled_loop
from targetnet.agents.loops.plain import LearnClock, LoopState
from targetnet.agents.run.train import train
from targetnet.envs.in_graph.resident import ResidentEnvs
from targetnet.envs.in_graph.table import make_rules
from targetnet.rl_core import Engine
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.records import read_trace
from targetnet.rl_core.digest import checksums
from targetnet.rl_core.errors import EnvError
from targetnet.rl_core.random import Draws
from tests.agents.pool import POOL
from tests.rl_core.replay.memories import named

SMALL = {
    "env_id": "InGraph/CartPole-v1",
    "loop": "compiled",
    "chunk": 50,
    "env_steps": 400,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 300,
    "learn_start": 50,
    "learn_period": 3,
    "updates_per_learn": 2,
    "learning_rate": 0.01,
    "sync_period": 17,
    "log_period": 100,
    "eval_period": 10_000,
    "final_eval_episodes": 1,
    "epsilon": 0.3,
    "xla": False,
}


def made(**settings):
    config = DqnConfig(**(SMALL | settings))
    rules = make_rules(config.env_id)
    envs = ResidentEnvs(config.env_id, rules, config.num_envs)
    agent = POOL.agent(
        config, envs.observation_shape, envs.observation_dtype, envs.num_actions, rules=rules
    )
    return agent, envs


def rows_of(agent):
    """Column -> all that the replay holds of it."""
    columns = {}
    for name, array in agent.state.contents.chunks():
        columns.setdefault(name, []).append(array)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


class Twin:
    """Rules, and random numbers of the run, one time step at a time."""

    def __init__(self, config):
        rules, N = make_rules(config.env_id), config.num_envs
        self.engine = Engine()
        with self.engine.building():
            counter = tf.placeholder(tf.int64, [1])
            action = tf.placeholder(tf.int32, [N])
            draws = Draws(config.seed, "envs", counter)
            uniform = draws.uniform("draws", [N, max(rules.begin_draws, rules.step_draws)])
            first = rules.begin(uniform[:, : rules.begin_draws])
            state = tf2.nest.map_structure(lambda t: tf.placeholder(t.dtype, t.shape), first)
            moved = rules.step(state, action, uniform[:, : rules.step_draws])
            coin, die = tf.unstack(Draws(config.seed, "act", counter).uniform("act", [2, N]))
            observation = rules.observe(state)
            # What a step leaves as it was would be both fed and fetched.
            led_to = [tf.identity(t) for t in (*moved.state, *moved[1:])]
        self.engine.start()
        call, flat = self.engine.callable, tf2.nest.flatten
        self.begin = call(list(first), [counter])
        self.step = call(led_to, [counter, *flat(state), action])
        self.observe = call(observation, flat(state))
        self.random = call((coin, die), [counter])
        self.limit = rules.max_episode_steps


def train_step_by_step(config):
    """What the loop in the graph stands for: one Python statement for each thing it does."""
    config = config.model_copy(update={"loop": "plain"})
    rules = make_rules(config.env_id)
    agent = DqnAgent(config, rules.observation_shape, rules.observation_dtype, rules.num_actions)
    twin, clock, N = Twin(config), LearnClock(), config.num_envs
    rollout = config.rollout
    state = twin.begin(np.zeros(1, np.int64))
    reward, terminated = np.zeros(N, np.float32), np.zeros(N, bool)
    autoreset, ended = np.ones(N, bool), np.zeros(N, bool)
    length, env_step, new_steps, episodes = np.zeros(N, int), 0, 0, []
    for t in itertools.count():
        if env_step >= config.env_steps:
            return agent, episodes, t
        observation = twin.observe(*state)
        coin, die = twin.random(np.array([t]))
        random = (die * rules.num_actions).astype(np.int32)
        action = np.where(coin < np.float32(config.epsilon), random, agent.greedy(observation))
        row = observation, action.astype(np.int32), reward, terminated, autoreset
        agent.store(named(*(np.array(column)[None] for column in row)))
        if rollout:
            if t and t % rollout == 0:
                agent.learn(config.updates_per_rollout)
        elif (phases := clock.phases_due(new_steps, config.learn_period)) and (
            env_step >= config.learn_start
        ):
            agent.learn(phases * config.updates_per_learn)
        counter = np.array([t + 1])
        fresh, *rest = twin.begin(counter), *twin.step(counter, *state, row[1])
        *moved, reward, terminated = rest
        begins = ended
        state = [
            np.where(begins.reshape(-1, *[1] * (new.ndim - 1)), new, old)
            for new, old in zip(fresh, moved, strict=True)
        ]
        reward = np.where(begins, 0, reward).astype(np.float32)
        terminated, autoreset = terminated & ~begins, begins
        length = np.where(begins, 0, length + 1)
        ended = terminated | (length >= (twin.limit or np.inf))
        new_steps = int((~autoreset).sum())
        env_step += new_steps
        episodes += [(e, int(length[e]), env_step) for e in np.flatnonzero(ended)]


# Without the keys of a replay and of a target network.
ROLLOUTS = {
    name: DqnConfig.model_fields[name].default
    for name in ("replay_capacity", "learn_start", "learn_period", "updates_per_learn",
                 "sync_period")
} | {"rollout": 20, "num_envs": 2, "epochs": 3, "batch_size": 8, "layer_norm": True}  # fmt: skip
KINDS = {
    "one env": {},
    "four envs": {"num_envs": 4},
    "compiled by XLA": {"xla": True},
    "compiled by XLA, four envs, several phases a step": {
        "xla": True, "num_envs": 4, "learn_period": 2, "env_steps": 300,
    },
    "arms of a freeze schedule": {
        "freeze": [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}],
    },
    "three steps, dueling, double, clipped": {
        "n_step": 3, "dueling": True, "double": True, "max_grad_norm": 0.5,
    },
    "truncated": {"env_id": "InGraph/MountainCar-v0", "env_steps": 450},
    "truncated, arms of a freeze schedule": {
        "env_id": "InGraph/MountainCar-v0", "env_steps": 450,
        "freeze": [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}],
    },
    "fractions with a loss of their own, arms of a freeze schedule": {
        "head": "fqf", "fractions": 4, "fraction_learning_rate": 0.01, "learning_rate": 1e-3,
        "loss": "huber",
        "freeze": [{"exempt": ["fractions"], "updates": 7}, {"exempt": ["torso"], "updates": 5}],
    },
    "copies by a rule": {
        "sync_growth": 0.2, "sync_fit": 0.9, "sync_fit_updates": 5, "sync_distance": 0.3,
    },
    "another game": {"env_id": "InGraph/Catch-v0"},
    "rollouts": ROLLOUTS,
    "rollouts, compiled by XLA": ROLLOUTS | {"xla": True},
    "rollouts, plain operations, truncated": ROLLOUTS | {
        "env_id": "InGraph/MountainCar-v0", "env_steps": 900,
    },
}  # fmt: skip


FAST = ("compiled by XLA", "rollouts")


def slower(kinds, *fast):
    """`fast` in the default run, the other kinds in the slow one."""
    return [
        pytest.param(how, marks=() if kind in fast else pytest.mark.slow, id=kind)
        for kind, how in kinds.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("settings", slower(KINDS, *FAST))
def test_it_is_the_loop_written_out(settings):
    agent, envs = made(**settings)
    state, episodes = LoopState(next_log=100), []
    for tick in compiled_loop(agent, envs, state):
        episodes += [
            (e.env, e.length, at) for e, at in zip(tick.episodes, tick.ended_at, strict=True)
        ]
    twin, its_episodes, time_steps = train_step_by_step(agent.config)
    assert (state.tick, episodes) == (time_steps, its_episodes)
    assert len(episodes) > 1
    assert agent.updates == twin.updates > 100
    assert agent.inspect().target_age == twin.inspect().target_age
    assert agent.learner.freeze.position == twin.learner.freeze.position
    for name, column in rows_of(twin).items():
        np.testing.assert_allclose(rows_of(agent)[name], column, rtol=1e-5, err_msg=name)
    for name, weights in twin.state.weights().items():
        np.testing.assert_allclose(
            agent.state.weights()[name], weights, rtol=2e-3, atol=2e-4, err_msg=name
        )


MORE_KINDS = {
    "plain": {},
    "prioritized, four envs": {"prioritized": True, "num_envs": 4},
    "noisy, boltzmann": {"noisy": True, "boltzmann": True, "temperature": 0.5},
    "quantiles": {"head": "quantile", "quantiles": 5, "env_id": "InGraph/Acrobot-v1"},
}


@functools.cache
def digest(kind, seed):
    agent, envs = made(seed=seed, **MORE_KINDS[kind])
    list(compiled_loop(agent, envs))
    return agent.state.digest()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", slower({k: k for k in MORE_KINDS}, "prioritized, four envs"))
def test_whatever_the_chunks_end_the_digest_is_the_same(pool, kind):
    """Chunks of 50 time steps; and the same loop left and entered again after each of them."""
    agent, envs = made(**MORE_KINDS[kind])
    state = LoopState(next_log=100)
    while state.env_step < agent.config.env_steps:
        next(compiled_loop(agent, envs, state))
    entered_again = agent.state.digest()
    pool.take_back()
    assert entered_again == digest(kind, seed=0)


@pytest.mark.slow  # in the default run it is asked of an agent without a loop
@pytest.mark.parametrize("kind", MORE_KINDS)
def test_another_seed_is_another_digest(kind):
    assert digest(kind, seed=1) != digest(kind, seed=0)


@pytest.mark.thorough
def test_returns_and_rows_are_what_the_env_gave():
    agent, envs = made(reward_scale=3.0, reward_clip=2.0)
    ticks = list(compiled_loop(agent, envs))
    episodes = [e for tick in ticks for e in tick.episodes]
    assert [e.number for e in episodes] == list(range(len(episodes)))
    for episode in episodes:
        assert episode.episode_return == episode.length  # CartPole pays 1 a step
    rows = rows_of(agent)
    assert set(rows["reward"][~rows["autoreset"]].tolist()) == {1.0}


@pytest.mark.thorough
def test_what_is_set_between_two_chunks_holds_for_the_next_one():
    agent, envs = made(env_steps=2_000)
    live, loop = agent.hyperparameters, compiled_loop(agent, envs)
    live["epsilon"] = 1.0
    next(loop), next(loop), next(loop)
    live["exempt"] = "torso"
    before = {name: weights.copy() for name, weights in agent.state.weights().items()}
    next(loop)
    for name, weights in agent.state.weights().items():
        assert (weights == before[name]).all() == name.startswith("torso/")
    live["exempt"] = "auto"
    live["sync_period"] = 1_000_000
    age = agent.inspect().target_age
    updates = agent.updates
    next(loop)
    assert agent.inspect().target_age == age + agent.updates - updates > 17
    live["learn_period"] = 1_000_000
    updates = agent.updates
    next(loop), next(loop)
    assert agent.updates == updates
    live["epsilon"] = 0.0
    before = agent.state.contents.written()
    next(loop)
    rows = agent.state.contents.time_steps(before, agent.state.contents.written())
    assert (rows["action"][:, 0] == agent.greedy(rows["observation"][:, 0])).all()


@pytest.mark.thorough
def test_python_knows_the_targets_age_after_each_chunk_and_in_which_it_was_copied():
    agent, envs = made(env_steps=2_000, sync_period=40)
    copied, updates = [], 0
    for number, tick in enumerate(compiled_loop(agent, envs)):
        assert agent.learner.clock.age_in_python == agent.inspect().target_age
        if agent.updates // 40 > updates // 40 and number < 5:
            copied.append((tick.env_step, 40))
        updates = agent.updates
        if number == 5:
            agent.hyperparameters["sync_period"] = 1  # in the next chunk: many copies
        if number == 6:
            copied.append((tick.env_step, 1))
            agent.hyperparameters["sync_period"] = 10_000
        if number == 10:
            break
    assert len(copied) > 3
    assert [copy for copy in agent.learner.clock.syncs if copy.age in (1, 40)] == copied


@pytest.mark.thorough
def test_the_graph_does_not_grow_and_a_rewind_leaves_the_envs_where_they_are():
    agent, envs = made(env_steps=2_000)
    loop = compiled_loop(agent, envs)
    next(loop), next(loop)
    operations = len(agent.engine.graph.get_operations())
    agent.state.snapshot()
    next(loop)
    state = agent.engine.run(tf2.nest.flatten(agent.chunks.envs.variables))
    agent.state.rewind()
    for before, after in zip(
        state, agent.engine.run(tf2.nest.flatten(agent.chunks.envs.variables)), strict=True
    ):
        np.testing.assert_array_equal(after, before)
    next(loop)
    assert len(agent.engine.graph.get_operations()) == operations


@pytest.mark.thorough
def test_the_trace_of_a_chunk_that_is_longer_than_the_ring_is_that_of_its_rows(tmp_path):
    """The graph's checksums beside those in NumPy of the rows, which a longer ring still has."""
    small = SMALL | {"num_envs": 3, "env_steps": 900, "learn_start": 10_000, "chunk": 1_000}
    traces, contents = [], {}
    for steps in (20, 1_000):

        def read(agent, tick, steps=steps):
            contents[steps] = agent.state.contents.time_steps(max(0, 301 - steps), 301)

        path = tmp_path / str(steps)
        train(DqnConfig(**small | {"replay_capacity": 3 * steps}), path, on_tick=read)
        traces.append(read_trace(ControlFiles(path).trace))
    wanted = checksums([*contents[1_000].values()])[:-1]  # the outcome of the last is not there
    assert len(wanted) == 300
    for trace in traces:
        np.testing.assert_array_equal(trace[:300], wanted)


def test_an_env_that_is_not_in_the_graph_is_named(tmp_path):
    config = DqnConfig(**(SMALL | {"env_id": "CartPole-v1"}))
    with pytest.raises(EnvError, match=r"no env 'CartPole-v1' in the graph.*InGraph/CartPole-v1"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
