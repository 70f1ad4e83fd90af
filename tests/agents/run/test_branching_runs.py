"""Runs whose actions are several numbers: exact in every loop, and used afterwards."""

import json

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.evaluation import evaluate
from targetnet.agents.policy.export import export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.population.train import train_population
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.errors import BoundsError, ConfigError, RlCoreError
from tests.agents.lamps import Lamps, Levers
from tests.agents.run.interrupting import Crash

LAMPS, LEVERS = "tests.agents.lamps:Lamps-v0", "tests.agents.lamps:Levers-v0"
SHORT = {
    "env_id": LAMPS,
    "env_steps": 400,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 150,
    "learn_start": 40,
    "updates_per_learn": 1,
    "learn_period": 2,
    "learning_rate": 0.01,
    "sync_period": 37,
    "log_period": 200,
    "eval_period": 300,
    "eval_episodes": 2,
    "final_eval_episodes": 2,
    "xla": False,
    "epsilon": 0.3,
    "checkpoint_seconds": 0,
    "checkpoint_steps": 130,
}
KINDS = {
    "concurrent, masks": {"loop": "concurrent", "learn_period": 16, "env_id": LEVERS},
    "one env": {"prioritized": True, "dueling": True, "head_hidden": (6,)},
    "bits, three envs": {"num_envs": 3, "env_kwargs": {"binary": True}, "double": True},
    "masks": {"env_id": LEVERS, "num_envs": 2, "n_step": 3},
    "waiting rows": {"learn_period": 8, "updates_per_learn": 4, "frame_stack": 2},
    "masks in processes": {"env_id": LEVERS, "num_envs": 2, "vectorization": "async"},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8},
    "actors": {"loop": "remote", "actors": 2, "actor_steps": 8, "dueling": True},
    "actors, masks": {"loop": "remote", "actors": 2, "actor_steps": 8, "env_id": LEVERS},
}  # fmt: skip


def config(**settings):
    return DqnConfig(**(SHORT | settings))


FAST = ("concurrent, masks", "one env")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [k if k in FAST else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]
)
def test_killed_and_resumed_it_is_the_same_run_and_its_replay_too(tmp_path, pool, kind):
    how = {"console": None} | ({"ray": "off"} if KINDS[kind].get("loop") == "remote" else {})

    def steer(agent, tick):
        if 100 < tick.env_step < 140:
            agent.hyperparameters["sync_period"] = 11

    def crashing(agent, tick):
        steer(agent, tick)
        if tick.env_step > 237:
            raise Crash

    straight = train(config(**KINDS[kind]), tmp_path / "straight", on_tick=steer, **how)
    pool.take_back()
    with pytest.raises(Crash):
        train(config(**KINDS[kind]), tmp_path / "broken", on_tick=crashing, **how)
    broken = resume(tmp_path / "broken", **how)
    pool.take_back()
    assert broken.digest == straight.digest and broken.returns == straight.returns
    assert straight.updates > 20
    assert repeat(tmp_path / "broken").identical


@pytest.fixture(scope="module")
def runs(tmp_path_factory, pool):
    """A run of each env; look, do not touch."""
    place = tmp_path_factory.mktemp("runs")
    with pool.open():
        return {
            "lamps": train(config(), place / "lamps", console=None).run,
            "bits": train(config(env_kwargs={"binary": True}), place / "bits", console=None).run,
            "levers": train(config(env_id=LEVERS), place / "levers", console=None).run,
        }


@pytest.mark.slow
def test_members_have_the_bits_of_runs_alone(tmp_path, pool):
    outcome = train_population(config(xla=True), tmp_path / "several", seeds=2, console=None)
    pool.take_back()
    for seed, member in enumerate(outcome.members.values()):
        alone = train(config(xla=True, seed=seed), tmp_path / f"alone_{seed}", console=None)
        assert member.digest == alone.digest


@pytest.mark.slow
def test_a_loaded_policy_gives_the_actions_of_the_env(runs):
    with load_policy(runs["bits"]) as policy:
        assert (policy.num_actions, policy.branches) == (18, (2,) * 9)
        env = Lamps(binary=True)
        seen, _ = env.reset(seed=0)
        action = policy(seen)
        assert env.action_space.contains(action) and action.dtype == np.int8
        env.step(action)
        several = policy(np.stack([seen, 1 - seen]))
        assert several.shape == (2, 9) and (several[0] == action).all()
        q = policy.q_values(seen)
        assert (q.reshape(9, 2).argmax(axis=1) == action).all()


def test_a_loaded_policy_takes_masks_as_the_env_gives_them(runs):
    with load_policy(runs["levers"]) as policy:
        env = Levers()
        seen, info = env.reset(seed=0)
        for _ in range(20):
            action = policy(seen, info["action_mask"])
            flat = np.concatenate(info["action_mask"])
            assert (policy(seen, flat) == action).all()
            assert policy(seen[None], flat[None]).tolist() == [action.tolist()]
            seen, _, _, _, info = env.step(action)  # refuses what is not legal
        with pytest.raises(BoundsError, match="at least one 1 in each of 3 branches"):
            policy(seen, [1, 1, 1, 0, 1, 1, 1, 1])
        with pytest.raises(BoundsError, match="shapes"):
            policy(seen, info["action_mask"][:2])
        with pytest.raises(RlCoreError, match="pass action_mask"):
            policy(seen)


def test_evaluation_plays_what_the_policy_says(runs):
    with load_policy(runs["lamps"]) as policy:
        returns = evaluate(policy, config(), 5)
    assert len(returns) == 5 and all(0 < of < 20 for of in returns)
    assert returns.lengths == [20] * 5


def test_eval_and_status_are_told_by_the_command(runs, capsys):
    with load_policy(runs["levers"]) as policy:
        mean = np.mean(evaluate(policy, config(env_id=LEVERS), 2))
    assert main(["eval", str(runs["levers"]), "--episodes", "2"]) == 0
    assert f"greedy return {mean:.1f} +- " in capsys.readouterr().out
    assert main(["status", str(runs["levers"])]) == 0
    out = capsys.readouterr().out
    assert "finished" in out and "env step 400 of 400" in out


def test_an_exported_policy_gives_the_numbers_of_the_env(runs, tmp_path):
    out = export(runs["levers"], "savedmodel", tmp_path / "out")
    told = json.loads((out / "policy.json").read_text())
    assert told["outputs"]["action"] == "int64 [batch, 3]" and told["branches"] == [3, 1, 4]
    env, seen, masks, wanted = Levers(), [], [], []
    observation, info = env.reset(seed=1)
    with load_policy(runs["levers"]) as policy:
        for _ in range(30):
            seen.append(observation)
            masks.append(np.concatenate(info["action_mask"]).astype(bool))
            wanted.append(policy(observation, masks[-1]))
            observation, _, _, _, info = env.step(wanted[-1])
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.load(session, ["serve"], str(out / "model"))
        signature = loaded.signature_def["serving_default"]
        fed = {
            signature.inputs["observation"].name: np.array(seen),
            signature.inputs["action_mask"].name: np.array(masks),
        }
        action = session.run(signature.outputs["action"].name, fed)
    assert action.dtype == np.int64
    np.testing.assert_array_equal(action, wanted)


@pytest.mark.cases(0)
@pytest.mark.parametrize("action", [1, [0, 0, 7], [0, 0], [0, 0, -1]], ids=str)
def test_a_checkpoint_with_other_actions_is_refused(tmp_path, monkeypatch, action):
    def crashing(agent, tick):
        if tick.env_step > 150:
            raise Crash

    with pytest.raises(Crash):
        train(
            config(env_id=LEVERS, env_kwargs={"masks": False}), tmp_path / "run", on_tick=crashing
        )
    latest = CheckpointStore.latest

    def other(store):
        checkpoint = latest(store)
        for lane in checkpoint.host["envs"]["lanes"]:
            lane["actions"] = [action] * 3
        return checkpoint

    monkeypatch.setattr(CheckpointStore, "latest", other)
    with pytest.raises(
        CheckpointError, match=r"none of the vectors of 3 numbers below \[3, 1, 4\]"
    ):
        resume(tmp_path / "run")


@pytest.mark.parametrize("how", [{}, {"loop": "remote", "actors": 2, "actor_steps": 8}], ids=str)
def test_what_cannot_be_learned_is_one_line_and_leaves_nothing(tmp_path, how):
    ray = {"ray": "off"} if how else {}
    with pytest.raises(ConfigError, match="leave munchausen out"):
        train(config(munchausen=True, **how), tmp_path / "run", **ray)
    assert not (tmp_path / "run").exists()


def test_a_wrong_mask_ends_the_command_with_one_line(tmp_path, capsys):
    class Wrong(Levers):
        def _show(self):
            observation, info = super()._show()
            return observation, {"action_mask": info["action_mask"][:2]}

    gym.register("WrongLevers-v0", Wrong)
    try:
        code = main(
            ["train", "cartpole", "--run", str(tmp_path / "run"), "--set", "env_id=WrongLevers-v0"]
        )
    finally:
        gym.registry.pop("WrongLevers-v0")
    err = capsys.readouterr().err
    assert code == 2 and "in each of 3 branches" in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
