"""DQN in JAX at CleanRL's published defaults, until a mark is reached.

Settings, network, loss and the order of the loop are those of CleanRL's script (MIT license),
https://github.com/vwxyzjn/cleanrl/blob/fe8d8a0/cleanrl/dqn_jax.py: an act and every tenth env step
an update, each a compiled call; the replay in NumPy. The code is our own, and leaves out what that
script imports beside JAX (torch, Flax, Optax, TensorBoard), so that it starts sooner.
"""

from __future__ import annotations

import itertools
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from until_mark import Watch, from_command_line

SOURCE = "https://github.com/vwxyzjn/cleanrl/blob/fe8d8a0/cleanrl/dqn_jax.py"
SETTINGS = {
    "total_timesteps": 500_000, "learning_rate": 2.5e-4, "buffer_size": 10_000, "gamma": 0.99,
    "tau": 1.0, "target_network_frequency": 500, "batch_size": 128, "start_e": 1.0, "end_e": 0.05,
    "exploration_fraction": 0.5, "learning_starts": 10_000, "train_frequency": 10,
}  # fmt: skip
HIDDEN = (120, 84)
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Optax's Adam


def initial(key, sizes):
    """Weights [n, m] and biases [m] of each layer: LeCun's normal ones, and zeros."""
    found = []
    for n, m in itertools.pairwise(sizes):
        key, own = jax.random.split(key)
        found += [jax.nn.initializers.lecun_normal()(own, (n, m)), jnp.zeros(m)]
    return found


def q_values(weights, observations):
    x = observations
    for i in range(0, len(weights), 2):
        x = x @ weights[i] + weights[i + 1]
        if i + 2 < len(weights):
            x = jax.nn.relu(x)
    return x  # [B, A]


@jax.jit
def act(weights, observations):
    return jnp.argmax(q_values(weights, observations), 1)  # [B]


@jax.jit
def update(learner, target, batch):
    """Adam on the mean squared error.

    Args:
      learner: weights, Adam's two moments, and how many updates were made.
      target: weights.
      batch: s_tm1 [B, ...], a_tm1 [B], r_t [B], discount_t [B], s_t [B, ...].
    """
    weights, first, second, count = learner
    s_tm1, a_tm1, r_t, discount_t, s_t = batch
    goal = r_t + discount_t * q_values(target, s_t).max(1)

    def loss(weights):
        qa_tm1 = jnp.take_along_axis(q_values(weights, s_tm1), a_tm1[:, None], 1)[:, 0]
        return ((goal - qa_tm1) ** 2).mean()

    gradients = jax.grad(loss)(weights)
    count = count + 1
    first = [_BETA1 * m + (1 - _BETA1) * g for m, g in zip(first, gradients, strict=True)]
    second = [_BETA2 * v + (1 - _BETA2) * g * g for v, g in zip(second, gradients, strict=True)]
    moments = zip(weights, first, second, strict=True)
    unbiased = [(w, m / (1 - _BETA1**count), v / (1 - _BETA2**count)) for w, m, v in moments]
    rate = SETTINGS["learning_rate"]
    weights = [w - rate * m / (jnp.sqrt(v) + _EPSILON) for w, m, v in unbiased]
    return weights, first, second, count


class Replay:
    """The last transitions, as columns."""

    def __init__(self, capacity, shape, seed):
        rows = np.zeros((capacity, *shape), np.float32)
        numbers = (np.zeros(capacity, dtype) for dtype in (np.int32, np.float32, np.float32))
        self._columns = (rows, *numbers, rows.copy())
        self._stored, self._rng = 0, np.random.default_rng(seed)

    def add(self, *transition):
        row = self._stored % len(self._columns[0])
        for column, number in zip(self._columns, transition, strict=True):
            column[row] = number
        self._stored += 1

    def sample(self, count):
        rows = self._rng.integers(min(self._stored, len(self._columns[0])), size=count)
        return tuple(column[rows] for column in self._columns)


def epsilon_at(env_step):
    """Falls in a straight line, then stays."""
    start, end = SETTINGS["start_e"], SETTINGS["end_e"]
    share = env_step / (SETTINGS["exploration_fraction"] * SETTINGS["total_timesteps"])
    return max(start + (end - start) * share, end)


def train(watch: Watch) -> None:
    import gymnasium

    asked = watch.asked
    env = gymnasium.make(asked["env_id"])
    rng, shape = np.random.default_rng(asked["seed"]), env.observation_space.shape
    env.action_space.seed(asked["seed"])
    sizes = (*shape, *HIDDEN, int(env.action_space.n))
    weights = initial(jax.random.PRNGKey(asked["seed"]), sizes)
    target, zeros = weights, [jnp.zeros_like(w) for w in weights]
    learner, updates = (weights, zeros, zeros, jnp.float32(0)), 0
    replay = Replay(SETTINGS["buffer_size"], shape, asked["seed"])
    s_tm1, _ = env.reset(seed=asked["seed"])
    env_step = 0
    while not watch.over:
        explores = rng.random() < epsilon_at(env_step)
        a_tm1 = int(env.action_space.sample() if explores else act(learner[0], s_tm1[None])[0])
        s_t, r_t, terminated, truncated, _ = env.step(a_tm1)
        replay.add(s_tm1, a_tm1, r_t, SETTINGS["gamma"] * (not terminated), s_t)
        s_tm1 = env.reset()[0] if terminated or truncated else s_t
        if env_step > SETTINGS["learning_starts"]:
            if env_step % SETTINGS["train_frequency"] == 0:
                learner = update(learner, target, replay.sample(SETTINGS["batch_size"]))
                updates += 1
            if env_step % SETTINGS["target_network_frequency"] == 0:
                target = learner[0]
        env_step += 1
        if env_step >= watch.due:
            greedy = learner[0]
            watch.evaluate(lambda s, w=greedy: np.asarray(act(w, s)), env_step, updates)
    settings = SETTINGS | {"hidden": [*HIDDEN], "loss": "mean squared error", "optimizer": "Adam"}
    watch.write(settings, SOURCE, ("jax", "jaxlib", "gymnasium", "numpy"))


if __name__ == "__main__":
    train(from_command_line())
