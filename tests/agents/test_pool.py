"""An agent that is lent to a second test is as good as new; two in one test are two."""

import copy

import numpy as np
import pytest

from targetnet.agents.run.train import train
from targetnet.rl_core.replay import UniformSampler
from tests.agents.pool import Pool

KINDS = {
    "plain": {},
    "prioritized, freezing": {
        "prioritized": True, "n_step": 3,
        "freeze": [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}],
    },
    "noisy, averaged, loops": {
        "noisy": True, "averaged_targets": 2, "updates_per_learn": 3, "ema_decay": 0.9,
    },
    "waiting rows": {"learn_period": 20},
}  # fmt: skip

FAST = ("prioritized, freezing",)


@pytest.fixture
def lending(own_agents, monkeypatch):
    pool = Pool()
    pool.install(monkeypatch)
    with pool.open():
        yield pool


def life(lab, agent):
    """What an agent does in a test, and what can be told of it afterwards."""
    seen = [
        agent.state.digest(),
        agent.updates,
        agent.hyperparameters.env_step,
        agent.learner.target_age,
    ]
    actions = np.concatenate(lab.fill(agent, 70)).tolist()
    for number in range(6):
        agent.learn(1 + number % 4)
        agent.state.snapshot()
    agent.hyperparameters["sync_period"] = 2
    agent.hyperparameters["epsilon"] = 0.0
    agent.hyperparameters.env_step = 99
    agent.learn(3)
    agent.state.rewind(2)
    actions += np.concatenate(lab.fill(agent, 9)).tolist()
    return [*seen, actions, agent.state.digest(), agent.inspect(), agent.state.snapshots]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(how, id=kind, marks=() if kind in FAST else pytest.mark.slow)
        for kind, how in KINDS.items()
    ],
)
def test_an_agent_that_is_lent_again_lives_the_same_life(lending, lab, settings):
    settings = {"past_states": 2} | settings
    first = life(lab, lab.agent(**settings))
    lending.take_back()
    again = lab.agent(**settings)
    again.acting.store, again.anything, again.learner._calls._singles["x"] = None, 1, 2
    lending.take_back()
    third = lab.agent(**settings)
    assert (lending.built, lending.lent_again) == (1, 2)
    assert not hasattr(third, "anything") and third.acting.store is not None
    assert life(lab, third) == first
    with lending.open(False):
        assert life(lab, lab.agent(**settings)) == first


@pytest.mark.slow
def test_one_that_is_lent_has_the_values_of_the_config_that_was_asked_for(lending, lab):
    lab.agent(past_states=2)
    lending.take_back()
    epsilon = {"schedule": "linear", "start": 1.0, "end": 0.5, "steps": 90}
    other = {
        "past_states": 2, "discount": 0.5, "epsilon": epsilon, "huber_delta": 0.1, "tau": 0.5,
        "learning_rate": 0.1, "max_grad_norm": 0.5, "sync_period": 3, "env_steps": 9,
        "learn_start": 20, "histograms": 7, "controller": "copy_when_fit", "controller_period": 50,
    }  # fmt: skip
    agent = lab.agent(**other)
    assert (lending.built, lending.lent_again) == (1, 1) and agent.config == lab.config(**other)
    lived = life(lab, agent)
    assert agent.hyperparameters["discount"] == 0.5
    with lending.open(False):
        assert life(lab, lab.agent(**other)) == lived
    lending.take_back()
    assert life(lab, lab.agent(past_states=2)) != lived


@pytest.mark.thorough
def test_the_agent_of_a_run_is_free_when_the_run_has_ended(lending, lab, tmp_path):
    config = lab.config(env_steps=60, final_eval_episodes=1)
    digests = [train(config, tmp_path / name).digest for name in "ab"]
    assert (lending.built, lending.lent_again) == (1, 1) and digests[0] == digests[1]


@pytest.mark.slow
def test_where_something_that_builds_was_replaced_the_agent_is_built(lending, lab, monkeypatch):
    lab.agent()
    lending.take_back()
    with monkeypatch.context() as patch:
        patch.setattr("targetnet.rl_core.losses.td.squared", lambda td_error: td_error)
        lab.agent()
    with monkeypatch.context() as patch:
        patch.setattr("targetnet.rl_core.replay.UniformSampler.rebuild", lambda sampler: None)
        lab.agent()
    assert (lending.built, lending.lent_again) == (1, 0)
    lab.agent()
    assert (lending.built, lending.lent_again) == (1, 1)


@pytest.mark.parametrize(
    ("added", "look"),
    [
        ("__annotations__", lambda: UniformSampler.__annotations__),
        ("__slotnames__", lambda: copy.copy(object.__new__(UniformSampler))),
    ],
    ids=["annotations", "copy"],
)
def test_what_python_adds_to_a_class_by_itself_replaces_nothing(lending, lab, added, look):
    """Every agent after that was built anew, which made the tests of CI half as slow again."""
    lab.agent()
    lending.take_back()
    if added in vars(UniformSampler):
        delattr(UniformSampler, added)
    look()
    assert added in vars(UniformSampler)
    lab.agent()
    assert (lending.built, lending.lent_again) == (1, 1)


@pytest.mark.thorough
def test_two_agents_in_one_test_are_two(lending, lab):
    first, second = lab.agent(), lab.agent()
    assert first.engine is not second.engine and lending.built == 2
    lending.take_back()
    assert lab.agent(seed=1).engine not in (first.engine, second.engine)
