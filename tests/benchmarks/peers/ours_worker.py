"""Ours as a worker.

{"kind": "train", "config": {...}, "warm_up": 2000,     the bare loop that the config says; with
 "checker": false}                                      "full": true the replay is full before
{"kind": "run", "config": {...}, "warm_up": 2000}       the same inside a whole run: control,
                                                        logging, checkpoints; with "shipped":
                                                        "cartpole" for "config", of a shipped one
{"kind": "learn", "config": {...}, "warm_up": 64,       updates alone, from a replay full of
 "shape": [84, 84, 4], "dtype": "uint8", "actions": 6}  random observations
{"kind": "part", "part": "env", "config": {...},        one thing that a loop calls: env, act,
 "warm_up": 2000}                                       learn, loop
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from protocol import Channel, Work, serve, use_checker

PACKAGES = ("tensorflow", "gymnasium", "numpy")
_EPISODE = 100  # env steps, where there is no env


def training(setup: dict[str, Any]) -> Work:
    # Made as `train` makes them: what is measured must not be put together in another way.
    from targetnet.agents.config.envs import training_envs
    from targetnet.agents.loops.choice import LOOPS
    from targetnet.agents.run.agent_factory import agent_for

    config = config_of(setup)
    envs = training_envs(config)
    agent = agent_for(config, envs)
    if setup.get("full"):
        fill(agent, envs.num_actions)
    ticks = LOOPS[config.loop](agent, envs, None)
    env_step = target = 0

    def on_tick(tick: Any) -> bool:
        nonlocal env_step
        env_step = tick.env_step
        return env_step >= target

    def run(count: int) -> tuple[int, int]:
        nonlocal target
        begin, updates = env_step, agent.updates
        target = begin + count
        for tick in ticks:
            if on_tick(tick):  # a call for each tick, as a whole run makes one
                break
        return env_step - begin, agent.updates - updates

    run(setup["warm_up"])
    return Work(run, unit_of(config), PACKAGES)


def learning(setup: dict[str, Any]) -> Work:
    from targetnet.agents import DqnAgent

    config = config_of(setup)
    shape, dtype = tuple(setup["shape"]), np.dtype(setup["dtype"])
    agent = DqnAgent(config, shape, dtype, setup["actions"])
    fill(agent, setup["actions"])
    K = config.updates_per_learn

    def run(count: int) -> tuple[int, int]:
        updates = agent.updates
        for _ in range(count // K):
            agent.learn(K)
        return 0, agent.updates - updates

    run(setup["warm_up"] * K)
    return Work(run, K, PACKAGES)


def fill(agent: Any, num_actions: int) -> None:
    """Fills the replay of one env with random rows."""
    capacity = agent.config.replay_capacity
    column = agent.replay.rows.ring.columns["observation"]
    rng = np.random.default_rng(0)
    shape, dtype = tuple(column.shape[1:]), np.dtype(column.dtype.as_numpy_dtype)
    frames = random_observations(rng, 256, shape, dtype)
    for begin in range(0, capacity, 1_000):
        rows = np.arange(begin, min(begin + 1_000, capacity))
        age = rows % _EPISODE
        columns = {
            "observation": frames[rows % len(frames)],
            "action": rng.integers(num_actions, size=len(rows)).astype(np.int32),
            "reward": rng.random(len(rows), np.float32),
            "terminated": age == _EPISODE - 1,
            "autoreset": age == 0,
        }
        most = agent.replay.rows.most_at_once
        for first in range(0, len(rows), most):
            piece = {name: of[first : first + most, None] for name, of in columns.items()}
            agent.store(piece)  # [P, 1, ...]


def part(setup: dict[str, Any]) -> Work:
    """One thing that a loop calls, again and again."""
    from targetnet.agents import DqnAgent, training_loop
    from targetnet.envs import make_envs

    config = config_of(setup)
    envs = make_envs(config.env_id, seed=config.seed)
    agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    ticks = training_loop(agent, envs)
    for _ in range(setup["warm_up"]):
        step = next(ticks).step
    shown = step.observation, step.reward, step.terminated, step.autoreset
    both = np.array([[0], [1]])
    K = config.updates_per_learn

    def run(count: int) -> tuple[int, int]:
        begin = agent.updates
        match setup["part"]:
            case "env":
                for i in range(count):
                    envs.step(both[i & 1])
            case "act":
                for _ in range(count):
                    agent.step(*shown)
            case "loop":
                first, begin = next(ticks).env_step, agent.updates
                for _ in range(count):
                    last = next(ticks).env_step
                count = last - first
            case "learn":
                for _ in range(count // K):
                    agent.learn(K)
                count = 0
        return count, agent.updates - begin

    return Work(run, K, PACKAGES)


def whole_run() -> None:
    """Answers from inside the run, whose loop is not ours to call."""
    channel = Channel()
    from targetnet.agents.run.process import quiet_import

    with quiet_import():  # as the command does it, which leaves a part of TensorFlow out
        from targetnet.agents import train
    config = config_of(channel.setup)
    target, begin = channel.setup["warm_up"], None

    def on_tick(agent: Any, tick: Any) -> None:
        nonlocal target, begin
        if tick.env_step < target:
            return
        if begin is None:
            channel.ready(Work(lambda count: (0, 0), unit_of(config), PACKAGES))
        else:
            channel.done(tick.env_step - begin[0], agent.updates - begin[1])
        count = channel.next()
        if count is None:
            raise SystemExit
        begin = tick.env_step, agent.updates
        target = tick.env_step + count

    with tempfile.TemporaryDirectory() as directory:
        train(config, Path(directory) / "run", on_tick=on_tick)


def config_of(setup: dict[str, Any]) -> Any:
    from targetnet.agents import DqnConfig
    from targetnet.agents.config.files import load_config

    if name := setup.get("shipped"):
        return load_config(name)  # as a user has it: with its own threads and length too
    machine: dict[str, Any] = {"threads": setup["threads"]}
    if setup.get("with") == "oneDNN":
        machine["onednn"] = True
    return DqnConfig(**setup["config"] | machine | {"env_steps": 10**12})


def unit_of(config: Any) -> int:
    return int(np.lcm(config.learn_period, config.num_envs))


def random_observations(
    rng: np.random.Generator, count: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray:
    """[count, *shape]: bytes in [0, 256), bools, or floats in [0, 1)."""
    if dtype == np.float32:
        return rng.random((count, *shape), np.float32)
    return rng.integers(0, 2 if dtype.kind == "b" else 256, (count, *shape)).astype(dtype)


def make(setup: dict[str, Any]) -> Work:
    use_checker(setup.get("checker", False))
    return {"train": training, "learn": learning, "part": part}[setup["kind"]](setup)


if __name__ == "__main__":
    import sys

    whole_run() if sys.argv[1:] == ["run"] else serve(make)
