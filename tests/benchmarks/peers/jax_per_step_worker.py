"""A yardstick: DQN on a Gymnasium CartPole-v1 with one jitted act and one jitted update at a time.

The usual single-file shape: a replay in NumPy, an env stepped in Python, JAX called per step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from protocol import Work, serve


def make(setup: dict[str, Any]) -> Work:
    import gymnasium
    import jax
    import jax.numpy as jnp
    from jax_dqn import ACTIONS, OBSERVATION, PACKAGES, Batch, initial, q_values, update

    act = jax.jit(lambda online, observation: jnp.argmax(q_values(online, observation)))
    learn = jax.jit(update)
    capacity, size = setup["capacity"], setup["batch_size"]
    rows = Batch(
        np.zeros((capacity, OBSERVATION), np.float32), np.zeros(capacity, np.int32),
        np.zeros(capacity, np.float32), np.zeros(capacity, np.float32),
        np.zeros((capacity, OBSERVATION), np.float32),
    )  # fmt: skip
    rng, learner = np.random.default_rng(0), initial()
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    env_step = updates = 0

    def step() -> None:
        nonlocal observation, env_step, learner, updates
        if rng.random() < setup["epsilon"]:
            action = int(rng.integers(ACTIONS))
        else:
            action = int(act(learner.online, observation))
        following, reward, terminated, truncated, _ = env.step(action)
        transition = (observation, action, reward, 0.0 if terminated else 0.99, following)
        for column, value in zip(rows, transition, strict=True):
            column[env_step % capacity] = value
        observation = env.reset()[0] if terminated or truncated else following
        env_step += 1
        if env_step >= setup["learn_start"] and env_step % setup["learn_period"] == 0:
            index = rng.integers(0, min(env_step, capacity), size)
            learner = learn(learner, Batch(*(column[index] for column in rows)), 1e-3)
            updates += 1
            if updates % setup["sync_period"] == 0:
                learner = learner._replace(target=learner.online)

    def run(count: int) -> tuple[int, int]:
        before = env_step, updates
        for _ in range(count):
            step()
        jax.block_until_ready(learner)
        return env_step - before[0], updates - before[1]

    run(setup["warm_up"])
    return Work(run, setup["learn_period"], PACKAGES)


if __name__ == "__main__":
    serve(make)
