"""The seed of every episode, so that each can be reproduced alone."""

import numpy as np


def episode_seed(seed: int, env: int, episode: int) -> int:
    """Returns the seed with which env number `env` of run `seed` resets for `episode`."""
    derived = np.random.SeedSequence(entropy=seed, spawn_key=(env, episode)).generate_state(1)[0]
    # 31 bits: some envs hand their seed to C code as a signed 32-bit number.
    return int(derived >> 1)
