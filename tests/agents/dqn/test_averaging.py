"""Averaged weights: the formula, by hand and update by update, and who may have them."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import train
from targetnet.rl_core.errors import StaticHyperparameter


def fed(lab, **settings):
    agent = lab.agent(**settings)
    rng = np.random.default_rng(0)
    for t in range(40):
        lab.step(agent, rng.normal(size=2), 1.0, terminated=t % 9 == 8)
    return agent


def test_the_average_begins_with_the_online_weights(lab):
    agent = lab.agent(ema_decay=0.9)
    average = agent.state.averaged_weights()
    for name, weights in agent.state.weights().items():
        np.testing.assert_array_equal(average[name], weights)


@pytest.mark.cases(1)
@pytest.mark.parametrize("settings", [{}, {"updates_per_learn": 5}], ids=["single", "fused"])
def test_every_update_moves_it_by_the_share_that_the_decay_leaves(lab, settings):
    """The formula in NumPy, along the weights of a twin that averages nothing."""
    agent, twin = fed(lab, ema_decay=0.75, **settings), fed(lab)
    wanted = twin.state.weights()
    for decay in (0.75, 0.75, 0.5, 0.0, 0.9):
        agent.hyperparameters["ema_decay"] = decay
        agent.learn(5)
        for _ in range(5):
            twin.learn()
            now = twin.state.weights()
            wanted = {n: w + np.float32(1 - decay) * (now[n] - w) for n, w in wanted.items()}
        average = agent.state.averaged_weights()
        for name, weights in wanted.items():
            np.testing.assert_allclose(average[name], weights, rtol=2e-5, atol=1e-7)


def test_averaging_changes_nothing_that_is_learned(lab):
    averaging, plain = fed(lab, ema_decay=0.9), fed(lab)
    for agent in (averaging, plain):
        agent.learn(20)
    for name, weights in plain.state.weights().items():
        np.testing.assert_array_equal(averaging.state.weights()[name], weights)


def test_a_plain_network_acts_with_the_averaged_weights(lab):
    agent, plain = fed(lab, ema_decay=0.9), lab.agent()
    agent.learn(30)
    plain.state.load_weights(agent.state.averaged_weights())
    observations = np.random.default_rng(1).normal(size=(500, 2)).astype(np.float32)
    np.testing.assert_array_equal(
        plain.greedy(observations), agent.acting.greedy_averaged(observations)
    )
    assert (agent.greedy(observations) != agent.acting.greedy_averaged(observations)).any()


def test_without_it_there_is_none_and_the_value_cannot_be_set(lab):
    agent = lab.agent()
    assert agent.state.averaged_weights() is None and agent.acting.greedy_averaged is None
    with pytest.raises(StaticHyperparameter, match="needs ema_decay > 0"):
        agent.hyperparameters["ema_decay"] = 0.9


@pytest.mark.thorough
def test_it_goes_back_with_a_rewind(lab):
    agent = fed(lab, ema_decay=0.9, past_states=1)
    agent.learn(5)
    agent.state.snapshot()
    before = agent.state.averaged_weights()
    agent.learn(5)
    agent.state.rewind()
    for name, weights in agent.state.averaged_weights().items():
        np.testing.assert_array_equal(weights, before[name])


@pytest.mark.thorough
def test_a_run_that_averages_is_repeated_bit_for_bit(tmp_path):
    config = DqnConfig(
        env_steps=400, hidden=(8,), batch_size=8, replay_capacity=300, learn_start=50,
        eval_period=200, eval_episodes=1, final_eval_episodes=1, xla=False, ema_decay=0.99,
    )  # fmt: skip

    def change(agent, tick):
        if tick.env_step == 250:
            agent.hyperparameters["ema_decay"] = 0.5

    assert repeat(train(config, tmp_path / "run", on_tick=change).run).identical
