"""What `step` returns and stores, and that a seed gives the same run twice."""

import numpy as np
import pytest

from targetnet.rl_core.errors import FeedError
from tests.agents.dqn.test_update import forward
from tests.agents.steady import STEADY

ARMS = [{"exempt": ["head"], "updates": 3}, {"exempt": ["torso"], "updates": 2}]
OBSERVATIONS = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)


def act(agent, observations, epsilon):
    """The action on each observation, as one env that never ends shows them."""
    one, no = np.float32([0]), np.array([False])
    actions = [agent.step(row[None], one, no, no, epsilon) for row in observations]
    return np.concatenate(actions)


@pytest.fixture(scope="module")
def agent(lab):
    """Every test of one agent alone shares it: rows in it are of no matter here."""
    return lab.agent(epsilon=0.0, replay_capacity=5000)


def test_epsilon_0_is_greedy(agent):
    actions = act(agent, OBSERVATIONS, 0.0)
    assert np.array_equal(actions, agent.greedy(OBSERVATIONS))
    assert len(set(actions)) > 1
    assert actions.dtype == np.int32


def test_greedy_takes_any_number_of_observations_one_by_one_or_together(agent):
    together = agent.greedy(OBSERVATIONS)
    assert together.shape == (200,) and together.dtype == np.int32
    one_by_one = [agent.greedy(row[None]).item() for row in OBSERVATIONS]
    assert together.tolist() == one_by_one


def test_greedy_is_the_action_of_largest_value(lab, agent):
    w = lab.weights(agent, "online")
    hidden = np.maximum(OBSERVATIONS @ w["torso/dense_0/w"] + w["torso/dense_0/b"], 0)
    q = hidden @ w["head/q/w"] + w["head/q/b"]
    assert np.array_equal(agent.greedy(OBSERVATIONS), q.argmax(axis=1))


def test_greedy_stores_nothing(agent):
    rows = agent.rows()
    agent.greedy(OBSERVATIONS)
    assert agent.rows() == rows


def test_epsilon_1_is_uniform_over_the_actions(agent, chi_square):
    actions = act(agent, np.tile(OBSERVATIONS, (5, 1)), 1.0)
    counts = np.bincount(actions, minlength=3)
    assert len(counts) == 3 and chi_square(counts) < 13.8  # 99.9 %, 2 degrees of freedom


def test_epsilon_1_does_not_heed_the_greedy_action(agent, chi_square):
    observations = np.tile(OBSERVATIONS, (5, 1))
    away = (act(agent, observations, 1.0) - agent.greedy(observations)) % 3
    assert chi_square(np.bincount(away, minlength=3)) < 13.8


def test_epsilon_one_half_is_greedy_two_times_in_three(agent):
    observations = np.tile(OBSERVATIONS, (5, 1))
    same = np.mean(act(agent, observations, 0.5) == agent.greedy(observations))
    assert abs(same - 2 / 3) < 0.05  # 1 / 2 + 1 / 2 * 1 / 3; 3.3 standard deviations


def test_without_an_epsilon_the_live_value_is_used(agent):
    assert np.array_equal(act(agent, OBSERVATIONS, None), agent.greedy(OBSERVATIONS))
    agent.hyperparameters["epsilon"] = 1.0
    assert not np.array_equal(act(agent, OBSERVATIONS, None), agent.greedy(OBSERVATIONS))
    agent.hyperparameters["epsilon"] = "auto"
    assert np.array_equal(act(agent, OBSERVATIONS, None), agent.greedy(OBSERVATIONS))


@pytest.mark.thorough
def test_a_random_action_is_random_for_every_env(lab, chi_square):
    agent = lab.agent(num_envs=8)
    actions = np.stack([lab.step(agent, 0.0, epsilon=1.0) for _ in range(300)])
    for env in range(8):
        assert chi_square(np.bincount(actions[:, env], minlength=3)) < 13.8
    assert np.mean(actions[:, 0] == actions[:, 1]) < 0.5


def test_one_env_may_explore_while_another_is_greedy(lab):
    agent = lab.agent(num_envs=8)
    greedy = agent.greedy(np.zeros((1, 2), np.float32))
    explored = np.stack([lab.step(agent, 0.0, epsilon=0.5) for _ in range(50)]) != greedy
    assert np.any(explored.any(axis=1) & ~explored.all(axis=1))


def test_every_time_step_but_the_pending_one_is_a_row(lab):
    agent = lab.agent(replay_capacity=10)
    rows = []
    for step in range(14):
        lab.step(agent, step, autoreset=step in (0, 3))
        rows.append(agent.rows())
    # The step to row 3 is a reset. Of ten rows nine steps are whole; one of them was that.
    assert rows == [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 8, 8, 9, 9]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        (0, np.zeros((1, 3), np.float32)),
        (0, np.zeros((2, 2), np.float32)),
        (0, np.zeros((1, 2), np.float64)),
        (1, np.zeros(1, np.float64)),
        (1, np.zeros((1, 1), np.float32)),
        (2, np.zeros(1, np.int32)),
        (3, np.zeros(2, bool)),
    ],
)
def test_a_row_of_the_wrong_shape_or_type_is_refused_and_not_stored(agent, argument, value):
    rows = agent.rows()
    good = [np.zeros((1, 2), np.float32), np.zeros(1, np.float32), *np.zeros((2, 1), bool)]
    good[argument] = value
    with pytest.raises(FeedError, match=["observation", "reward", "terminated", "auto"][argument]):
        agent.step(*good)
    assert agent.rows() == rows


# The same seed twice.


def run(lab, agent, learn=(1, 2, 3)):
    """200 steps of two envs with learning between; actions and greedy actions."""
    actions = []
    for seed, updates in enumerate(learn):
        actions += lab.fill(agent, 200 // len(learn), seed=seed)
        agent.learn(updates)
    return np.array(actions)


_REFERENCE = []


@pytest.fixture
def reference(lab, pool):
    if not _REFERENCE:
        agent = lab.agent(num_envs=2, epsilon=0.5, seed=3, updates_per_learn=2)
        _REFERENCE.extend([run(lab, agent), lab.weights(agent, "online")])
        pool.take_back()
    return _REFERENCE


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_actions_and_the_same_bits(lab, reference):
    agent = lab.agent(num_envs=2, epsilon=0.5, seed=3, updates_per_learn=2)
    actions, weights = reference
    assert np.array_equal(run(lab, agent), actions)
    assert lab.same(agent.state.weights(), weights)


@pytest.mark.thorough
def test_another_seed_gives_other_actions_and_weights(lab, reference):
    agent = lab.agent(num_envs=2, epsilon=0.5, seed=4, updates_per_learn=2)
    actions, weights = reference
    assert not np.array_equal(agent.state.weights()["head/q/w"], weights["head/q/w"])
    assert not np.array_equal(run(lab, agent), actions)


@pytest.mark.thorough
def test_looking_and_evaluating_between_does_not_change_a_bit(lab, reference):
    agent = lab.agent(num_envs=2, epsilon=0.5, seed=3, updates_per_learn=2)
    actions, weights = reference
    for part, updates in enumerate((1, 2, 3)):
        agent.greedy(OBSERVATIONS)
        agent.inspect()
        agent.state.weights()
        got = lab.fill(agent, 200 // 3, seed=part)
        assert np.array_equal(got, actions[part * 66 : (part + 1) * 66])
        agent.learn(updates, stats=True)
    assert lab.same(agent.state.weights(), weights)


@pytest.mark.slow  # in the default run they alternate, below
@pytest.mark.parametrize("xla", [False, True], ids=["plain loop", "compiled"])
def test_four_updates_in_one_call_agree_with_four_calls(lab, xla):
    fused, single = lab.filled(updates_per_learn=4, xla=xla), lab.filled()
    for _ in range(5):
        got = fused.learn(4, stats=True)
        for _ in range(4):
            expected = single.learn(1, stats=True)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    agree(fused, single)
    assert fused.updates == single.updates == 20


def agree(one, other):
    """In weights, optimizer, counters and all."""
    one, other = one.state.read().variables, other.state.read().variables
    assert one.keys() == other.keys()
    for name, value in other.items():
        np.testing.assert_allclose(one[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="plain"),
        pytest.param(
            {"prioritized": True, "double": True, "n_step": 3, "freeze": ARMS},
            id="prioritized, double, n-step, freezing",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_one_update_at_a_time_compiled_agrees_with_plain_operations(lab, settings):
    compiled, plain = (lab.filled(sync_period=3, xla=xla, **settings) for xla in (True, False))
    for _ in range(8):
        got, expected = (agent.learn(stats=True) for agent in (compiled, plain))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    agree(compiled, plain)
    assert compiled.learner.target_age == compiled.inspect().target_age == 2
    compiled.learn(3)  # a phase of several too, which the config does not speak of
    plain.learn(3)
    agree(compiled, plain)


@pytest.mark.parametrize(
    ("calls", "settings"),
    [
        (1, {}),
        pytest.param(1, {"updates_per_learn": 4}, marks=pytest.mark.slow),
        pytest.param(2, {"freeze": ARMS}, marks=pytest.mark.thorough),
        (0, {"threads": 2}),  # operations share their work between threads, XLA's hardly
        pytest.param(1, {"threads": 2, "updates_per_learn": 4}, marks=pytest.mark.slow),
        (0, {"xla": False}),
        # Plain convolutions are faster; tests/agents/dqn/test_update.py has it in the default run.
        pytest.param(0, {"network": "nature", "updates_per_learn": 4}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_what_is_compiled(lab, calls, settings):
    """As many calls as there are arms, or none."""
    from targetnet.agents.dqn.agent import DqnAgent

    shape = (84, 84, 4) if "network" in settings else (2,)
    dtype = np.uint8 if "network" in settings else np.float32
    agent = DqnAgent(lab.config(**STEADY | {"xla": True} | settings), shape, dtype, 3)
    found = [
        op
        for op in agent.engine.graph.get_operations()
        if "PartitionedCall" in op.type and op.get_attr("_XlaMustCompile")
    ]
    assert len(found) == calls
    agent.close()


@pytest.mark.thorough
def test_a_digest_between_two_phases_changes_nothing_and_tells_them_apart(lab):
    looked_at, alone = (lab.filled(updates_per_learn=4) for _ in range(2))
    looked_at.learn(4)
    between = looked_at.state.digest()
    for agent, phases in ((looked_at, 1), (alone, 2)):
        for _ in range(phases):
            agent.learn(4)
    assert looked_at.state.digest() == alone.state.digest() != between


@pytest.mark.slow  # in the default run a phase of plain operations is cut (test_freezing.py)
def test_where_a_compiled_phase_is_cut_does_not_change_a_bit(lab):
    agent = lab.filled(updates_per_learn=4, xla=True, sync_period=3)
    state, rows = agent.state.read(), [(0, agent.state.contents.time_steps(0, 50))]
    learned = []
    for phases in ([4] * 3, [2] * 6):
        agent.state.restore(state, rows)
        for updates in phases:
            agent.learn(updates)
        learned.append([lab.weights(agent, scope) for scope in ("online", "target")])
    for whole, cut in zip(*learned, strict=True):
        assert lab.same(whole, cut)


def test_single_and_fused_updates_may_alternate(lab):
    mixed, single = lab.filled(updates_per_learn=4), lab.filled()
    for updates in (1, 4, 1, 3):
        mixed.learn(updates)
    single.learn(9)
    for name, value in single.state.weights().items():
        np.testing.assert_allclose(mixed.state.weights()[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.cases(1)
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_])
def test_observations_of_bytes_and_bools_are_learned_from(lab, dtype):
    from targetnet.agents.dqn.agent import DqnAgent

    agent = DqnAgent(lab.config(discount=0.5), (2, 2), dtype, 3)
    shown = np.array([[[0, 255], [51, 0]], [[102, 0], [0, 204]]], dtype)
    no, yes = np.array([False]), np.array([True])
    (action,) = agent.step(shown[:1], np.float32([0]), no, yes)
    agent.step(shown[1:], np.float32([1]), no, no)
    weights = lab.weights(agent, "online")
    s_tm1, s_t = np.float32(shown).reshape(2, 4) / (255 if dtype is np.uint8 else 1)
    td_error = 1.0 + 0.5 * forward(weights, s_t).max() - forward(weights, s_tm1)[action]
    stats = agent.learn(stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-5)
    assert not lab.same(lab.weights(agent, "online"), weights)
