"""A run's policy in one's own program: single observations and batches, as the env has them."""

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.policy.load import LoadedPolicy, load_policy
from targetnet.agents.policy.trained_policy import trained
from targetnet.agents.run.train import train
from targetnet.agents.saved.directory import RunDir
from targetnet.envs.drivers import SingleEnv
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.errors import BoundsError, FeedError, RlCoreError, RunDirError, ShapeError
from targetnet.rl_core.graph.engine import Engine
from tests.gymnasium_versions import TAXI

SHORT = {
    "env_steps": 400, "hidden": (8,), "batch_size": 8, "learn_start": 20, "final_eval_episodes": 1,
    "xla": False, "eval_period": 200, "eval_episodes": 1,
}  # fmt: skip


class Pictures(gym.Env):
    """Bytes with channels first, and actions from 3 on."""

    observation_space = gym.spaces.Box(0, 255, (2, 6, 8), np.uint8)
    action_space = gym.spaces.Discrete(4, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        self.steps += 1
        return self.observation_space.sample(), float(action), self.steps > 9, False, {}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    gain = {"default": {"schedule": "linear", "start": 0.0, "end": 1.0, "steps": 800}}
    config = DqnConfig(
        **SHORT, ema_decay=0.9, learning_rate=0.05, checkpoint_steps=100, live={"gain": gain}
    )
    return train(config, tmp_path_factory.mktemp("policy") / "run").run


@pytest.fixture(scope="module")
def policy(run):
    with load_policy(run) as policy:
        yield policy


def by_hand(weights, x):
    """The network in NumPy: one layer of relus, then the head."""
    hidden = np.maximum(x @ weights["torso/dense_0/w"] + weights["torso/dense_0/b"], 0)
    return hidden @ weights["head/q/w"] + weights["head/q/b"]


def observations(n=50):
    return np.random.default_rng(0).normal(size=(n, 4))


@pytest.mark.thorough
def test_values_are_those_of_the_network_by_hand(run, policy):
    x, weights = observations(), RunDir.open(run).load_weights()
    np.testing.assert_allclose(policy.q_values(x), by_hand(weights, x), rtol=1e-5, atol=1e-6)
    assert policy.q_values(x).shape == (50, 2) and policy.q_values(x[0]).shape == (2,)


@pytest.mark.cases(0)
@pytest.mark.parametrize("torso", ["own", "shared"])
def test_the_policy_of_a_chain_is_that_of_its_first_network(tmp_path, torso):
    config = DqnConfig(**SHORT, chain=3, chain_torso=torso, checkpoint_steps=150)
    run = train(config, tmp_path / "run").run
    for how in ({}, {"checkpoint": 3}):
        x, weights = observations(), trained(RunDir.open(run), **how).weights
        assert any(name.startswith("link_3/") for name in weights)
        with load_policy(run, **how) as policy:
            got = policy.q_values(x)
        np.testing.assert_allclose(got, by_hand(weights, x), rtol=1e-5, atol=1e-6)


def test_one_observation_gives_an_int_and_a_batch_an_array(policy):
    x = observations()
    actions = policy(x)
    assert actions.shape == (50,) and actions.dtype == np.int64
    np.testing.assert_array_equal(actions, policy.q_values(x).argmax(axis=1))
    for i in (0, 7):
        action = policy(x[i].tolist())
        assert type(action) is int and action == actions[i]
    assert policy(x[:0]).shape == (0,)


def test_a_policy_without_memory_has_nothing_to_forget(policy):
    x = observations(3)
    before = policy(x)
    policy.reset()
    policy.reset([True, False, True])  # as a loop calls it that is written for any policy
    np.testing.assert_array_equal(policy(x), before)


def test_averaged_best_and_numbered_weights(run):
    directory, x = RunDir.open(run), observations()
    averaged = load_policy(run, averaged=True).q_values(x)
    wanted = by_hand(directory.load_weights(averaged=True), x)
    np.testing.assert_allclose(averaged, wanted, rtol=1e-5, atol=1e-6)
    store = CheckpointStore(directory.checkpoints)
    last, best = store.latest(), store.best()
    for checkpoint, found in (
        (last, load_policy(run, checkpoint=last.number)),
        (best, load_policy(run, best=True)),
        (best, load_policy(run, checkpoint=best.number)),
    ):
        weights = {k.removeprefix("online/"): v for k, v in checkpoint.variables.items()}
        np.testing.assert_allclose(found.q_values(x), by_hand(weights, x), rtol=1e-5, atol=1e-6)
        assert found.env_step == checkpoint.host["loop"]["env_step"]
        assert found.live == {"gain": found.env_step / 800}
    end = load_policy(run)
    assert (end.env_step, end.live) == (400, {"gain": 0.5})
    assert not np.array_equal(last.variables["online/head/q/w"], best.variables["online/head/q/w"])


def test_the_env_is_played_with_its_own_numbers_and_pictures(tmp_path):
    gym.register("test/Pictures-v0", Pictures)
    try:
        config = DqnConfig(env_id="test/Pictures-v0", **SHORT)
        policy = train(config, tmp_path / "run").policy
    finally:
        del gym.registry["test/Pictures-v0"]
    seen = np.stack([Pictures.observation_space.sample() for _ in range(5)])
    assert policy.observation_shape == (2, 6, 8) and policy.num_actions == 4
    actions = policy(seen)
    assert set(actions) <= {3, 4, 5, 6}
    assert policy(seen[2]) == actions[2]
    # The channels come last in the agent's rows.
    best = policy.greedy(np.moveaxis(seen, 1, -1))
    np.testing.assert_array_equal(best + 3, actions)
    with pytest.raises(FeedError, match=r"^the observation must be of dtype uint8, got float64$"):
        policy(seen / 255)


@pytest.mark.thorough
def test_masks_are_asked_for_and_kept_to(tmp_path):
    policy = train(DqnConfig(env_id=TAXI, **SHORT), tmp_path / "run").policy
    assert policy.observation_shape == () and policy.has_action_masks
    q = policy.q_values(np.arange(500))  # [500, 6]
    only = np.eye(6, dtype=np.int8)
    assert [policy(17, mask) for mask in only] == [0, 1, 2, 3, 4, 5]
    assert policy(17, np.ones(6)) == q[17].argmax()
    np.testing.assert_array_equal(policy([1, 2, 3], only[[5, 0, 2]]), [5, 0, 2])
    with pytest.raises(RlCoreError, match=rf'{TAXI} has action masks: pass action_mask=info\["act'):
        policy(17)
    with pytest.raises(BoundsError, match="must allow at least one action"):
        policy([1, 2], [[1] * 6, [0] * 6])
    with pytest.raises(ShapeError, match=r"action_mask must have shape \(2, 6\), got \(6,\)"):
        policy([1, 2], [1] * 6)
    with pytest.raises(ShapeError, match=r"must have shape \(2, 6\), got \(6, 2\)"):
        policy([1, 2], np.ones((6, 2)))
    with pytest.raises(FeedError, match="from 0 to 499, got 500"):
        policy(500, np.ones(6))


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(3), r"of CartPole-v1 has shape \(4,\), several have \(M, 4\), got \(3,\)"),
        (np.zeros((2, 2, 4)), r"several have \(M, 4\), got \(2, 2, 4\)"),
        (0.5, r"has shape \(4,\), several have \(M, 4\), got \(\)"),
        # What `reset` returns.
        ((np.zeros(4), {}), r"is an array of shape \(4,\), got a tuple of 2"),
    ],
)
def test_another_shape_is_refused_in_one_line(policy, observation, message):
    with pytest.raises(ShapeError, match=message):
        policy.q_values(observation)


def test_numbers_that_are_none_are_refused(policy):
    with pytest.raises(FeedError, match="must be finite in float32, got nan"):
        policy([0.0, np.nan, 0.0, 0.0])
    with pytest.raises(RlCoreError, match="CartPole-v1 has no action masks: leave action_mask out"):
        policy(np.zeros(4), [1, 1])


def test_what_cannot_be_loaded_says_so(run, tmp_path):
    with pytest.raises(RunDirError, match="is not a run directory"):
        load_policy(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"has no checkpoint 99 \(there are: "):
        load_policy(run, checkpoint=99)
    with pytest.raises(RlCoreError, match="best and checkpoint = 1 are two choices"):
        load_policy(run, best=True, checkpoint=1)


def test_there_is_no_replay_memory(policy):
    names = {v.op.name for v in policy._engine.graph.get_collection("variables")}
    assert names == {
        f"online/{n}" for n in ("torso/dense_0/w", "torso/dense_0/b", "head/q/w", "head/q/b")
    }
    assert policy._engine.graph.finalized


def test_it_has_the_threads_of_the_run_and_closes_what_it_opened(run, monkeypatch):
    closed = []

    def note(kind):
        close = kind.close
        monkeypatch.setattr(kind, "close", lambda it: (closed.append(kind), close(it)))

    note(SingleEnv)
    note(Engine)
    directory = RunDir.open(run)
    config = directory.config().model_copy(update={"threads": 2})
    with LoadedPolicy(config, trained(directory)) as policy:
        assert policy._engine.threads == 2 and closed == [SingleEnv]
    assert closed == [SingleEnv, Engine]


def test_a_closed_policy_says_so(run):
    with load_policy(run) as policy:
        policy(np.zeros(4, np.float32))
    for call in (policy, policy.q_values):
        with pytest.raises(RlCoreError, match="this policy is closed: load it again"):
            call(np.zeros(4, np.float32))
