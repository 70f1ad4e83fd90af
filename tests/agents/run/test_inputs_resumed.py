"""Frames, parts, masks, memory and normalized numbers together: exact when resumed and replayed."""

import shutil

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.host import read_host
from targetnet.rl_core.checkpoint.store import CheckpointStore

SHORT = {
    "env_id": "tests.agents.signals:Signals-v0", "env_steps": 300, "hidden": (8,), "batch_size": 6,
    "replay_capacity": 90, "learn_start": 40, "updates_per_learn": 1,
    "learn_period": 4, "learning_rate": 0.01,
    "sync_period": 20, "log_period": 200, "eval_period": 170, "eval_episodes": 2,
    "final_eval_episodes": 2, "past_states": 0, "xla": False, "epsilon": 0.3,
    "checkpoint_seconds": 0, "checkpoint_steps": 60, "checkpoint_keep": 9,
}  # fmt: skip
MASKS = {"env_kwargs": {"masks": True}}
PARTS = {"env_kwargs": {"parts": True}, "network": "minatar"}
BOTH = {"env_kwargs": {"masks": True, "parts": True}, "part_networks": {"camera": "minatar"}}
NORMAL = {"normalize_observations": True}
FRAMES = {"frame_stack": 3}
MEMORY = {
    "recurrent": "gru", "recurrent_units": 4, "sequence_length": 4, "burn_in": 2, "learn_period": 8,
}  # fmt: skip
CONCURRENT = {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 4}
ACTORS = {"loop": "remote", "actors": 2, "actor_steps": 8}
IN_GRAPH = {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 40, "num_envs": 2}

# As configs/atari-qrdqn.toml, small.
ATARI = {
    "env_id": "ALE/Pong-v5", "env_wrapper": "atari", "frame_stack": 4, "network": "nature",
    "env_kwargs": {"frameskip": 1, "repeat_action_probability": 0.25}, "reward_clip": 1.0,
    "head": "quantile", "quantiles": 5, "n_step": 3, "prioritized": True, "learn_period": 8,
    "eval_max_steps": 30,
}  # fmt: skip

KINDS = {
    "memory, parts, masks, normalized": MEMORY | BOTH | NORMAL,
    "Atari": ATARI,
    "parts": PARTS,
    "frames, masks": FRAMES | MASKS | {"num_envs": 3, "n_step": 2},
    "frames, normalized": FRAMES | NORMAL,
}
SLOW = {
    "memory, masks": MEMORY | MASKS | {"num_envs": 2, "prioritized": True},
    "memory, parts": MEMORY | PARTS | {"recurrent": "lstm", "n_step": 2},
    "memory, normalized": MEMORY | NORMAL | {"num_envs": 2},
    "memory, masks, concurrent": MEMORY | MASKS | CONCURRENT | {"num_envs": 2, "n_step": 2},
    "memory, frames, masks, normalized, concurrent": MEMORY | FRAMES | MASKS | NORMAL | CONCURRENT,
    "memory, normalized, in the graph": MEMORY | FRAMES | NORMAL | IN_GRAPH,
    "memory, masks, in processes": MEMORY | MASKS | {"num_envs": 2, "vectorization": "async"},
    "parts, masks, normalized, actors": BOTH | NORMAL | ACTORS | {"epsilon": 0.1},
    "parts, masks, concurrent": BOTH | CONCURRENT,
    "parts, masks, in processes": BOTH | {"num_envs": 2, "vectorization": "async"},
    "frames, masks, normalized, actors": FRAMES | MASKS | NORMAL | ACTORS,
    "frames, masks, concurrent": FRAMES | MASKS | CONCURRENT | {"prioritized": True},
    "frames, normalized, in the graph": FRAMES | NORMAL | IN_GRAPH,
    "frames, masks, waiting rows": FRAMES | MASKS | {"learn_period": 24, "updates_per_learn": 3},
    "frames, waiting rows": FRAMES | {"learn_period": 24, "updates_per_learn": 3},
}


def cut_within_an_episode(run, to):
    """Copies a run with one checkpoint alone, of the middle of the run and of an episode."""
    shutil.copytree(run, to)
    store, found = CheckpointStore(to / "checkpoints"), []
    for number in reversed(store._numbers()):
        host = read_host(store.latest())
        (lanes,) = host.envs.values() if host.envs else [()]  # those in the graph have none
        if 50 < host.loop.env_step < 250 and (not lanes or any(of.actions for of in lanes)):
            found.append(number)
        shutil.move(to / f"checkpoints/{number:08d}", to / f"{number:08d}")
    shutil.move(to / f"{found[0]:08d}", to / f"checkpoints/{found[0]:08d}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)])
def test_resumed_within_an_episode_it_is_the_same_run(kind, tmp_path, none_left_out):
    of = DqnConfig(**SHORT | (KINDS | SLOW)[kind])
    how = {"console": None} | ({"ray": "off"} if of.loop == "remote" else {})
    if of.env_wrapper == "atari":
        pytest.importorskip("ale_py")
    whole = train(of, tmp_path / "whole", **how)
    assert whole.updates > 20
    cut_within_an_episode(whole.run, tmp_path / "cut")
    again = resume(tmp_path / "cut", **how)
    assert again.digest == whole.digest and again.returns == whole.returns
    assert repeat(whole.run, console=None).identical
