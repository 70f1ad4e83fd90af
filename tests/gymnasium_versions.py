"""What differs from one version of Gymnasium to another, for tests that run with all of them."""

import gymnasium as gym

GYMNASIUM = tuple(map(int, gym.__version__.split(".")[:2]))
TAXI = "Taxi-v4" if GYMNASIUM >= (1, 3) else "Taxi-v3"  # it has action masks
