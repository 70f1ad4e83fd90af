"""Gymnasium envs for the agents: N envs stepped together, with exact and checked rows.

factory.py              make_envs: from an env id to checked, running envs
registry.py             lookup and making of one env, with errors that name the cause
old_gym.py              what an env is now that had an old id or was made for gym
spaces.py               conversion of an env's spaces to stored rows and actions from 0
actions.py              actions in the agent's form and in an env's
arrays.py               spaces of one array or number, as they are stored
nests.py                spaces of several parts, packed into one row
observations.py         observations written into rows, with checks and conversion
stacks.py               observations of several frames
env_recipe.py           how a single env is made, and what is put around it
atari.py                ALE's games as agents are trained on them
outcomes.py             checks of spaces, and of what reset and step give, but the observation
masks.py                masks of legal actions, for envs that give them
lanes.py                one single env among several, the rows it writes, its repetition
drivers.py              drivers in this process: one env, several in a loop, an env's own vector env
async_driver.py, async_worker.py  several envs in worker processes
pool.py                 envpool's envs as a vector env
interface.py            Step, Episode, Envs: the interface to the agents
recorder.py             keeps the steps of a single env in its own form
stored_observations.py  stored rows turned back into what the env gave
seeding.py              the seed of every episode, and of global random numbers
minatar.py              reproducible envs of MinAtar's five games
in_graph/               envs whose rules are operations of the graph
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from targetnet.rl_core.lazy import lazy_names

if TYPE_CHECKING:
    from targetnet.envs.factory import Vectorization, make_envs
    from targetnet.envs.interface import Envs, Episode, Step
    from targetnet.envs.seeding import episode_seed

_NAMES_OF = {
    "factory": "Vectorization make_envs",
    "interface": "Envs Episode Step",
    "seeding": "episode_seed",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES_OF)
