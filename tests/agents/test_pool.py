"""An agent that is lent to a second test is the one that it asked for; two in one test are two."""

import pytest

from targetnet.agents.run.train import train
from targetnet.rl_core.schedules import Linear
from tests.agents.pool import POOL, Pool

LONG = {"hidden": (5,), "past_states": 2}  # no other test has agents of this form


@pytest.fixture
def lending():
    pool = Pool()
    with pool.open():
        yield pool


def made(lending, lab, **settings):
    return lending.agent(lab.config(**settings), (2,), "float32", 3)


def test_one_that_is_lent_again_has_the_values_and_the_bits_of_its_config(lending, lab):
    first = made(lending, lab)
    lab.fill(first)
    first.learn(3)
    lending.take_back()
    other = {
        "seed": 7, "discount": 0.5, "epsilon": Linear(start=1.0, end=0.5, steps=90),
        "huber_delta": 0.1, "sync_period": 3, "learning_rate": 0.1, "env_steps": 9,
    }  # fmt: skip
    again = made(lending, lab, **other)
    assert again is first and (lending.built, lending.lent_again) == (1, 1)
    assert again.config == lab.config(**other) and again.hyperparameters["discount"] == 0.5
    with lending.open(False):
        fresh = made(lending, lab, **other)
    for agent in (again, fresh):
        lab.fill(agent)
        agent.learn(3)
    assert again.state.digest() == fresh.state.digest()


def test_two_agents_in_one_test_are_two_and_so_are_two_of_different_forms(lending, lab):
    first, second = made(lending, lab), made(lending, lab)
    assert first.engine is not second.engine and lending.built == 2
    lending.take_back()
    assert made(lending, lab, batch_size=4).engine not in (first.engine, second.engine)


def test_the_agent_of_a_run_is_free_when_the_run_has_ended(lab, tmp_path):
    config, built = lab.config(env_steps=60, final_eval_episodes=1, **LONG), POOL.built
    digests = [train(config, tmp_path / name).digest for name in "ab"]
    assert POOL.built == built + 1 and digests[0] == digests[1]
