"""The concurrent loop against the same phases one after the other, and against timing."""

import functools
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import targetnet.agents.loops.concurrent
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.concurrent import concurrent_loop
from targetnet.agents.loops.plain import LearnClock, LoopState
from targetnet.envs import make_envs
from targetnet.rl_core.errors import EnvError
from tests.agents.pool import POOL
from tests.gymnasium_versions import TAXI
from tests.rl_core.replay.memories import named

SMALL = {
    "env_id": "CartPole-v1",
    "loop": "concurrent",
    "env_steps": 600,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 200,
    "learn_start": 50,
    "learn_period": 8,
    "updates_per_learn": 4,
    "learning_rate": 0.01,
    "sync_period": 30,
    "log_period": 100,
    "epsilon": {"schedule": "linear", "start": 1.0, "end": 0.1, "steps": 400},
    "past_states": 0,
    "xla": False,
}


def made(**settings):
    config = DqnConfig(**(SMALL | settings))
    envs = make_envs(config.env_id, config.num_envs, seed=config.seed)
    agent = POOL.agent(
        config,
        envs.observation_shape,
        envs.observation_dtype,
        envs.num_actions,
        action_masks=envs.has_action_masks,
    )
    return agent, envs


def train_one_after_the_other(agent, envs):
    """The definition: act through a phase, then make what was due before it, then store."""
    config, live, clock = agent.config, agent.hyperparameters, LearnClock()
    step, tick, env_step, new_steps, due = envs.reset(), 0, 0, 0, 0
    while env_step < config.env_steps:
        agent.follow()
        rows, phases, limits = [], 0, live["learn_period"]
        learn = agent.plan(due) if due else lambda: None
        while not phases and len(rows) < agent.replay.steps // 2 and env_step < config.env_steps:
            actions = agent.act(step.observation, tick, step.legal)["action"]
            shown = step.observation, actions, step.reward, step.terminated, step.autoreset
            rows.append([column.copy() for column in shown])
            if step.legal is not None:
                rows[-1].append(step.legal.copy())
            phases = clock.phases_due(new_steps, limits)
            step = envs.step(actions)
            new_steps = envs.num_envs - int(step.autoreset.sum())
            tick, env_step = tick + 1, env_step + new_steps
            live.env_step = env_step
        learn()
        agent.store(named(*map(np.stack, zip(*rows, strict=True))))
        due = phases * live["updates_per_learn"] if env_step >= config.learn_start else 0


KINDS = {
    "one env": {},
    "four envs": {"num_envs": 4},
    "four envs, prioritized, noisy": {"num_envs": 4, "prioritized": True, "noisy": True},
    "compiled, prioritized, noisy": {"prioritized": True, "noisy": True, "xla": True},
    "masks": {"env_id": TAXI, "env_steps": 300},
    "boltzmann": {"boltzmann": True, "temperature": 0.5},
    "phases longer than half the ring": {"replay_capacity": 20, "learn_period": 30},
}


FAST = ("four envs, prioritized, noisy",)


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(how, marks=() if kind in FAST else pytest.mark.slow, id=kind)
        for kind, how in KINDS.items()
    ],
)
def test_the_threads_give_the_bits_of_one_thread(pool, settings):
    agent, envs = made(**settings)
    for _ in concurrent_loop(agent, envs):
        pass
    updates, digest = agent.updates, agent.state.digest()
    pool.take_back()
    twin, its_envs = made(**settings)
    train_one_after_the_other(twin, its_envs)
    assert updates == twin.updates > 50
    assert digest == twin.state.digest()


@pytest.mark.cases(0)
@pytest.mark.parametrize("late", [pytest.param("envs", marks=pytest.mark.slow), "learner"])
def test_timing_decides_nothing(late):
    """Whoever is late by whatever time: the same digest."""
    assert digest(late) == digest(None)


@functools.cache
def digest(late):
    agent, envs = made(env_steps=200)
    rng = np.random.default_rng(0)
    parts = {"envs": (envs, "step"), "learner": (agent.learner._calls, "run")}
    with pytest.MonkeyPatch.context() as patch:
        if late:
            delay(patch, *parts[late], rng)
        for _ in concurrent_loop(agent, envs):
            pass
    found = agent.state.digest()
    POOL.take_back()
    return found


def delay(patch, part, name, rng):
    real = getattr(part, name)

    def late(*args):
        time.sleep(rng.random() * 0.004)
        return real(*args)

    patch.setattr(part, name, late)


@pytest.mark.thorough
def test_the_envs_step_once_the_learner_has_begun(monkeypatch):
    """While this thread acts, the other one may wait for milliseconds until it can begin."""
    order = []

    class Late(ThreadPoolExecutor):
        def submit(self, make):
            def late():
                time.sleep(0.01)
                order.append("begun")
                return make()

            order.append("handed over")
            return super().submit(late)

    monkeypatch.setattr(targetnet.agents.loops.concurrent, "ThreadPoolExecutor", Late)
    agent, envs = made(env_steps=150)
    step = envs.step

    def stepped(actions):
        order.append("step")
        return step(actions)

    envs.step = stepped
    for _ in concurrent_loop(agent, envs):
        pass
    after = [now for before, now in itertools.pairwise(order) if before == "handed over"]
    assert len(after) > 5
    assert set(after) == {"begun"}


def test_a_phase_acts_with_the_weights_it_began_with():
    """What is learned beside it is not seen, neither weights nor rows."""
    agent, envs = made(epsilon=0.0)
    step = envs.reset()
    agent.follow()
    before = agent.act(step.observation, 0)["action"].item()
    # The opposite of every value: the other action is the best one now.
    opposite = {n: -w if n.startswith("head") else w for n, w in agent.state.weights().items()}
    agent.state._weights.load(opposite)
    assert agent.greedy(step.observation).item() == 1 - before
    assert agent.act(step.observation, 1)["action"].item() == before
    agent.follow()
    assert agent.act(step.observation, 2)["action"].item() == 1 - before


def test_what_is_due_is_made_beside_the_next_phase():
    """Learning begins one phase later than in the plain loop, and lags by one phase."""
    agent, envs = made()
    state, seen = LoopState(next_log=100), []
    for tick in concurrent_loop(agent, envs, state):
        seen.append((tick.env_step, agent.updates, state.due_updates))
    due = [later for step, _, later in seen if step < 50]
    assert set(due) == {0}
    for (_, updates, due), (_, after, _) in itertools.pairwise(seen):
        assert after == updates + due
    assert {later for step, _, later in seen[:-1] if step >= 50} == {4}


@pytest.mark.slow
def test_a_phase_is_no_longer_than_can_be_stored_at_once():
    """Of 60 time steps 40 are burnt in: with 20 written at once rows would enter and leave."""
    agent, envs = made(
        recurrent="gru", recurrent_units=4, burn_in=40, sequence_length=5, replay_capacity=60,
        prioritized=True, learn_period=32, env_steps=200,
    )  # fmt: skip
    at = [tick.env_step for tick in concurrent_loop(agent, envs, LoopState(next_log=100))]
    assert max(np.diff([0, *at])) == 60 - 1 - 40
    tree = agent.replay.sampler._tree
    leaves, sums = agent.engine.run([tree.leaf, tree._sums])
    assert sums.max() == leaves.sum(dtype=np.float64) > 0


@pytest.mark.thorough
def test_an_env_that_raises_leaves_no_update_half_done():
    """Everything is as at the end of a run that stops there."""
    agent, envs = made()
    real, calls = envs.step, []

    def step(actions):
        calls.append(1)
        if len(calls) == 300:
            raise EnvError("the env broke")
        return real(actions)

    envs.step = step
    state = LoopState(next_log=100)
    with pytest.raises(EnvError, match="the env broke"):
        for _ in concurrent_loop(agent, envs, state):
            pass
    # In the other one the last step, which no phase has learned from, is made.
    twin, envs = made(env_steps=state.env_step + 1)
    for _ in concurrent_loop(twin, envs, LoopState(next_log=100)):
        pass
    assert agent.updates == twin.updates > 0
    assert agent.state.digest() == twin.state.digest()


@pytest.mark.thorough
def test_acting_with_numbers_drawn_ahead_changes_no_bit(pool):
    """Without the network where a step explores, or with everything in the graph."""
    digests = []
    for ahead in (True, False):
        agent, envs = made(env_steps=300, num_envs=2)
        if not ahead:
            agent.acting._buffer = None
        for _ in concurrent_loop(agent, envs):
            pass
        digests.append(agent.state.digest())
        pool.take_back()
    assert digests[0] == digests[1]
