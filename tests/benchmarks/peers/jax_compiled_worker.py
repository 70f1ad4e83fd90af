"""A yardstick: DQN on CartPole with env, replay and updates in one compiled JAX loop.

Each iteration steps N envs once, stores the N transitions and makes U updates.

    {"envs": 1, "updates": 1, ...}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from protocol import Work, serve

CHUNK = 1_000  # iterations in one call


def make(setup: dict[str, Any]) -> Work:
    import jax
    import jax.numpy as jnp
    from jax_dqn import OBSERVATION, PACKAGES, initial

    N = setup["envs"]
    chunk = compiled(setup)
    width = 2 * OBSERVATION + 3
    carry = (
        jnp.int32(0), initial(), jnp.zeros((setup["capacity"], width)),
        jnp.zeros((N, OBSERVATION)), jnp.zeros((N,), jnp.int32), jax.random.PRNGKey(0),
        # Arguments and no constants: in ours they may change while the loop goes on.
        jnp.float32(1e-3), jnp.float32(setup["epsilon"]), jnp.int32(setup["sync_period"]),
    )  # fmt: skip

    def run(count: int) -> tuple[int, int]:
        nonlocal carry
        updates = int(carry[1].updates)
        for _ in range(count // (CHUNK * N)):
            carry = chunk(carry)
        jax.block_until_ready(carry)
        return count, int(carry[1].updates) - updates

    run(CHUNK * N * math.ceil(setup["warm_up"] / (CHUNK * N)))
    return Work(run, CHUNK * N, PACKAGES)


def compiled(setup: dict[str, Any]) -> Callable[[Any], Any]:
    """CHUNK iterations: carry -> carry."""
    import jax
    import jax.numpy as jnp
    from jax_dqn import ACTIONS, OBSERVATION, Batch, q_values, update

    N, B = setup["envs"], setup["batch_size"]
    capacity = setup["capacity"] // N * N

    def sample(buffer: Any, size: Any, key: Any) -> Batch:
        rows = buffer[jax.random.randint(key, (B,), 0, size)]  # [B, 11]
        s_tm1, s_t = rows[:, :OBSERVATION], rows[:, OBSERVATION : 2 * OBSERVATION]
        return Batch(s_tm1, rows[:, -3].astype(jnp.int32), rows[:, -2], 0.99 * rows[:, -1], s_t)

    def body(carry: Any, _: Any) -> Any:
        step, learner, buffer, s_tm1, age, key, learning_rate, epsilon, period = carry
        key, key_act, key_batch = jax.random.split(key, 3)
        u = jax.random.uniform(key_act, (N, OBSERVATION + 2))
        best = jnp.argmax(q_values(learner.online, s_tm1), 1)  # [N]
        action = jnp.where(u[:, 0] < epsilon, (u[:, 1] * ACTIONS).astype(jnp.int32), best)
        s_t, s_next, age, terminated = env_step(s_tm1, action, age, u[:, 2:])
        alone = [action[:, None], jnp.ones((N, 1)), 1.0 - terminated[:, None]]
        rows = jnp.concatenate([s_tm1, s_t, *alone], 1)  # [N, 11]
        buffer = jax.lax.dynamic_update_slice(buffer, rows, ((step * N) % capacity, 0))
        size = jnp.minimum((step + 1) * N, capacity)
        for k in range(setup["updates"]):
            batch = sample(buffer, size, jax.random.fold_in(key_batch, k))
            learner = update(learner, batch, learning_rate)
            due = learner.updates % period == 0
            target = jax.tree.map(
                lambda new, old, due=due: jnp.where(due, new, old), learner.online, learner.target
            )
            learner = learner._replace(target=target)
        return (step + 1, learner, buffer, s_next, age, key, learning_rate, epsilon, period), None

    return jax.jit(lambda carry: jax.lax.scan(body, carry, None, length=CHUNK)[0], donate_argnums=0)


def env_step(s: Any, action: Any, age: Any, u: Any) -> tuple[Any, Any, Any, Any]:
    """CartPole-v1 for N envs that begin anew at once.

    Args:
      s: [N, 4]
      action, age: [N]
      u: [N, 4] uniform in [0, 1), for where an episode begins.

    Returns:
      What the action led to [N, 4], where the next step begins [N, 4], age and terminated [N].
    """
    import jax.numpy as jnp

    x, x_dot, theta, theta_dot = (s[:, i] for i in range(4))
    force = jnp.where(action == 1, 10.0, -10.0)
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    push = (force + 0.05 * theta_dot**2 * sin) / 1.1
    theta_acc = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    x_acc = push - 0.05 * theta_acc * cos / 1.1
    s_t = jnp.stack(
        [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot,
         theta_dot + 0.02 * theta_acc], 1,
    )  # fmt: skip
    terminated = (jnp.abs(s_t[:, 0]) > 2.4) | (jnp.abs(s_t[:, 2]) > 12 * 2 * math.pi / 360)
    over = terminated | (age + 1 >= 500)
    s_next = jnp.where(over[:, None], u * 0.1 - 0.05, s_t)
    return s_t, s_next, jnp.where(over, 0, age + 1), terminated


if __name__ == "__main__":
    serve(make)
