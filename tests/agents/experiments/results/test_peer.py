"""The peer's environment and its worker, as far as they can be seen without torch."""

import gymnasium
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.results import peer, sb3_worker
from targetnet.rl_core.seal import sealed_row


def test_the_environment_is_made_once_torch_first(tmp_path):
    venv, logs = tmp_path / "venv", tmp_path / "logs"
    commands = [job.command for job in peer.venv_jobs(venv, logs)]
    assert commands[0][1:] == ["-m", "venv", "--clear", str(venv)]
    assert [c[0] for c in commands[1:]] == [str(venv / "bin" / "python")] * 3
    assert commands[1][-1].startswith("torch==")
    assert commands[2][-2].startswith("stable-baselines3==")
    venv.mkdir()
    assert len(peer.venv_jobs(venv, logs)) == 4  # one that was given up half-way is made again
    (venv / "ready").touch()
    assert peer.venv_jobs(venv, logs) == []


def test_a_workers_progress_is_read_from_its_log(tmp_path):
    job = peer.peer_job(tmp_path, "sb3", DqnConfig(), 3, tmp_path / "3.json")
    assert job.progress() is None
    (tmp_path / "3.log").write_text("hello\nenv step 2,500 of 50,000: greedy return 9.1\n")
    assert job.progress() == (2_500, 50_000)
    told = ["CartPole-v1", "--seed", "3", "--out", str(tmp_path / "3.json")]
    assert job.command[2:-1] == [*told, "--processor"]


def test_a_peer_with_its_defaults_gets_our_env_and_as_many_env_steps(tmp_path):
    config = DqnConfig(
        env_id="chains:Chain-v0",
        env_steps=700,
        env_kwargs={"length": 3},
        env_wrapper=("chains:Inner", "chains:Outer"),
    )
    job = peer.peer_job(tmp_path, "sb3-defaults", config, 3, tmp_path / "3.json")
    given = dict(zip(job.command[-6::2], job.command[-5::2], strict=True))
    assert given == {
        "--env-steps": "700",
        "--env-kwargs": '{"length": 3}',
        "--env-wrappers": '["chains:Inner", "chains:Outer"]',
    }
    assert job.command[-7] == "--defaults"
    assert peer.is_known("sb3-defaults", "chains:Chain-v0")
    assert not peer.is_known("sb3", "chains:Chain-v0")


def test_an_env_gets_its_wrappers_in_their_order():
    env = sb3_worker.made(
        "CartPole-v1",
        {"max_episode_steps": 9},
        ["gymnasium.wrappers:FlattenObservation", "gymnasium.wrappers:NormalizeReward"],
    )
    assert type(env) is gymnasium.wrappers.NormalizeReward
    assert type(env.env) is gymnasium.wrappers.FlattenObservation
    assert env.spec.max_episode_steps == 9


def test_every_env_has_every_setting():
    (keys,) = {tuple(settings) for settings in sb3_worker.SETTINGS.values()}
    assert len(keys) == 11


class Countdown:
    """Episodes of lengths 1, 2, 3, 1, 2, ..., each step worth 1; half of them are cut short."""

    def __init__(self):
        self.episode, self.left, self.resets = -1, 0, []

    def reset(self, seed=None):
        self.episode += 1
        self.left = self.episode % 3 + 1
        self.resets.append(seed)
        return np.float32([self.left]), {}

    def step(self, action):
        self.left -= 1
        over = self.left == 0
        ends = (over, False) if self.episode % 2 else (False, over)
        return np.float32([self.left]), 1.0, *ends, {}

    def close(self):
        pass


def test_which_env_plays_how_many_episodes_is_fixed_beforehand():
    envs = []

    def make():
        envs.append(Countdown())
        return envs[-1]

    returns = sb3_worker.play(lambda observations: np.zeros(len(observations), int), make, 0, 25)
    # Of ten envs five play three episodes (returns 1, 2, 3), five play two (1, 2).
    assert sorted(returns) == [1.0] * 10 + [2.0] * 10 + [3.0] * 5
    assert len(envs) == 10
    seeds = [env.resets[0] for env in envs]
    assert len(set(seeds)) == 10 and all(env.resets[1] is None for env in envs)


def test_evaluation_episodes_depend_on_the_runs_seed_alone():
    seeds = [sb3_worker._episode_seed(seed, 0) for seed in (0, 0, 1)]
    assert seeds[0] == seeds[1] != seeds[2]


class Model:
    """Plays action 0; `num_timesteps` is set by the test."""

    num_timesteps = 0

    def predict(self, observations, deterministic):
        assert deterministic
        return np.zeros(len(observations), int), None


def test_the_curve_has_a_point_every_twentieth_and_none_after_the_end():
    curve, model = sb3_worker._Curve(lambda: gymnasium.make("CartPole-v1"), 0, 40), Model()
    for step in range(1, 45):
        model.num_timesteps = step
        assert curve({"self": model}, {}) is True
    assert [step for step, _ in curve.points] == list(range(2, 41, 2))
    assert len({value for _, value in curve.points}) == 1  # the same episodes every time
    assert curve.seconds > 0


@pytest.mark.parametrize("place", [".", "new/directory"])
def test_a_result_appears_whole(tmp_path, place):
    path = tmp_path / place / "0.json"
    sb3_worker.write_whole(path, {"seed": 0})
    assert path.read_bytes() == sealed_row({"seed": 0})
    assert [p.name for p in path.parent.iterdir() if p.is_file()] == ["0.json"]
