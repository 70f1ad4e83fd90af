"""Trains Stable-Baselines3's DQN: one env, one seed, one JSON.

    python sb3_worker.py CartPole-v1 --seed 0 --out 0.json         # settings of rl-baselines3-zoo
    python sb3_worker.py MyEnv-v0 --env-steps 50000 --defaults --seed 0 --out 0.json

The script runs under an interpreter with torch, stable_baselines3 and gymnasium. It imports nothing
from this project, so each side can be installed without the other.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = "https://github.com/DLR-RM/rl-baselines3-zoo/blob/22e3ff2/hyperparams/dqn.yml"
EPISODES, CURVE_EPISODES, CURVE_POINTS = 100, 10, 20
_AT_ONCE = 10  # envs; one call of the network acts for all of them
_SEED_OFFSET = 1_000_003  # as in targetnet.agents.loops.evaluation
_THREADS = 1

_LUNAR_LANDER: dict[str, Any] = {
    "env_steps": 100_000, "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000,
    "learning_starts": 0, "gamma": 0.99, "target_update_interval": 250, "train_freq": 4,
    "gradient_steps": -1, "exploration_fraction": 0.12, "exploration_final_eps": 0.1,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "env_steps": 50_000, "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000,
        "learning_starts": 1_000, "gamma": 0.99, "target_update_interval": 10, "train_freq": 256,
        "gradient_steps": 128, "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
    },
    "Acrobot-v1": _LUNAR_LANDER,
    "MountainCar-v0": {
        "env_steps": 120_000, "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000,
        "learning_starts": 1_000, "gamma": 0.98, "target_update_interval": 600, "train_freq": 16,
        "gradient_steps": 8, "exploration_fraction": 0.2, "exploration_final_eps": 0.07,
    },
    "LunarLander-v3": _LUNAR_LANDER,
}  # fmt: skip


def run(
    env_id: str,
    make: Callable[[], Any],
    seed: int,
    env_steps: int,
    settings: dict[str, Any],
    processor: str,
) -> dict[str, Any]:
    """Trains an agent, plays greedily, and returns the contents of the JSON file.

    Args:
      env_id: the env's name in the file.
      make: makes a new env.
      seed: of the run.
      env_steps: to train.
      settings: of the zoo; none: the library's defaults.
      processor: noted in the file.
    """
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(_THREADS)
    network = {"policy_kwargs": {"net_arch": [256, 256]}} if settings else {}
    model = DQN("MlpPolicy", make(), seed=seed, device="cpu", **network, **settings)
    curve = _Curve(make, seed, env_steps)
    start = time.perf_counter()
    model.learn(env_steps, callback=curve)
    train_seconds = time.perf_counter() - start - curve.seconds
    returns = greedy_returns(model, make, seed, EPISODES)
    mean = float(np.mean(returns))
    episodes = [episode["r"] for episode in model.ep_info_buffer]
    return {
        "env_id": env_id,
        "seed": seed,
        "env_steps": model.num_timesteps,
        "updates": model._n_updates,
        "mean": mean,
        "std": float(np.std(returns)),
        "low": min(returns),
        "high": max(returns),
        "curve": [*curve.points, (model.num_timesteps, mean)],
        "seconds": train_seconds,
        "training": float(np.mean(episodes)) if episodes else None,
        "returns": returns,
        "cut": 0,
        "settings": {"env_steps": env_steps} | settings | settings_of(model),
        "source": SOURCE if settings else None,
        "versions": versions(),
        "processor": processor,
        "date": time.strftime("%Y-%m-%d"),
    }


def settings_of(model: Any) -> dict[str, Any]:
    """Returns the settings that the zoo leaves at the library's defaults."""
    optimizer = model.policy.optimizer
    return {
        "net_arch": model.policy.net_arch,
        "activation": model.policy.q_net.activation_fn.__name__,
        "optimizer": type(optimizer).__name__,
        "adam_epsilon": optimizer.defaults["eps"],
        "loss": "smooth L1",
        "max_grad_norm": model.max_grad_norm,
        "tau": model.tau,
        "exploration_initial_eps": model.exploration_initial_eps,
        "n_envs": model.n_envs,
        "threads": _THREADS,
    }


class _Curve:
    """Callback for `learn` that plays greedy episodes 20 times per run and measures their time."""

    def __init__(self, make: Callable[[], Any], seed: int, env_steps: int) -> None:
        self.points: list[tuple[int, float]] = []
        self.seconds = 0.0
        self._make, self._seed = make, seed
        self._period = max(1, env_steps // CURVE_POINTS)
        self._end = env_steps

    def __call__(self, local: dict[str, Any], _: dict[str, Any]) -> bool:
        model = local["self"]
        step = model.num_timesteps
        # Training ends with a whole `train_freq`, so it may go slightly beyond the last point.
        if step % self._period == 0 and step <= self._end:
            start = time.perf_counter()
            returns = greedy_returns(model, self._make, self._seed, CURVE_EPISODES)
            self.points.append((step, float(np.mean(returns))))
            print(f"env step {step:,} of {self._end:,}: greedy return {self.points[-1][1]:,.1f}")
            self.seconds += time.perf_counter() - start
        return True


def greedy_returns(model: Any, make: Callable[[], Any], seed: int, episodes: int) -> list[float]:
    """Plays `episodes` greedy episodes on new envs and returns their undiscounted returns."""
    return play(
        lambda observations: model.predict(observations, deterministic=True)[0],
        make,
        seed,
        episodes,
    )


def made(env_id: str, env_kwargs: dict[str, Any], wrappers: list[str]) -> Any:
    """Makes an env in its wrappers, "module:name", the innermost first."""
    import gymnasium

    if env_id.startswith("MinAtar/"):  # gymnasium does not call it by itself
        importlib.import_module("minatar.gym").register_envs()
    env = gymnasium.make(env_id, **env_kwargs)
    for wrapper in wrappers:
        module, _, name = wrapper.partition(":")
        env = getattr(importlib.import_module(module), name)(env)
    return env


def play(
    act: Callable[[np.ndarray], np.ndarray], make: Callable[[], Any], seed: int, episodes: int
) -> list[float]:
    """Plays `episodes` episodes and returns their returns.

    Each env plays a share that is fixed beforehand, so short episodes are not over-represented.

    Args:
      act: maps observations [M, ...] to actions [M].
      make: makes a new env.
      seed: seed of the run; the seeds of the episodes are derived from it.
      episodes: number of episodes.
    """
    envs = [make() for _ in range(min(episodes, _AT_ONCE))]
    left = [len(range(number, episodes, len(envs))) for number in range(len(envs))]
    returns: list[float] = []
    so_far = [0.0] * len(envs)
    observations = [
        env.reset(seed=_episode_seed(seed, number))[0] for number, env in enumerate(envs)
    ]
    while any(left):
        playing = [number for number, episodes_left in enumerate(left) if episodes_left]
        actions = act(np.stack([observations[number] for number in playing]))  # [M]
        for number, action in zip(playing, actions, strict=True):
            step = envs[number].step(action)
            observations[number], reward, terminated, truncated, _ = step
            so_far[number] += float(reward)
            if terminated or truncated:
                returns.append(so_far[number])
                so_far[number] = 0.0
                left[number] -= 1
                observations[number] = envs[number].reset()[0]
    for env in envs:
        env.close()
    return returns


def _episode_seed(seed: int, number: int) -> int:
    return int(np.random.SeedSequence([seed + _SEED_OFFSET, number]).generate_state(1)[0])


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that decide the result."""
    names = ("stable_baselines3", "torch", "gymnasium", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def write_whole(path: Path, result: dict[str, Any]) -> None:
    """Writes a row completely or not at all, with the seal of targetnet.rl_core.seal."""
    seal = hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(result | {"seal": seal}) + "\n")
    temporary.replace(path)


def main() -> None:
    """Trains one seed and writes its result to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("env_id")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--env-steps", type=int, help="env steps to train; by default the zoo's number"
    )
    parser.add_argument(
        "--defaults", action="store_true", help="the library's own settings, not the zoo's"
    )
    parser.add_argument("--env-kwargs", type=json.loads, default={}, help="as JSON")
    parser.add_argument("--env-wrappers", type=json.loads, default=[], help="as JSON")
    parser.add_argument("--processor", default="", help="noted in the result")
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    settings = {} if args.defaults else dict(SETTINGS[args.env_id])
    env_steps = args.env_steps or settings["env_steps"]
    settings.pop("env_steps", None)

    def make() -> Any:
        return made(args.env_id, args.env_kwargs, args.env_wrappers)

    row = run(args.env_id, make, args.seed, env_steps, settings, args.processor)
    write_whole(args.out, row)


if __name__ == "__main__":
    main()
