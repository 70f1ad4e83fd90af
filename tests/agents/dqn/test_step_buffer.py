"""Rows that wait, and acting without a call for each step: the same bits as one call a step."""

from functools import partial
from threading import get_ident

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.plain import LoopState, training_loop
from targetnet.agents.run.checkpoints import Checkpoints
from targetnet.agents.saved.host import new_host
from targetnet.envs import make_envs
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.errors import FeedError
from tests.agents.pool import POOL

SMALL = {
    "env_id": "CartPole-v1",
    "env_steps": 700,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 150,
    "learn_start": 40,
    "learn_period": 12,
    "updates_per_learn": 3,
    "learning_rate": 0.01,
    "sync_period": 20,
    "epsilon": {"schedule": "linear", "start": 1.0, "end": 0.1, "steps": 400},
    "past_states": 0,
    "xla": False,
}


def made(*, waiting=True, **settings):
    """An agent and its envs; without waiting every step is one call that stores and acts."""
    config = DqnConfig(**(SMALL | settings))
    envs = make_envs(config.env_id, config.num_envs, seed=config.seed)
    agent = POOL.agent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    if not waiting:
        agent.acting._buffer = None
    return agent, envs


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.slow),  # and with a period that changes, below
        {"num_envs": 4, "learn_period": 40},
        {"prioritized": True, "n_step": 3},
        pytest.param({"replay_capacity": 20, "learn_period": 30}, marks=pytest.mark.slow),
        pytest.param({"learn_period": 200, "updates_per_learn": 40}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_waiting_rows_change_no_bit(pool, settings):
    digests, waited = [], []
    for waiting in (True, False):
        agent, envs = made(waiting=waiting, **settings)
        for _ in training_loop(agent, envs):
            waited.append(waiting and agent.acting._buffer.count)
        digests.append(agent.state.digest())
        pool.take_back()
    assert max(waited) > 2
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_a_period_that_is_changed_live_changes_the_way_and_no_bit(pool):
    digests = []
    for waiting in (True, False):
        agent, envs = made(waiting=waiting)
        for tick in training_loop(agent, envs):
            if tick.env_step in (100, 200, 300):
                agent.hyperparameters["learn_period"] = {100: 1, 200: 25, 300: 2}[tick.env_step]
        digests.append(agent.state.digest())
        pool.take_back()
    assert digests[0] == digests[1]


@pytest.mark.cases(0)
@pytest.mark.parametrize("look", ["digest", "state", "rows", "contents"])
def test_whoever_looks_at_the_replay_sees_all_rows(look):
    agent, envs = made()
    loop = training_loop(agent, envs)
    for _ in range(90):
        next(loop)
    assert agent.acting._buffer.count > 0
    seen = {
        "digest": agent.state.digest,
        "state": lambda: agent.state.read().variables["replay/rows_written"].item(),
        "rows": agent.rows,
        "contents": agent.state.contents.written,
    }[look]()
    assert agent.acting._buffer.count == 0
    twin, envs = made(waiting=False)
    loop = training_loop(twin, envs)
    for _ in range(90):
        next(loop)
    if look == "digest":
        assert seen == twin.state.digest()
    elif look == "rows":
        assert seen == twin.rows()
    else:
        assert seen == 90


def test_no_other_thread_stores_what_waits(pool, tmp_path):
    """A checkpoint's writer reads rows while the loop's thread adds some."""
    digests, threads = [], set()

    def noting(store, *rows):
        threads.add(get_ident())
        store(*rows)

    for often in (True, False):
        agent, envs = made(checkpoint_seconds=0)
        checkpoints = Checkpoints(
            agent, CheckpointStore(tmp_path / str(often)), pytest.fail, stored_at_once=64
        )
        agent.acting._write = partial(noting, agent.acting._write)
        for tick in training_loop(agent, envs):
            if often and tick.env_step % 50 == 5:
                checkpoints.take(tick.env_step, tick.env_step, new_host(agent.config), must=True)
        checkpoints.finish()
        digests.append(agent.state.digest())
        pool.take_back()
    assert threads == {get_ident()}
    assert digests[0] == digests[1]


@pytest.mark.thorough
def test_the_first_checkpoint_makes_the_calls_of_all(own_agents, tmp_path):
    """Making them takes as long as a thousand updates, so no run waits for them at its start."""
    agent, envs = made(checkpoint_seconds=0)
    at_first = set(agent.engine._raw)
    checkpoints = Checkpoints(agent, CheckpointStore(tmp_path), pytest.fail)
    assert set(agent.engine._raw) == at_first
    made_by_then = []
    for tick in training_loop(agent, envs):
        if tick.env_step in (150, 160, 170):
            host = new_host(agent.config)
            checkpoints.take(tick.env_step, tick.env_step, host, must=True)
            made_by_then.append(set(agent.engine._raw))
    checkpoints.finish()
    assert made_by_then[0] > at_first and made_by_then[1:] == made_by_then[:1] * 2


def test_rows_that_waited_are_dropped_when_another_state_is_restored():
    agent, envs = made()
    loop = training_loop(agent, envs)
    for _ in range(60):
        next(loop)
    state = agent.state.read()
    rows = [(0, agent.state.contents.time_steps(0, 60))]
    digest = agent.state.digest()
    for _ in range(30):
        next(loop)
    assert agent.acting._buffer.count > 0
    agent.state.restore(state, rows)
    assert agent.state.digest() == digest


@pytest.mark.cases(1)
@pytest.mark.parametrize("period", [12, 1], ids=["waiting", "each one stored"])
def test_a_time_step_that_is_refused_is_not_counted(pool, period):
    """Neither stored nor counted: the random numbers of the next one stay its own."""
    digests = []
    for refused in (True, False):
        agent, envs = made(learn_period=period, epsilon=1.0, learn_start=10_000, env_steps=50)
        for tick in training_loop(agent, envs):
            if refused and tick.env_step == 20:
                shown = tick.step.observation.astype(np.float64)
                with pytest.raises(FeedError, match="observation must be float32"):
                    agent.step(shown, tick.step.reward, tick.step.terminated, tick.step.autoreset)
            if tick.env_step == 25:
                agent.hyperparameters["learn_period"] = 12
        digests.append(agent.state.digest())
        pool.take_back()
    assert digests[0] == digests[1]


@pytest.mark.thorough
def test_a_step_that_explores_asks_no_network():
    agent, envs = made(epsilon=1.0)
    agent.acting.greedy = None
    state = LoopState(next_log=10_000)
    for _ in training_loop(agent, envs, state):
        if state.env_step == 300:
            break
    agent, envs = made(epsilon=0.0)
    asked, greedy = [], agent.acting.greedy
    agent.acting.greedy = lambda observation: asked.append(1) or greedy(observation)
    loop = training_loop(agent, envs)
    for _ in range(120):
        next(loop)
    assert len(asked) > 50


def test_the_actions_are_as_random_as_epsilon_says():
    agent, envs = made(env_steps=4_000, epsilon=0.25, learn_start=10_000)
    taken = []
    for tick in training_loop(agent, envs):
        greedy = agent.greedy(tick.step.observation)
        taken.append((tick.actions, greedy))
    # The greedy action is of the next observation: compare a step's with the one before it.
    same = np.mean([a == g for (a, _), (_, g) in zip(taken[1:], taken[:-1], strict=True)])
    assert abs(same - (0.75 + 0.25 / 2)) < 0.03
