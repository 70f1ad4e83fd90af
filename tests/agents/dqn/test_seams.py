"""CONTRIBUTING's examples: a line in a table is all that a loss, a head or an env takes."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from pydantic import BaseModel

import targetnet.agents.dqn.memory
import targetnet.agents.dqn.policy
from targetnet.agents.config.envs import training_envs
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.heads import HEADS, LOSSES, HeadKind
from targetnet.agents.dqn.policy import Exploration
from targetnet.agents.loops.choice import LOOPS
from targetnet.agents.loops.compiled import compiled_loop
from targetnet.agents.loops.evaluation import evaluate
from targetnet.envs.in_graph import table
from targetnet.envs.in_graph.interface import EnvStep, InGraphEnv
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.losses import TdLoss, blend, squared
from targetnet.rl_core.losses.td import at_action, at_best
from targetnet.rl_core.networks import Values
from targetnet.rl_core.replay import Column, transition_columns

# No other test may be lent these agents.
pytestmark = pytest.mark.usefixtures("own_agents")


def log_cosh(td_error):
    x = tf.abs(td_error)
    return x + tf.math.softplus(-2.0 * x) - np.float32(np.log(2))


def members_head(streams, members):
    """N expectations, each learned from its own target."""

    def head(features, draws=None):
        z = streams(features, members, draws)  # [B, A, N]
        return Values(tf.reduce_mean(z, axis=2), z=z)

    return head


def members_q_learning(terms, choice):
    a_tm1, r_t, discount_t = terms.transition
    bootstrap = at_best(terms.target_t.z, choice)  # [B, N]
    target = tf.stop_gradient(r_t[:, None] + discount_t[:, None] * bootstrap)
    td_error = target - at_action(terms.online_tm1.z, a_tm1)
    loss, *rest = (tf.reduce_mean(x, axis=1) for x in (squared(td_error), target, td_error))
    return TdLoss(loss, *rest)


def mean_of_members(values):
    q, z = (tf.add_n(list(of)) / len(of) for of in zip(*(v[:3:2] for v in values), strict=True))
    return Values(q, z=z)


def blend_of_members(target, online, *weights):
    lower = online.q < target.q
    return Values(
        blend(target.q, online.q, lower, *weights), z=blend(target.z, online.z, lower, *weights)
    )


MEMBERS = HeadKind(
    build=lambda config, streams: members_head(streams, 3),
    q_loss=members_q_learning,
    munchausen_loss=None,
    priority=lambda td: tf.abs(td.td_error),
    average=mean_of_members,
    blend=blend_of_members,
)


def agent_with(lab, other, **settings):
    """An agent whose config says what its model does not know yet."""
    # A copy that pydantic does not check: the config's list of names is the second line.
    config = BaseModel.model_copy(lab.config(**settings), update=other)
    agent = DqnAgent(config, (2,), np.float32, 3)
    lab.fill(agent)
    return agent


def test_a_loss_is_a_line_in_the_table_of_losses(lab, monkeypatch):
    monkeypatch.setitem(LOSSES, "log_cosh", lambda td_error, live: log_cosh(td_error))
    agent = agent_with(lab, {"loss": "log_cosh"})
    stats = agent.learn(stats=True)
    assert stats.loss == pytest.approx(np.log(np.cosh(stats.td_error)).mean(), rel=1e-4)


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "settings",
    [
        {"prioritized": True, "averaged_targets": 2, "double": True, "noisy": True, "n_step": 3},
        pytest.param({"updates_per_learn": 4}, marks=pytest.mark.slow),
    ],
    ids=["single updates, everything", "fused updates"],
)
def test_a_head_is_a_line_in_the_table_of_heads(lab, monkeypatch, settings):
    monkeypatch.setitem(HEADS, "members", MEMBERS)
    agent = agent_with(lab, {"head": "members"}, dueling=True, **settings)
    assert agent.state.weights()["value/v/b"].shape == (3,)
    before = agent.state.weights()
    assert np.isfinite(agent.learn(4, stats=True).loss)
    assert not lab.same(agent.state.weights(), before)
    assert agent.greedy(np.zeros((5, 2), np.float32)).shape == (5,)


@pytest.fixture
def with_probability(monkeypatch):
    """A column that acting fills: an eighth of the action."""
    choose = Exploration.choose

    def declared(*shape):
        return [*transition_columns(*shape), Column("probability", tf.float32)]

    def given(self, *arguments):
        chosen = choose(self, *arguments)
        return chosen | {"probability": tf.cast(chosen["action"], tf.float32) / 8}

    monkeypatch.setattr(targetnet.agents.dqn.memory, "transition_columns", declared)
    monkeypatch.setattr(Exploration, "choose", given)
    monkeypatch.setattr(targetnet.agents.dqn.policy, "COLUMNS", ("action", "probability"))


@pytest.mark.parametrize(
    ("loop", "learn_period"),
    [
        ("plain", 8),
        pytest.param("concurrent", 1, marks=pytest.mark.slow),
        pytest.param("plain", 1, marks=pytest.mark.slow),
        pytest.param("concurrent", 8, marks=pytest.mark.slow),
    ],
)
def test_a_column_is_declared_by_the_memory_and_given_by_the_choice_of_actions(
    lab, with_probability, loop, learn_period
):
    config = lab.config(loop=loop, learn_period=learn_period, num_envs=2, env_steps=70)
    envs = training_envs(config)
    agent = DqnAgent(config, envs.observation_shape, np.float32, envs.num_actions)
    assert list(LOOPS[loop](agent, envs, None))[-1].env_step >= 70
    envs.close()
    written = agent.state.contents.written()
    stored = agent.state.contents.time_steps(written - 20, written)
    np.testing.assert_array_equal(stored["probability"], stored["action"] / np.float32(8))
    assert set(stored["action"].flat) == {0, 1}


@pytest.mark.thorough
def test_a_column_is_in_checkpoints_and_in_the_digest(lab, with_probability):
    agent = lab.agent()
    lab.fill(agent, steps=15)
    saved, rows = agent.state.read(), agent.state.contents.time_steps(0, 15)
    digest = agent.state.digest()
    agent.learn(3)
    agent.state.restore(saved, [(0, rows)])
    assert agent.state.digest() == digest
    agent.state.restore(saved, [(0, rows | {"probability": rows["probability"] + 1})])
    assert agent.state.digest() != digest


class State(NamedTuple):
    place: tf.Tensor  # [N] int32


class Corridor(InGraphEnv):
    """Fields 0 to 4; the last one pays 1 and ends the episode."""

    observation_shape = (5,)
    observation_dtype = np.float32
    num_actions = 2
    max_episode_steps = 20
    begin_draws = 1
    step_draws = 0

    def begin(self, uniform):
        return State(tf.cast(uniform[:, 0] * 3, tf.int32))

    def step(self, state, action, uniform):
        place = tf.clip_by_value(state.place + 2 * action - 1, 0, 4)
        there = tf.equal(place, 4)
        return EnvStep(State(place), tf.cast(there, tf.float32), there)

    def observe(self, state):
        return tf.one_hot(state.place, 5)


@pytest.mark.thorough
def test_an_env_in_the_graph_is_a_line_in_the_table_of_rules(lab, monkeypatch):
    entry = table.RULES["InGraph/Catch-v0"]._replace(rules=f"{__name__}:Corridor")
    monkeypatch.setitem(table.RULES, "InGraph/Corridor-v0", entry)
    spec = table.EnvSpec(
        "InGraph/Corridor-v0", table.SPECS["InGraph/Catch-v0"].entry_point,
        max_episode_steps=20, kwargs={"rules": "InGraph/Corridor-v0"},
    )  # fmt: skip
    monkeypatch.setitem(table.SPECS, "InGraph/Corridor-v0", spec)
    config = lab.config(env_id="InGraph/Corridor-v0", loop="compiled", env_steps=300)
    envs = training_envs(config)
    assert envs.observation_shape == (5,)
    agent = DqnAgent(config, (5,), np.float32, envs.num_actions, rules=envs.rules)
    ticks = list(compiled_loop(agent, envs))
    assert ticks[-1].env_step == 300 and agent.updates > 0
    assert {episode.episode_return for tick in ticks for episode in tick.episodes} == {0.0, 1.0}
    # As an ordinary env, on the same rules: always to the right, where the reward is.
    lab.put(agent, "online", {"head/q/w": np.zeros((8, 2)), "head/q/b": [0.0, 1.0]})
    assert evaluate(agent, config, episodes=3) == [1.0] * 3


def test_munchausen_is_refused_with_a_head_that_has_no_loss_of_it(lab, monkeypatch):
    monkeypatch.setitem(HEADS, "members", MEMBERS)
    with pytest.raises(ConfigError, match="head = 'members' has no loss of munchausen"):
        agent_with(lab, {"head": "members"}, munchausen=True)
