"""Datasets of known steps, for tests that learn from them."""

import gymnasium as gym
import numpy as np

from targetnet.agents.data.minari_files import Form, write
from targetnet.envs.recorder import RecordedSteps

CARTPOLE = gym.make("CartPole-v1")


def form_of(env):
    return Form(env.observation_space, env.action_space, env.spec)


def random_episodes(env=CARTPOLE, lengths=(9, 1, 14, 6), seed=0, ends=None):
    """Episodes of random numbers; by default every other one terminates."""
    rng = np.random.default_rng(seed)
    shape = env.observation_space.shape
    for number, length in enumerate(lengths):
        terminated = number % 2 == 0 if ends is None else ends[number]
        yield RecordedSteps(
            rng.normal(size=(length + 1, *shape)).astype(np.float32),
            rng.integers(env.action_space.n, size=length) + env.action_space.start,
            rng.normal(size=length),
            terminated,
            not terminated,
        )


def written(directory, episodes=None, env=CARTPOLE):
    """Writes a dataset; returns its directory."""
    directory.mkdir(parents=True)
    episodes = random_episodes(env) if episodes is None else episodes
    write(directory, directory.name, form_of(env), episodes, {})
    return directory


def random_dataset(directory):
    """Writes 20 episodes of random numbers, of random lengths; returns its directory."""
    lengths = tuple(np.random.default_rng(0).integers(1, 30, 20))
    return written(directory, random_episodes(lengths=lengths))


def played(steps, seed=0, epsilon=0.1):
    """Episodes of CartPole by a rule that balances the pole well, but for random actions."""
    rng, done, number = np.random.default_rng(seed), 0, 0
    while done < steps:
        observation, _ = CARTPOLE.reset(seed=seed + number)
        shown, actions, over, terminated = [observation], [], False, False
        while not over:
            _, _, angle, speed = observation
            action = int(angle + 0.5 * speed + 0.02 * observation[0] + 0.1 * observation[1] > 0)
            if rng.random() < epsilon:
                action = int(rng.integers(2))
            observation, _, terminated, truncated, _ = CARTPOLE.step(action)
            shown.append(observation)
            actions.append(action)
            over = terminated or truncated
        done, number = done + len(actions), number + 1
        yield RecordedSteps(
            np.stack(shown), np.int64(actions), np.ones(len(actions)), terminated, not terminated
        )
