"""Normalized observations: running moments against NumPy, and a target that holds still."""

import shutil

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.errors import ConfigError, RlCoreError
from targetnet.rl_core.observation_parts import Part, placed
from tests.agents.pool import POOL

NORMAL = {"normalize_observations": True, "hidden": (4,), "sync_period": 10_000}


def show(agent, rows):
    """Stores rows [T, N, ...] one after the other, of one long episode."""
    N = rows.shape[1]
    for t, row in enumerate(rows):
        nothing = np.zeros(N, np.float32)
        agent.step(row, nothing, np.zeros(N, bool), np.full(N, t == 0))


def moments(rows):
    flat = rows.reshape(-1, *rows.shape[2:]).astype(np.float64)
    return flat.mean(axis=0), 1 / np.sqrt(flat.var(axis=0) + 1e-8)


def rows_like(*shape, seed=0):
    draw = np.random.default_rng(seed)
    return (draw.normal(size=shape) * 3 + 50).astype(np.float32)


@pytest.mark.cases(1)
@pytest.mark.parametrize("how", [{}, {"learn_period": 64}, {"num_envs": 3}], ids=str)
def test_the_network_sees_all_numbers_by_their_running_moments(lab, how):
    agent = lab.agent(**NORMAL | how)
    rows = rows_like(30, agent.config.num_envs, 2)
    show(agent, rows)
    agent.rows()  # those that waited are stored
    mean, scale = moments(rows)
    weights = lab.weights(agent, "online")
    np.testing.assert_allclose(weights["normalize/mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(weights["normalize/scale"], scale, rtol=1e-5)
    seen = np.clip((rows[3] - mean) * scale, -10, 10)
    hidden = np.maximum(seen @ weights["torso/dense_0/w"] + weights["torso/dense_0/b"], 0)
    wanted = hidden @ weights["head/q/w"] + weights["head/q/b"]
    np.testing.assert_allclose(agent.q_values(rows[3]), wanted, rtol=1e-4, atol=1e-5)
    # Ten standard deviations are the most that it sees.
    far = agent.q_values(np.float32(mean + [20, 0] / scale))
    np.testing.assert_allclose(far, agent.q_values(np.float32(mean + [10, 0] / scale)), rtol=1e-3)


def test_subtracting_the_mean_moves_numbers_by_half_of_their_last_digit_at_most(lab):
    """The limit that docs/explanation/family.md names: a deviation far below the mean."""
    agent = lab.agent(**NORMAL)
    rows = (1000 + 1e-4 * np.random.default_rng(0).normal(size=(40, 1, 2))).astype(np.float32)
    show(agent, rows)
    agent.rows()
    mean = rows[:, 0].astype(np.float64).mean(axis=0)
    subtracted = lab.weights(agent, "online")["normalize/mean"]
    assert np.all(abs(subtracted - mean) <= np.spacing(np.float32(1000)) / 2)
    exact = rows.astype(np.float64) - subtracted.astype(np.float64)
    np.testing.assert_array_equal(rows - subtracted, exact.astype(np.float32))
    assert np.array_equal(exact, exact.astype(np.float32))


def test_the_action_on_a_row_does_not_know_the_row_yet(lab):
    agent = lab.agent(**NORMAL | {"epsilon": 0.0, "learn_period": 1})
    rows = rows_like(12, 1, 2, seed=2)
    for t, row in enumerate(rows):
        wanted = agent.q_values(row).argmax(axis=1)
        nothing = np.zeros(1, np.float32)
        got = agent.step(row, nothing, np.zeros(1, bool), np.full(1, t == 0))
        np.testing.assert_array_equal(got, wanted)


def test_the_target_keeps_the_moments_of_its_copy(lab):
    agent = lab.agent(**NORMAL)
    show(agent, rows_like(20, 1, 2))
    agent.sync()
    kept = lab.weights(agent, "target")
    np.testing.assert_array_equal(
        kept["normalize/mean"], moments(rows_like(20, 1, 2))[0].astype("f")
    )
    lab.fill(agent, 30)
    agent.learn(3)
    for name in ("mean", "scale"):
        after = lab.weights(agent, "target")[f"normalize/{name}"]
        np.testing.assert_array_equal(after, kept[f"normalize/{name}"])
        assert not np.array_equal(lab.weights(agent, "online")[f"normalize/{name}"], after)


def test_soft_copies_and_averages_take_the_moments_over_whole(lab):
    """A hundredth of the way from (0, 1) to them would be the moments of no observations."""
    agent = lab.agent(**NORMAL | {"tau": 0.01, "sync_period": 1, "ema_decay": 0.999})
    lab.fill(agent)
    agent.learn(1)
    online = lab.weights(agent, "online")
    for scope in ("target", "ema"):
        copied = lab.weights(agent, scope)
        for name in ("mean", "scale"):
            np.testing.assert_array_equal(copied[f"normalize/{name}"], online[f"normalize/{name}"])
        assert not np.array_equal(copied["head/q/w"], online["head/q/w"])


def test_an_update_leaves_the_moments_alone(lab):
    agent = lab.agent(**NORMAL | {"learning_rate": 0.1})
    lab.fill(agent)
    before = lab.weights(agent, "online")
    agent.learn(5)
    after = lab.weights(agent, "online")
    np.testing.assert_array_equal(after["normalize/mean"], before["normalize/mean"])
    np.testing.assert_array_equal(after["normalize/scale"], before["normalize/scale"])
    assert not np.array_equal(after["head/q/w"], before["head/q/w"])


@pytest.mark.thorough
def test_every_network_of_a_chain_sees_normalized_numbers(lab):
    agent = lab.agent(**NORMAL | {"chain": 3})
    rows = rows_like(20, 1, 2)
    show(agent, rows)
    agent.rows()
    mean, scale = moments(rows)
    for _ in range(2):  # a sync moves each network one place on
        weights = lab.weights(agent, "online")
        for network in ("", "link_2/", "link_3/"):
            np.testing.assert_allclose(weights[f"{network}normalize/mean"], mean, rtol=1e-6)
            np.testing.assert_allclose(weights[f"{network}normalize/scale"], scale, rtol=1e-5)
        agent.sync()


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("how", [{}, {"chain": 2}], ids=["alone", "chain"])
def test_actions_on_the_weights_leave_the_moments_of_every_copy_alone(lab, how):
    agent = lab.agent(**NORMAL | {"averaged_targets": 1 if how else 2, "past_states": 0} | how)
    show(agent, rows_like(20, 1, 2))
    agent.sync()
    before = agent.state.learned.read()
    agent.weight_resets.perturb(0.5)
    agent.weight_resets.recycle(0.5)
    agent.weight_resets.reset("all")
    after = agent.state.learned.read()
    same = {name for name in before if np.array_equal(before[name], after[name])}
    assert same >= {n for n in before if n.endswith(("normalize/mean", "normalize/scale"))}
    assert not {n for n in same if n.endswith(("dense_0/w", "q/w"))}
    if not how:
        with pytest.raises(RlCoreError, match=r"no block 'normalize' \(torso, head, all\)"):
            agent.weight_resets.reset("normalize")


def test_moments_that_come_with_weights_count_as_ten_thousand_rows(lab):
    agent = lab.agent(**NORMAL)
    given = {"normalize/mean": np.float32([50, -3]), "normalize/scale": np.float32([0.5, 4])}
    agent.state.load_weights(agent.state.weights() | given)
    rows = rows_like(30, 1, 2)
    show(agent, rows)
    agent.rows()
    # As if 10,000 rows with this mean and this variance had been shown before.
    variance = 1 / given["normalize/scale"].astype(np.float64) ** 2 - 1e-8
    flat = rows.reshape(-1, 2).astype(np.float64)
    mean = (10_000 * given["normalize/mean"] + flat.sum(axis=0)) / 10_030
    squares = 10_000 * (variance + (given["normalize/mean"] - mean) ** 2)
    squares += ((flat - mean) ** 2).sum(axis=0)
    weights = lab.weights(agent, "online")
    np.testing.assert_allclose(weights["normalize/mean"], mean, rtol=1e-6)
    scale = 1 / np.sqrt(squares / 10_030 + 1e-8)
    np.testing.assert_allclose(weights["normalize/scale"], scale, rtol=1e-5)


def test_moments_are_no_part_of_distances_and_no_block_that_is_trained(lab):
    agent = lab.agent(**NORMAL | {"proximal_weight": 1.0, "sync_distance": 10.0})
    lab.fill(agent)
    show(agent, rows_like(20, 1, 2) * 100)
    assert agent.inspect().divergence == 0.0  # the target still has the moments of none
    assert agent.learner.blocks == ("torso", "head")
    agent.learn(3)
    moments_of = [lab.weights(agent, name)["normalize/mean"] for name in ("online", "target")]
    assert not np.allclose(*moments_of) and agent.inspect().divergence < 1


@pytest.mark.thorough
def test_rewind_brings_the_moments_back_with_the_weights(lab):
    agent = lab.agent(**NORMAL | {"past_states": 2})
    show(agent, rows_like(20, 1, 2))
    agent.state.snapshot()
    before = agent.state.read().variables
    show(agent, rows_like(20, 1, 2, seed=3) * 2)
    agent.state.rewind()
    after = agent.state.read().variables
    names = {n for n in before if n.startswith(("online/normalize/", "shown/"))}
    assert {"shown/count", "shown/mean", "online/normalize/mean"} <= names
    for name in names:
        np.testing.assert_array_equal(after[name], before[name])


def test_of_several_parts_the_numbers_are_normalized():
    parts, dtype, size = placed(
        [
            Part("picture", (3, 3, 1), np.dtype(np.uint8)),
            Part("place", (2,), np.dtype(np.float32)),
        ]
    )
    config = DqnConfig(**NORMAL, replay_capacity=60, xla=False, past_states=0)
    agent = POOL.agent(config, (size,), dtype, 3, parts=parts)
    rows = np.random.default_rng(0).integers(0, 256, [20, 1, size]).astype(dtype)
    place = next(of for of in parts if of.name == "place")
    place.of(rows)[...] = rows_like(20, 1, 2)
    show(agent, rows)
    agent.rows()
    weights = agent.state.weights()
    assert [n for n in weights if n.startswith("normalize")] == [
        "normalize/place/mean", "normalize/place/scale",
    ]  # fmt: skip
    np.testing.assert_allclose(
        weights["normalize/place/mean"], moments(rows_like(20, 1, 2))[0], rtol=1e-6
    )


def test_each_frame_of_a_stack_counts_once(lab):
    agent = DqnAgent(lab.config(**NORMAL, frame_stack=2), (4,), np.float32, 3)
    rows = rows_like(15, 1, 2)
    before = np.concatenate([np.zeros([1, 1, 2], np.float32), rows[:-1]])
    show(agent, np.concatenate([before, rows], axis=2))
    agent.rows()
    mean, _ = moments(rows)
    np.testing.assert_allclose(
        lab.weights(agent, "online")["normalize/mean"], np.tile(mean, 2), rtol=1e-6
    )


def test_pictures_are_refused(lab):
    with pytest.raises(ConfigError, match="is for numbers, and these observations are uint8"):
        DqnAgent(lab.config(**NORMAL), (4,), np.uint8, 3)


RUN = {
    "env_steps": 400, "hidden": (6,), "batch_size": 8, "replay_capacity": 300, "learn_start": 40,
    "learn_period": 8, "sync_period": 20, "log_period": 200, "eval_period": 300,
    "eval_episodes": 2, "final_eval_episodes": 2, "xla": False, "checkpoint_seconds": 0,
    "checkpoint_steps": 130, "checkpoint_keep": 9, "normalize_observations": True,
}  # fmt: skip
LOOPS = {
    "plain": {"num_envs": 2},
    "waiting rows": {"learn_period": 40},
    "concurrent": {"loop": "concurrent", "learn_period": 16},
    # Rows alone change their weights for long, and most actions are by these.
    "actors": {
        "loop": "remote", "actors": 2, "actor_steps": 5, "learn_start": 300, "epsilon": 0.1,
        "hidden": (32, 32), "seed": 3,
    },
    "in the graph": {
        "loop": "compiled",
        "env_id": "InGraph/CartPole-v1",
        "num_envs": 2,
        "chunk": 40,
    },
}  # fmt: skip


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("loop", LOOPS)
def test_it_resumes_and_replays_and_policies_are_frozen(loop, tmp_path, none_left_out):
    how = {"console": None} | ({"ray": "off"} if loop == "actors" else {})
    whole = train(DqnConfig(**RUN | LOOPS[loop]), tmp_path / "whole", **how)
    shutil.copytree(whole.run, tmp_path / "cut")
    for number in CheckpointStore(tmp_path / "cut/checkpoints")._numbers()[1:]:
        shutil.rmtree(tmp_path / f"cut/checkpoints/{number:08d}")
    assert resume(tmp_path / "cut", **how).digest == whole.digest
    assert repeat(whole.run, console=None).identical
    with load_policy(whole.run) as policy:
        state = np.float32([0.1, -0.5, 0.02, 0.3])
        first = policy.q_values(state)
        policy(np.float32([3, 3, 3, 3]))
        np.testing.assert_array_equal(policy.q_values(state), first)
