"""Learning from rollouts (PQN) inside the agent: its targets against NumPy, and what it refuses."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.rl_core.errors import (
    BoundsError,
    ConfigError,
    RlCoreError,
    StaticHyperparameter,
    UnknownName,
)

T, N = 12, 2
ROLLOUT = {
    "rollout": T, "num_envs": N, "epochs": 1, "batch_size": T * N, "replay_capacity": 100_000,
    "learn_start": 1_000, "layer_norm": True, "loss": "squared", "q_lambda": 0.5, "discount": 0.9,
}  # fmt: skip
STILL = {"learning_rate": 1e-12}  # it learns next to nothing


def returns(agent, begin, *, q_lambda=0.5, discount=0.9, scale=1.0):
    """(row's number, return) of every valid row of a rollout, walked from each row on."""
    rows = agent.state.contents.time_steps(begin, begin + T + 1)
    q = agent.q_values(rows["observation"].reshape(-1, 2)).reshape(T + 1, N, 3)
    v = (q if "legal" not in rows else np.where(rows["legal"], q, -np.inf)).max(axis=2)

    def walk(t, env):
        reward = scale * rows["reward"][t, env]
        if rows["terminated"][t, env]:
            return reward
        after = v[t + 1, env]
        if t + 1 < T and not rows["autoreset"][t + 1, env]:
            after = (1 - q_lambda) * after + q_lambda * walk(t + 1, env)
        return reward + discount * after

    return {
        ((begin + t) % (T + 1) * N + env): (walk(t, env), q[t, env, rows["action"][t, env]])
        for t in range(T)
        for env in range(N)
        if not rows["autoreset"][t, env]
    }


def kept(agent):
    """The returns that the agent keeps, by their row's number."""
    return agent.engine.session.run("replay/returns/Read/ReadVariableOp:0")


def filled(lab, steps=T + 1, **settings):
    agent = lab.agent(**ROLLOUT | settings)
    lab.fill(agent, steps)
    return agent


@pytest.mark.thorough
def test_an_update_regresses_every_row_on_its_q_lambda_return(lab):
    """By hand it would be long: the rows end in both ways, at several places."""
    agent = filled(lab, **STILL)
    rows = agent.state.contents.time_steps(0, T)
    assert rows["terminated"].any() and (rows["autoreset"][1:].sum() > rows["terminated"].sum())
    for begin, scale, q_lambda in ((0, 1.0, 0.5), (T, 2.0, 0.9), (2 * T, 1.0, 0.0)):
        agent.hyperparameters.update(q_lambda=q_lambda, reward_scale=scale)
        wanted = returns(agent, begin, q_lambda=q_lambda, scale=scale)
        stats = agent.learn(1, stats=True)
        td_errors = [target - q for target, q in wanted.values()]
        assert len(wanted) < T * N  # some come twice in the batch
        got = np.unique(stats.td_error.round(4))
        np.testing.assert_allclose(got, np.unique(np.float32(td_errors).round(4)), atol=2e-4)
        lab.fill(agent, T, seed=begin + 1)


@pytest.mark.cases(0)
@pytest.mark.parametrize("xla", [False, True])
def test_targets_are_of_the_network_before_the_first_update_and_stay(lab, xla):
    agent = filled(lab, epochs=3, batch_size=4, xla=xla)
    wanted = returns(agent, 0)
    agent.learn(3 * T * N // 4)
    got = kept(agent)
    for row, (target, _) in wanted.items():
        assert got[row] == pytest.approx(target, rel=1e-4, abs=1e-4)
    after = returns(agent, 0)  # of the network as it is now
    assert max(abs(after[row][0] - wanted[row][0]) for row in wanted) > 0.01


@pytest.mark.slow
def test_compiled_updates_agree_with_plain_ones(lab):
    """Alone, in a loop of plain operations, and in one that XLA compiled."""
    frozen = [{"exempt": ["head"], "updates": 1_000}]
    alone, looped, compiled = (
        filled(lab, epochs=2, batch_size=6, **how)
        for how in ({}, {"freeze": frozen}, {"freeze": frozen, "xla": True})
    )
    alone.hyperparameters["exempt"] = "head"  # a set that has no loop
    for agent in (alone, looped, compiled):
        agent.learn(2 * T * N // 6)
        for name, value in lab.weights(alone, "online").items():
            got = lab.weights(agent, "online")[name]
            np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    assert alone.updates == looped.updates == compiled.updates == 8


@pytest.mark.thorough
def test_the_best_of_the_legal_actions_bootstraps(lab):
    agent = DqnAgent(lab.config(**ROLLOUT | STILL), (2,), np.float32, 3, action_masks=True)
    rng = np.random.default_rng(0)
    no = np.zeros(N, bool)
    for t in range(T + 1):
        legal = rng.random((N, 3)) < 0.5
        legal[:, rng.integers(3)] = True
        agent.step(
            rng.normal(size=(N, 2)).astype(np.float32), np.ones(N, np.float32), no,
            np.full(N, not t), legal=legal,
        )  # fmt: skip
    wanted = returns(agent, 0)
    agent.learn(1)
    for row, (target, _) in wanted.items():
        assert kept(agent)[row] == pytest.approx(target, rel=1e-4, abs=1e-4)


@pytest.mark.thorough
def test_a_histogram_around_the_return_is_learned_too(lab):
    bins = {"head": "categorical", "loss": "hl_gauss", "v_min": -9.0, "v_max": 9.0, "atoms": 12}
    agent = filled(lab, **STILL | bins)
    td_errors = [target - q for target, q in returns(agent, 0).values()]
    stats = agent.learn(1, stats=True)
    got = np.unique(stats.td_error.round(3))
    np.testing.assert_allclose(got, np.unique(np.float32(td_errors).round(3)), atol=2e-3)


@pytest.mark.thorough
def test_it_learns(lab):
    """Rewards that depend on nothing, in episodes of one step: values go to their mean."""
    agent = filled(lab, 1, discount=0.0, learning_rate=0.02, epochs=4, batch_size=6)
    rng = np.random.default_rng(0)
    no = np.zeros(N, bool)
    for _ in range(30):
        for _ in range(T):
            agent.step(
                rng.normal(size=(N, 2)).astype(np.float32),
                np.full(N, 3.0, np.float32), no, no,
            )  # fmt: skip
        stats = agent.learn(4 * T * N // 6, stats=True)
    assert np.abs(stats.td_error).max() < 0.3


@pytest.mark.thorough
def test_a_phase_is_of_all_its_updates_and_of_a_whole_rollout(lab):
    agent = lab.agent(**ROLLOUT, **STILL)
    lab.fill(agent, T)
    with pytest.raises(RlCoreError, match="a rollout of 12 time steps is not there yet"):
        agent.learn(1)
    agent = filled(lab, batch_size=6)
    with pytest.raises(
        BoundsError, match=r"updates must be a multiple of 4 \(one rollout\), got 3"
    ):
        agent.learn(3)


@pytest.mark.thorough
def test_there_is_no_target_network(lab):
    agent = filled(lab)
    agent.learn(1)
    assert not [name for name in agent.state.read().variables if "target" in name]
    with pytest.raises(UnknownName, match="no network 'target'"):
        agent.q_values(np.zeros(2, np.float32), of="target")
    with pytest.raises(RlCoreError, match="no target network"):
        agent.sync()
    assert agent.inspect() == (None, None) and agent.learner.target_age is None
    with pytest.raises(StaticHyperparameter, match=r"sync_period has no effect .* rollout = 0"):
        agent.hyperparameters["sync_period"] = 3
    with pytest.raises(StaticHyperparameter, match=r"q_lambda has no effect .* rollout > 0"):
        lab.used().hyperparameters["q_lambda"] = 0.5


@pytest.mark.thorough
def test_a_rewind_and_a_restored_state_go_on_as_before(lab):
    agent = filled(lab, epochs=2, batch_size=6, past_states=2)
    agent.learn(8)
    agent.state.snapshot()
    before, operations = agent.state.weights(), lab.operations(agent)
    lab.fill(agent, T, seed=1)
    agent.learn(8)
    assert not lab.same(agent.state.weights(), before)
    agent.state.rewind()
    assert lab.same(agent.state.weights(), before)
    # In the middle of a rollout.
    lab.fill(agent, 5, seed=2)
    saved, written = agent.state.read(), agent.state.contents.written()
    rows = [(written - T - 1, agent.state.contents.time_steps(written - T - 1, written))]
    digests = []
    for _ in range(2):
        lab.fill(agent, T - 5, seed=3)
        agent.learn(8)
        digests.append(agent.state.digest())
        agent.state.restore(saved, rows)
    assert digests[0] == digests[1]
    assert lab.operations(agent) == operations


@pytest.mark.slow
def test_looking_at_gradients_changes_nothing(lab):
    """They are of the next update's batch, which would begin a new pass."""
    agent, twin = filled(lab, batch_size=6), filled(lab, batch_size=6)
    for looked_at in (agent, twin):
        looked_at.learn(4)
        lab.fill(looked_at, 5, seed=1)
    assert agent.learner.gradients.read()
    assert agent.state.digest() == twin.state.digest()
    for each in (agent, twin):
        lab.fill(each, T - 5, seed=2)
        each.learn(4)
    assert agent.state.digest() == twin.state.digest()


REFUSED = [
    ({"rollout": 1}, "rollout must be 0, or at least 2 time steps"),
    ({"batch_size": 7}, "rollout * num_envs = 24 must be a multiple of batch_size, got 7"),
    ({"loop": "concurrent"}, "rollout > 0 needs loop = 'plain' or 'compiled', got 'concurrent'"),
    ({"loop": "remote"}, "rollout > 0 needs loop = 'plain' or 'compiled', got 'remote'"),
    ({"head": "quantile", "loss": "huber"}, "needs head = 'scalar', or loss = 'hl_gauss'"),
    ({"head": "categorical", "loss": "huber"}, "needs head = 'scalar', or loss = 'hl_gauss'"),
    *[
        ({name: value}, f"rollout > 0 learns without a replay and without a target network; leave "
         f"{name} out")
        for name, value in {
            "replay_capacity": 99, "prioritized": True, "n_step": 3, "learn_start": 5,
            "learn_period": 5, "updates_per_learn": 5, "double": True, "averaged_targets": 2,
            "sync_period": 5, "tau": 0.5, "on_sync": ["reset_time"], "online_weight": 0.5,
            "min_weight": 0.5, "functional_weight": 0.5, "proximal_weight": 0.5,
            "prepared": ["min_weight"], "munchausen": True,
        }.items()
    ],
    ({"rollout": 0, "epochs": 3}, "epochs needs rollout > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=lambda of: str(of)[:40])
def test_what_makes_no_sense_is_refused_in_one_line(settings, message):
    with pytest.raises(ConfigError) as caught:
        DqnConfig(**ROLLOUT | {"batch_size": 6} | settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
