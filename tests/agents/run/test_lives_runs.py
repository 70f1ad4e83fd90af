"""Runs in which lost lives are ends for the learner alone: exact, and told by whole games."""

import shutil

import minari
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.record import record
from targetnet.agents.loops.evaluation import evaluate
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from tests.envs.lives import ID

SHORT = {
    "env_id": ID, "env_kwargs": {"by_chance": True}, "env_steps": 420, "hidden": (6,),
    "batch_size": 6, "replay_capacity": 300, "learn_start": 40, "updates_per_learn": 1,
    "learn_period": 8,
    "learning_rate": 0.01, "sync_period": 20, "log_period": 200, "eval_period": 300,
    "eval_episodes": 2, "final_eval_episodes": 4, "xla": False, "epsilon": 0.3,
    "checkpoint_seconds": 0, "checkpoint_steps": 47, "checkpoint_keep": 100,
}  # fmt: skip
MEMORY = {"recurrent": "gru", "recurrent_units": 4, "sequence_length": 6, "burn_in": 3}
KINDS = {
    "plain": {"n_step": 3, "frame_stack": 2},
    "three envs": {"num_envs": 3, "prioritized": True},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "num_envs": 2},
    "memory": MEMORY,
    "actors": {"loop": "remote", "actors": 2, "actor_steps": 5, "num_envs": 2},
}


def config(**settings):
    return DqnConfig(**SHORT | settings)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("kind", KINDS)
def test_it_resumes_and_replays_to_the_bit(kind, tmp_path, none_left_out):
    how = {"console": None} | ({"ray": "off"} if kind == "actors" else {})
    whole = train(config(**KINDS[kind]), tmp_path / "whole", **how)
    assert repeat(whole.run, console=None).identical
    numbers = CheckpointStore(whole.run / "checkpoints")._numbers()
    assert len(numbers) > 4
    for last in numbers[1:5]:  # in the middle of different lives
        cut = tmp_path / f"cut-{last}"
        shutil.copytree(whole.run, cut)
        for number in numbers:
            if number > last:
                shutil.rmtree(cut / f"checkpoints/{number:08d}")
        assert resume(cut, **how).digest == whole.digest


@pytest.mark.slow
def test_a_dataset_has_an_episode_for_each_life_and_is_learned_from(tmp_path):
    run = train(config(), tmp_path / "run", console=None).run
    of_policy = record(run, tmp_path / "policy-v0", episodes=4)
    of_replay = record(run, tmp_path / "replay-v0", replay=True)
    for made in (of_policy, of_replay):
        episodes = [*minari.MinariDataset(made.path / "data")]
        terminated = [bool(episode.terminations[-1]) for episode in episodes]
        assert all(terminated[:-1]) and len(episodes) == made.episodes >= 12
        # Two lives in three begin with what the one before them ended with.
        first, last = ([tuple(of.observations[at]) for of in episodes] for at in (0, -1))
        assert len({*first} & {*last}) >= len(episodes) // 2
        offline = config(offline=str(made.path), env_steps=60, checkpoint_steps=0)
        outcome = train(offline, tmp_path / f"from-{made.path.name}", console=None)
        assert outcome.updates > 0
    # Of the policy's four games each has three lives.
    assert of_policy.episodes == 12


@pytest.mark.thorough
def test_an_evaluation_and_a_policy_of_a_run_are_of_whole_games(tmp_path):
    outcome = train(config(env_steps=60), tmp_path / "run", console=None)
    with load_policy(outcome.run) as policy:
        returns = evaluate(policy, policy.config, 10)
    # A life lasts five steps in the mean, and a game three lives.
    assert len(returns) == 10 and 8 < sum(returns.lengths) / 10 < 30
    assert [n * (n + 1) / 2 for n in returns.lengths] == list(returns)
