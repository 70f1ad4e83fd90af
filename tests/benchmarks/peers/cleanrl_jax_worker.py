"""CleanRL's JAX DQN as a worker, on one CartPole-v1: our own code after its published structure.

    https://github.com/vwxyzjn/cleanrl/blob/fe8d8a0/cleanrl/dqn_jax.py

As there, an env step is a call of a SyncVectorEnv with one env, which counts its episodes. A greedy
action is a jitted call of the network, then argmax as a call of its own, then a copy to NumPy.
Replay is NumPy, an update is one jitted call, and the target is moved array by array. The loss is
the mean squared error, where the other workers use Huber's: it costs about the same.

What differs, and why:
  - Sizes and periods are those of our comparison: MLP 64-64 for 120-84, batch 64 for 128, learning
    rate 1e-3 for 2.5e-4, learning from env step 1,000 for 10,000. Epsilon falls until learning
    starts, not during half of a run, for a worker has no end.
  - Its script pins Gymnasium 0.29, where an env is reset within the step that ends an episode.
    This is asked for here, because a later Gymnasium does it one step later by default.
  - A batch does not pass through PyTorch, and nothing is written for TensorBoard. Both would make
    it slower.
"""

from __future__ import annotations

import random
from typing import Any

import jax
import jax_dqn
import numpy as np
from protocol import Work, serve, use_checker

PACKAGES = ("jax", "gymnasium", "numpy")


def make(setup: dict[str, Any]) -> Work:
    import gymnasium
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from gymnasium.wrappers import RecordEpisodeStatistics

    use_checker(setup["checker"])
    envs = SyncVectorEnv(
        [lambda: RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))],
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    envs.single_action_space.seed(0)
    q_values, update = jax.jit(jax_dqn.q_values), jax.jit(jax_dqn.update)
    sizes = (jax_dqn.INPUTS, *setup["hidden"], jax_dqn.ACTIONS)
    learner = jax_dqn.new_learner(jax.random.PRNGKey(0), sizes)
    replay, rng = jax_dqn.Replay(setup["capacity"]), random.Random(0)
    learn_start, learn_period = setup["learn_start"], setup["learn_period"]
    sync_period = setup["sync_period"] * learn_period  # in env steps
    slope = (setup["epsilon"] - 1) / learn_start
    observation, _ = envs.reset(seed=0)
    env_step = 0

    def run(count: int) -> tuple[int, int]:
        nonlocal learner, observation, env_step
        updates = int(learner.updates)
        for _ in range(count):
            if rng.random() < max(1 + slope * env_step, setup["epsilon"]):
                action = np.array([envs.single_action_space.sample()])
            else:
                greedy = q_values(learner.online, observation).argmax(axis=-1)
                action = jax.device_get(greedy)
            following, reward, terminated, truncated, infos = envs.step(action)
            after = following.copy()
            if truncated[0]:
                after[0] = infos["final_obs"][0]
            replay.add(jax_dqn.Batch(observation, action, reward, terminated, after))
            observation = following
            if env_step > learn_start:
                if env_step % learn_period == 0:
                    learner, _ = update(learner, replay.sample(setup["batch_size"]))
                if env_step % sync_period == 0:
                    learner = jax_dqn.move_target(learner)
            env_step += 1
        # Asking for the number waits for the last update.
        return count, int(learner.updates) - updates

    run(setup["warm_up"])
    return Work(run, learn_period, PACKAGES)


if __name__ == "__main__":
    serve(make)
