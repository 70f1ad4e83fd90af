"""Gymnasium envs as the agents want them: N stepped together, every row exact.

factory.py     make_envs: from an env id to checked, running envs
registry.py    finding and making one env; why it could not be made
checks.py      spaces and first observations that can be trained on
spaces.py      how an observation becomes a stored row
masks.py       the actions that are legal, where an env says so
rewards.py     rewards scaled and clipped for learning
lanes.py       one single env among several, and the rows it writes
drivers.py     the drivers: one env, several in a loop, an env's own vector env
async_driver.py, async_worker.py    several in worker processes
pool.py        envpool's envs as a vector env
interface.py   Step, Episode, Envs: what the agents see
seeding.py     the seed of every episode
minatar.py     five games of a package that registers none, reproducible
"""

from envs.factory import Vectorization, make_envs
from envs.interface import Envs, Episode, Step
from envs.seeding import episode_seed

__all__ = ["Envs", "Episode", "Step", "Vectorization", "episode_seed", "make_envs"]
