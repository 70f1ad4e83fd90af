"""Demonstrations in an update: which rows are such, their margin, the bonus of their priorities."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.dqn.objective import Demonstrations
from targetnet.rl_core import Engine
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.replay import ValidRows, transition_columns
from tests.agents.dqn.test_family import masked, masked_step
from tests.agents.dqn.test_target_regularizers import DISTRIBUTIONS, KINDS, SINGLE_AND_FUSED
from tests.agents.dqn.test_update import S_T, S_TM1, forward

# The dataset is never opened: agents only know how many time steps it took.
BEGUN = {"begin_with": "shown-v0", "demonstration_steps": 2}
PREPARED = {"prepared": ["margin_weight"], "updates_per_learn": 2}


def above(q, action, margin=0.8):
    """The large-margin loss of one row, the slow way."""
    return max(of + margin * (a != action) for a, of in enumerate(q)) - q[action]


# Which rows.


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_row_is_a_demonstration_until_its_place_is_written_again(lab, num_envs):
    """Several times around the ring, beside a twin that keeps what was stored at each place."""
    steps, shown = 7, 4
    config = lab.config(**BEGUN | {"demonstration_steps": shown, "num_envs": num_envs})
    engine = Engine()
    with engine.building():
        rows = ValidRows(steps * num_envs, num_envs, transition_columns((), np.float32))
        of_step = {
            name: tf.zeros([num_envs, *column.shape[1:]], column.dtype.base_dtype)
            for name, column in rows.ring.columns.items()
        }
        now = rows.rows_written.read_value()
        write = rows.write(of_step, now, lambda *_: [])
        number = tf.placeholder(tf.int64, [None])
        among = Demonstrations(config, rows).among(number)
    engine.start()
    write, among = engine.callable(None, targets=[write]), engine.callable(among, [number])
    stored = np.full(steps * num_envs, 10**6)  # the time step whose row is at each place
    for time_step in range(3 * steps):
        write()
        place = time_step % steps * num_envs
        stored[place : place + num_envs] = time_step
        written = np.flatnonzero(stored < 10**6)
        np.testing.assert_array_equal(among(written), stored[written] < shown)
    engine.close()


def test_offline_every_row_is_one_and_without_a_dataset_none(lab):
    found = []
    for settings in ({"offline": "shown-v0"}, {}):
        engine = Engine()
        with engine.building():
            rows = ValidRows(10, 1, transition_columns((), np.float32))
            number = tf.constant([0, 4, 9], tf.int64)
            among = Demonstrations(lab.config(**settings), rows).among(number)
        engine.start()
        found.append(engine.callable(among)().tolist())
        engine.close()
    assert found == [[True] * 3, [False] * 3]


# Their margin.


def one_of_each(lab, reward=3.0, **settings):
    """An agent with one demonstration and one transition of its own; gives it and the actions."""
    agent = lab.agent(discount=0.0, learning_rate=1e-12, **BEGUN | settings)
    (shown,) = lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=reward)
    (own,) = lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=reward)
    return agent, shown, own


@pytest.mark.thorough
@SINGLE_AND_FUSED
def test_the_margin_is_added_to_the_loss_of_demonstrations_alone(lab, updates):
    agent, shown, own = one_of_each(lab, batch_size=32, loss="squared", **PREPARED)
    live = agent.hyperparameters
    q = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    off = agent.learn(updates, stats=True)
    live["margin_weight"] = 0.75
    on = agent.learn(updates, stats=True)
    assert own != shown  # else it could not be told which ones were drawn
    # The rows that were drawn, by their TD errors: 3 - q[action].
    errors = 3.0 - q
    drawn = np.abs(on.td_error[:, None] - errors[[shown, own]]).argmin(axis=1)
    assert 0 < np.count_nonzero(drawn == 0) < 32
    wanted = np.where(drawn == 0, 0.75 * above(q, shown), 0.0)
    td = 0.5 * np.square(on.td_error)
    assert on.loss == pytest.approx(np.mean(td + wanted), rel=1e-4)
    assert off.loss == pytest.approx(np.mean(0.5 * np.square(off.td_error)), rel=1e-4)
    live["margin"] = 3.0
    wide = agent.learn(updates, stats=True)
    drawn = np.abs(wide.td_error[:, None] - errors[[shown, own]]).argmin(axis=1)
    wanted = np.where(drawn == 0, 0.75 * above(q, shown, 3.0), 0.0)
    assert wide.loss == pytest.approx(np.mean(0.5 * np.square(wide.td_error) + wanted), rel=1e-4)


@pytest.mark.thorough
def test_the_margin_is_to_legal_actions_alone(lab):
    agent = masked(lab, discount=0.0, learning_rate=1e-12, loss="squared", **BEGUN | PREPARED)
    q = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    legal = np.arange(3) != q.argmax()
    (shown,) = masked_step(agent, S_TM1, legal, autoreset=True)
    masked_step(agent, S_T, [True] * 3, reward=3.0)
    off = agent.learn(stats=True)
    agent.hyperparameters["margin_weight"] = 1.0
    on = agent.learn(stats=True)
    wanted = above(np.where(legal, q, -np.inf), shown)
    assert on.loss - off.loss == pytest.approx(wanted, rel=1e-4)


def test_once_they_are_overwritten_there_is_no_margin(lab):
    settings = {"replay_capacity": 8, "batch_size": 64, "loss": "squared", "margin_weight": 1.0}
    agent, *_ = one_of_each(lab, **settings)
    assert margin_of(agent) > 0
    for _ in range(4):
        lab.step(agent, S_T, reward=3.0)
    assert margin_of(agent, rows=8) > 0  # the ring is full, and nothing was written twice
    for _ in range(2):
        lab.step(agent, S_T, reward=3.0)
    for _ in range(3):  # several batches
        assert margin_of(agent) == pytest.approx(0.0, abs=1e-5)


def margin_of(agent, rows=None):
    """What the loss of an update has beside its TD errors."""
    assert rows is None or agent.state.contents.written() == rows
    stats = agent.learn(stats=True)
    return stats.loss - np.mean(0.5 * np.square(stats.td_error))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_of_a_distribution_the_means_are_compared(lab, kind):
    settings = PREPARED | DISTRIBUTIONS[kind] | BEGUN | {"discount": 0.0}
    agent = lab.agent(learning_rate=1e-12, **settings)
    (action,) = lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=0.5)
    q = agent.q_values(np.float32(S_TM1))
    off = agent.learn(stats=True)
    agent.hyperparameters["margin_weight"] = 1.0
    on = agent.learn(stats=True)
    # An implicit head draws other fractions in each update, for the loss and for the means.
    tolerance = 0.1 if kind == "implicit" else 1e-4
    assert on.loss - off.loss == pytest.approx(above(q, action), abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_prepared_and_off_changes_no_bit_and_on_it_does(lab, kind):
    settings = KINDS[kind] | BEGUN | {"updates_per_learn": 2, "sync_period": 3}
    settings["demonstration_steps"] = 30
    plain, prepared = lab.filled(**settings), lab.filled(**settings, prepared=["margin_weight"])
    for weight in (0.0, 0.5):
        prepared.hyperparameters["margin_weight"] = weight
        for agent in (plain, prepared):
            agent.learn(1)
            agent.learn(3)
        assert lab.same(plain.state.weights(), prepared.state.weights()) == (weight == 0.0)


@pytest.mark.thorough
def test_at_0_no_operation_is_built_for_it_and_none_when_it_is_set(lab, own_agents):
    without, plain, prepared = lab.filled(), lab.filled(**BEGUN), lab.filled(**BEGUN, **PREPARED)
    counts = [lab.operations(of) for of in (without, plain, prepared)]
    assert counts[0] == counts[1] < counts[2]
    prepared.learn(1)
    prepared.learn(2)
    operations = lab.operations(prepared)
    prepared.hyperparameters.update(margin_weight=0.5, margin=0.1)
    prepared.learn(1)
    prepared.learn(2)
    assert lab.operations(prepared) == operations
    with pytest.raises(RlCoreError, match=r'margin_weight > 0, or prepared = \["margin_weight"\]'):
        plain.hyperparameters["margin_weight"] = 0.5
    with pytest.raises(RlCoreError, match="margin_weight > 0"):
        plain.hyperparameters["margin"] = 0.5
    with pytest.raises(RlCoreError, match="prioritized = true"):
        plain.hyperparameters["demonstration_bonus"] = 0.5


@pytest.mark.thorough
def test_it_teaches_the_action_shown_where_rewards_say_nothing(lab, pool):
    for weight in (0.0, 1.0):
        pool.take_back()  # the first one's agent serves again, as good as new
        agent = lab.agent(**BEGUN, discount=0.0, **PREPARED)
        agent.hyperparameters["margin_weight"] = weight
        (action,) = lab.step(agent, S_TM1, autoreset=True)
        lab.step(agent, S_T, reward=0.0)
        for _ in range(100):
            agent.learn(1)
        q = agent.q_values(np.float32(S_TM1))
        gap = q[action] - np.delete(q, action).max()
        assert (gap > 0.75) == (weight > 0)


# The bonus of their priorities.


@pytest.mark.cases(0)
@SINGLE_AND_FUSED
@pytest.mark.parametrize("reward", [3.0, -3.0])
def test_the_bonus_is_added_to_the_size_of_their_td_errors(lab, updates, reward):
    agent, shown, own = one_of_each(
        lab, reward, batch_size=32, prioritized=True, updates_per_learn=2, demonstration_bonus=0.25
    )
    assert own != shown
    live = agent.hyperparameters
    q = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    for bonus in (0.25, 0.0, 7.5):
        live["demonstration_bonus"] = bonus
        agent.learn(updates)
        priority = agent.state.read().variables["replay/priority"]
        wanted = np.abs(reward - q[[shown, own]]) + [bonus, 0.0] + 1e-6
        np.testing.assert_allclose(priority[[0, 2]], wanted, rtol=1e-5)


def test_without_a_prioritized_replay_or_demonstrations_the_bonus_does_nothing(lab):
    for settings in ({}, BEGUN, {"prioritized": True}):
        assert "demonstration_bonus" in lab.config(**settings).without_effect()
    assert "demonstration_bonus" not in lab.config(**BEGUN, prioritized=True).without_effect()


# What they do not go with.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"margin_weight": 1.0}, "margin_weight is of demonstrations; set begin_with or offline"),
        ({"prepared": ["margin_weight"]}, "set begin_with or offline"),
        (BEGUN | {"demonstration_bonus": 0.5}, "demonstration_bonus needs prioritized = true"),
        ({"prioritized": True, "demonstration_bonus": 0.5}, "and begin_with"),
        ({"demonstration_steps": 3}, "leave it out, got 3"),
        (BEGUN | {"offline": "shown-v0"}, "leave one out"),
        (BEGUN | {"rollout": 8}, "leave rollout out"),
        (BEGUN | {"recurrent": "gru"}, "leave recurrent out"),
        (BEGUN | {"loop": "remote"}, "take another loop"),
        (BEGUN | {"margin": -0.1}, "margin"),
        (BEGUN | {"demonstration_bonus": -1.0}, "demonstration_bonus"),
    ],
)
def test_what_makes_no_sense_with_demonstrations_is_refused(lab, settings, said):
    with pytest.raises(RlCoreError, match=said):
        lab.config(**settings)
