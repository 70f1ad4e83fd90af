"""DQN in JAX at CleanRL's published defaults, until a mark is reached.

Settings, network, loss and the order of the loop are those of CleanRL's script (MIT license),
https://github.com/vwxyzjn/cleanrl/blob/fe8d8a0/cleanrl/dqn_jax.py: an act and every tenth env step
an update, each a compiled call; the replay in NumPy. The code is our own, and leaves out what that
script imports beside JAX (torch, Flax, Optax, TensorBoard), so that it starts sooner.
"""

from __future__ import annotations

import functools
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax_dqn
import numpy as np
from until_mark import Watch, from_command_line

SOURCE = "https://github.com/vwxyzjn/cleanrl/blob/fe8d8a0/cleanrl/dqn_jax.py"
SETTINGS = {
    "total_timesteps": 500_000, "learning_rate": 2.5e-4, "buffer_size": 10_000, "gamma": 0.99,
    "tau": 1.0, "target_network_frequency": 500, "batch_size": 128, "start_e": 1.0, "end_e": 0.05,
    "exploration_fraction": 0.5, "learning_starts": 10_000, "train_frequency": 10,
}  # fmt: skip
HIDDEN = (120, 84)
assert (SETTINGS["gamma"], SETTINGS["tau"]) == (jax_dqn.DISCOUNT, jax_dqn.TAU)


@jax.jit
def act(weights, observations):
    return jax_dqn.q_values(weights, observations).argmax(axis=-1)  # [B]


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
    learner = jax_dqn.new_learner(jax.random.PRNGKey(asked["seed"]), sizes)
    update = jax.jit(functools.partial(jax_dqn.update, learning_rate=SETTINGS["learning_rate"]))
    replay = jax_dqn.Replay(SETTINGS["buffer_size"], shape, asked["seed"])
    observation, _ = env.reset(seed=asked["seed"])
    env_step = updates = 0
    while not watch.over:
        explores = rng.random() < epsilon_at(env_step)
        greedy = learner.online
        action = int(env.action_space.sample() if explores else act(greedy, observation[None])[0])
        after, reward, terminated, truncated, _ = env.step(action)
        replay.add(jax_dqn.Batch(observation, action, reward, terminated, after))
        observation = env.reset()[0] if terminated or truncated else after
        if env_step > SETTINGS["learning_starts"]:
            if env_step % SETTINGS["train_frequency"] == 0:
                learner, _ = update(learner, replay.sample(SETTINGS["batch_size"]))
                updates += 1
            if env_step % SETTINGS["target_network_frequency"] == 0:
                learner = learner._replace(target=learner.online)
        env_step += 1
        if env_step >= watch.due:
            greedy = learner.online
            watch.evaluate(lambda s, w=greedy: np.asarray(act(w, s)), env_step, updates)
    settings = SETTINGS | {"hidden": [*HIDDEN], "loss": "mean squared error", "optimizer": "Adam"}
    watch.write(settings, SOURCE, ("jax", "jaxlib", "gymnasium", "numpy"))


if __name__ == "__main__":
    train(from_command_line())
