"""PureJaxRL's compiled DQN as a worker: our own code after its published structure.

    https://github.com/luchris429/purejaxrl/blob/31756b1/purejaxrl/dqn.py

As there, one scan holds everything. In each iteration N envs take a step, every env with a random
key of its own, and are reset where an episode ended. Their rows go into a flat buffer at once:
[T, N], each observation stored one time, so a transition is two rows that follow each other. Then
`cond` decides on an update, and another one on moving the target. Returns of episodes and the loss
come out of each iteration. An end by the time limit counts as final, and the loss is the mean
squared error, where the other workers use Huber's: it costs about the same.

What differs, and why:
  - Sizes and periods are those of our comparison: MLP 64-64 for 120-84, batch 64 for 128, learning
    rate 1e-3 for 2.5e-4, learning from env step 1,000 for 10,000. Epsilon falls until learning
    starts, not during half of a run, for a worker has no end.
  - CartPole and the flat buffer are written here, for Gymnax and Flashbax are not installed. The
    buffer has time first, where Flashbax has it second: an insert is one piece of memory.
  - A scan has 1,000 iterations, not those of a whole run, and the number of iterations is counted,
    not that of env steps, which 1,024 envs would take beyond 32 bits within minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax_dqn
from protocol import Work, serve

PACKAGES = ("jax", "numpy")
CHUNK = 1_000  # iterations of one call
_TIME_LIMIT = 500


class Pole(NamedTuple):
    """An env: CartPole's four numbers, and what is known of its episodes."""

    x: Any
    x_dot: Any
    theta: Any
    theta_dot: Any
    time: Any
    returns: Any  # so far
    last_returns: Any  # of the last episode that ended


class Row(NamedTuple):
    """One step of the envs, [N, ...], or the whole buffer, [T, N, ...]."""

    observation: Any
    action: Any
    reward: Any
    done: Any


class Carry(NamedTuple):
    """Everything that goes from one iteration to the next."""

    learner: jax_dqn.Learner
    rows: Row
    poles: Pole
    observation: Any
    iteration: Any
    key: Any


def observed(pole: Pole) -> Any:
    return jnp.stack(pole[:4], axis=-1)


def reset(key: Any, last_returns: Any) -> Pole:
    start = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
    zero = jnp.zeros(())
    return Pole(*(start[i] for i in range(4)), jnp.array(0), zero, last_returns)


def moved(pole: Pole, action: Any) -> tuple[Pole, Any]:
    """Gymnasium's CartPole-v1, and whether the episode is over, by the time limit too.

    Equations and constants: Barto, Sutton and Anderson (1983) with the form of
    https://coneural.org/florian/papers/05_cart_pole.pdf, as Gymnasium has them.
    """
    sin, cos = jnp.sin(pole.theta), jnp.cos(pole.theta)
    push = (jnp.where(action == 1, 10.0, -10.0) + 0.05 * pole.theta_dot**2 * sin) / 1.1
    theta_acc = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    x_acc = push - 0.05 * theta_acc * cos / 1.1
    after = pole._replace(
        x=pole.x + 0.02 * pole.x_dot,
        x_dot=pole.x_dot + 0.02 * x_acc,
        theta=pole.theta + 0.02 * pole.theta_dot,
        theta_dot=pole.theta_dot + 0.02 * theta_acc,
        time=pole.time + 1,
    )
    fallen = (jnp.abs(after.x) > 2.4) | (jnp.abs(after.theta) > 12 * 2 * math.pi / 360)
    return after, fallen | (after.time >= _TIME_LIMIT)


def env_step(key: Any, pole: Pole, action: Any) -> tuple[Pole, Any, Any]:
    """One env; after its episode's end it is where the next begins. Returns reward and end too."""
    after, done = moved(pole, action)
    reward = jnp.ones(())
    after = after._replace(returns=pole.returns + reward)
    new = reset(key, after.returns)
    after = jax.tree.map(lambda a, b: jnp.where(done, a, b), new, after)
    return after, reward, done


def stored(rows: Row, row: Row, iteration: Any) -> Row:
    """The buffer with the row of that iteration in the place of the oldest."""
    place = iteration % len(rows.reward)
    return jax.tree.map(
        lambda column, new: jax.lax.dynamic_update_index_in_dim(column, new, place, 0), rows, row
    )


def sampled(rows: Row, inserts: Any, size: int, key: Any) -> jax_dqn.Batch:
    """Transitions drawn uniformly, after so many inserts."""
    T, N = rows.reward.shape
    held = jnp.minimum(inserts, T)
    key_time, key_env = jax.random.split(key)
    # The newest row has none that follows.
    time = inserts - held + jax.random.randint(key_time, (size,), 0, held - 1)
    env = jax.random.randint(key_env, (size,), 0, N)
    first, second = (
        jax.tree.map(lambda column, t=t: column[t % T, env], rows) for t in (time, time + 1)
    )
    return jax_dqn.Batch(
        first.observation, first.action, first.reward, first.done, second.observation
    )


def iteration_of(setup: dict[str, Any]) -> Callable[[Carry, None], tuple[Carry, tuple[Any, ...]]]:
    """Returns what is scanned: an iteration of all envs."""
    N, B = setup["envs"], setup["batch_size"]
    # All in iterations.
    learn_start, learn_period = setup["learn_start"] // N, setup["learn_period"] // N
    sync_period = setup["sync_period"] * learn_period
    least = max(2, B // N + 1)  # rows, as Flashbax has it: enough for a batch
    slope = (setup["epsilon"] - 1) * N / setup["learn_start"]

    def act(learner: jax_dqn.Learner, observation: Any, iteration: Any, key: Any) -> Any:
        greedy = jax_dqn.q_values(learner.online, observation).argmax(axis=-1)
        key_random, key_which = jax.random.split(key)
        epsilon = jnp.maximum(1 + slope * iteration, setup["epsilon"])
        at_random = jax.random.randint(key_random, greedy.shape, 0, jax_dqn.ACTIONS)
        return jnp.where(jax.random.uniform(key_which, greedy.shape) < epsilon, at_random, greedy)

    def iterate(carry: Carry, _: None) -> tuple[Carry, tuple[Any, ...]]:
        learner, rows, poles, observation, iteration, key = carry
        key, key_act, key_env, key_batch = jax.random.split(key, 4)
        action = act(learner, observation, iteration, key_act)
        poles, reward, done = jax.vmap(env_step)(jax.random.split(key_env, N), poles, action)
        row = Row(observation, action, reward, done.astype(jnp.float32))
        rows, inserts = stored(rows, row, iteration), iteration + 1
        held = jnp.minimum(inserts, len(rows.reward))
        learner, loss = jax.lax.cond(
            (held >= least) & (inserts > learn_start) & (inserts % learn_period == 0),
            lambda learner: jax_dqn.update(learner, sampled(rows, inserts, B, key_batch)),
            lambda learner: (learner, jnp.zeros(())),
            learner,
        )
        learner = jax.lax.cond(
            inserts % sync_period == 0, jax_dqn.move_target, lambda learner: learner, learner
        )
        told = inserts, learner.updates, loss, poles.last_returns.mean()
        return Carry(learner, rows, poles, observed(poles), inserts, key), told

    return iterate


def begin(setup: dict[str, Any]) -> Carry:
    N = setup["envs"]
    T = setup["capacity"] // N
    key, key_learner, key_env = jax.random.split(jax.random.PRNGKey(0), 3)
    poles = jax.vmap(reset)(jax.random.split(key_env, N), jnp.zeros((N,)))
    rows = Row(
        observation=jnp.zeros((T, N, 4)),
        action=jnp.zeros((T, N), jnp.int32),
        reward=jnp.zeros((T, N)),
        done=jnp.zeros((T, N)),
    )
    sizes = (jax_dqn.INPUTS, *setup["hidden"], jax_dqn.ACTIONS)
    learner = jax_dqn.new_learner(key_learner, sizes)
    return Carry(learner, rows, poles, observed(poles), jnp.array(0), key)


def make(setup: dict[str, Any]) -> Work:
    iterate, carry = iteration_of(setup), begin(setup)
    chunk = jax.jit(lambda carry: jax.lax.scan(iterate, carry, None, CHUNK), donate_argnums=0)
    unit = setup["envs"] * CHUNK

    def run(count: int) -> tuple[int, int]:
        nonlocal carry
        updates = int(carry.learner.updates)
        for _ in range(count // unit):
            carry, _ = chunk(carry)
        # Asking for the number waits for the last call.
        return count, int(carry.learner.updates) - updates

    run(math.ceil(setup["warm_up"] / unit) * unit)
    return Work(run, unit, PACKAGES)


if __name__ == "__main__":
    serve(make)
