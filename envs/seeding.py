"""Seeds of the episodes: each episode has its own, so that it can be reproduced alone."""

import numpy as np


def episode_seed(seed: int, env: int, episode: int) -> int:
    """Returns the reset seed of episode number `episode` of env `env` in a run with seed `seed`."""
    derived = np.random.SeedSequence(entropy=seed, spawn_key=(env, episode)).generate_state(1)[0]
    # 31 bits: some envs pass their seed to C code as a signed 32-bit number.
    return int(derived >> 1)
