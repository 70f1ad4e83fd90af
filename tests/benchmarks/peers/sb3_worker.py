"""Stable-Baselines3's DQN as a worker, or that of SBX, which is used the same way.

    {"library": "stable_baselines3", "kind": "train", "learn_period": 1, ...}
    {"library": "stable_baselines3", "kind": "learn", "images": "nature", ...}
    {"library": "stable_baselines3", "kind": "atari", "env_id": "ALE/Pong-v5", ...}

Training is `model.learn`, on one CartPole-v1 or on several ("envs"); learning is `model.train` on a
replay full of random frames, which are stored channels first, as this library keeps them.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from protocol import Work, serve, use_checker

PACKAGES = ("stable_baselines3", "torch", "gymnasium", "numpy")
# Observations as stored, and how many of them.
IMAGES = {"nature": ((4, 84, 84), np.uint8), "minatar": ((4, 10, 10), np.bool_)}


def training(setup: dict[str, Any]) -> Work:
    import gymnasium
    from stable_baselines3.common.env_util import make_vec_env

    library, envs = setup["library"], setup.get("envs", 1)
    # Here the target's period is in env steps, and that of learning in steps of all envs.
    period = setup["sync_period"] * setup["learn_period"] // setup["updates_per_learn"]
    model = importlib.import_module(library).DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", envs) if envs > 1 else gymnasium.make("CartPole-v1"),
        learning_rate=1e-3,
        buffer_size=setup["capacity"],
        learning_starts=setup["learn_start"],
        batch_size=setup["batch_size"],
        train_freq=setup["learn_period"] // envs,
        gradient_steps=setup["updates_per_learn"],
        target_update_interval=period,
        exploration_initial_eps=setup["epsilon"],
        exploration_final_eps=setup["epsilon"],
        policy_kwargs={"net_arch": setup["hidden"]},
        device="cpu",
        seed=0,
    )
    more = () if library == "stable_baselines3" else ("sbx-rl", "jax")
    return work_of(model, setup, (*more, *PACKAGES))


def atari(setup: dict[str, Any]) -> Work:
    """Training on one of ALE's games, behind the wrappers that ours has; the replay is full."""
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
    from stable_baselines3 import DQN

    gymnasium.register_envs(ale_py)
    env = gymnasium.make(setup["env_id"], frameskip=1, repeat_action_probability=0.25)
    env = FrameStackObservation(AtariPreprocessing(env, noop_max=0), 4, padding_type="zero")
    model = DQN(
        "CnnPolicy",
        env,
        learning_rate=6.25e-5,
        buffer_size=setup["capacity"],
        learning_starts=setup["learn_start"],
        batch_size=setup["batch_size"],
        train_freq=setup["learn_period"],
        target_update_interval=setup["sync_period"] * setup["learn_period"],
        exploration_initial_eps=setup["epsilon"],
        exploration_final_eps=setup["epsilon"],
        # The next observation is that of the next row, as here: it halves the memory.
        optimize_memory_usage=True,
        replay_buffer_kwargs={"handle_timeout_termination": False},
        device="cpu",
        seed=0,
    )
    fill(model.replay_buffer, int(env.action_space.n))
    return work_of(model, setup, (*PACKAGES, "ale-py"))


def work_of(model: Any, setup: dict[str, Any], packages: tuple[str, ...]) -> Work:
    """The work of `model.learn`."""

    def run(count: int) -> tuple[int, int]:
        env_steps, updates = model.num_timesteps, model._n_updates
        model.learn(count, reset_num_timesteps=False)
        return model.num_timesteps - env_steps, model._n_updates - updates

    run(setup["warm_up"])
    return Work(run, setup["learn_period"], packages)


def learning(setup: dict[str, Any]) -> Work:
    from stable_baselines3 import DQN
    from stable_baselines3.common.logger import configure

    shape, dtype = IMAGES[setup["images"]]
    nature = setup["images"] == "nature"
    kwargs = {} if nature else {"features_extractor_class": minatar_extractor(), "net_arch": []}
    model = DQN(
        "CnnPolicy" if nature else "MlpPolicy",
        frames_env(shape, dtype, setup["actions"]),
        learning_rate=2.5e-4,
        buffer_size=setup["capacity"],
        policy_kwargs=kwargs,
        device="cpu",
        seed=0,
    )
    model.set_logger(configure(None, []))
    fill(model.replay_buffer, setup["actions"])

    def run(count: int) -> tuple[int, int]:
        updates = model._n_updates
        model.train(gradient_steps=count, batch_size=setup["batch_size"])
        return 0, model._n_updates - updates

    run(setup["warm_up"])
    return Work(run, 1, PACKAGES)


def fill(buffer: Any, num_actions: int) -> None:
    """With random frames, row by row: all at once would count as memory that the peer needs."""
    rng = np.random.default_rng(0)
    highest = 2 if buffer.observations.dtype == bool else 256
    following = [] if buffer.optimize_memory_usage else [buffer.next_observations]
    for i in range(buffer.buffer_size):
        for column in (buffer.observations, *following):
            column[i] = rng.integers(0, highest, column[i].shape).astype(column.dtype)
    buffer.actions[:] = rng.integers(0, num_actions, buffer.actions.shape)
    buffer.rewards[:] = rng.random(buffer.rewards.shape)
    buffer.dones[:] = rng.random(buffer.dones.shape) < 0.01
    buffer.full = True


def frames_env(shape: tuple[int, ...], dtype: Any, num_actions: int) -> Any:
    """An env that only says what its observations look like."""
    import gymnasium

    class Frames(gymnasium.Env):
        high = 1 if dtype == np.bool_ else 255
        observation_space = gymnasium.spaces.Box(0, high, shape, dtype)
        action_space = gymnasium.spaces.Discrete(num_actions)

    return Frames()


def minatar_extractor() -> type:
    """16 filters 3x3 and 128 units, as our minatar network."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class MinAtar(BaseFeaturesExtractor):
        def __init__(self, observation_space: Any) -> None:
            super().__init__(observation_space, 128)
            planes, height, width = observation_space.shape
            self.layers = torch.nn.Sequential(
                torch.nn.Conv2d(planes, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                torch.nn.Linear(16 * (height - 2) * (width - 2), 128), torch.nn.ReLU(),
            )  # fmt: skip

        def forward(self, observations: Any) -> Any:
            return self.layers(observations)

    return MinAtar


def make(setup: dict[str, Any]) -> Work:
    import torch

    use_checker(setup.get("checker", False))
    torch.set_num_threads(setup["threads"])
    return {"train": training, "learn": learning, "atari": atari}[setup["kind"]](setup)


if __name__ == "__main__":
    serve(make)
