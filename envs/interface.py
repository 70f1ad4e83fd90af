"""What the agents see of envs: one step of N envs at once, and the episodes it ended."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from envs.spaces import Spaces


class Episode(NamedTuple):
    """One finished episode."""

    env: int  # index in [0, N)
    number: int  # 0, 1, ... within its env
    episode_return: float  # sum of the raw rewards, as the env gave them, in float64
    length: int  # transitions
    terminated: bool  # False: cut off by truncation
    cut: bool = False  # by `Envs.cut`


class Step(NamedTuple):
    """What N envs say after one step.

    The arrays are the driver's own and the next `step` or `reset` writes into them: whoever
    wants to keep a row copies it first. They are C-contiguous and never change their dtype.
    Rewards are scaled and clipped as make_envs was told; `legal` tells of the observation in the
    same row, and all is legal where an episode ended with nothing legal.
    """

    observation: np.ndarray  # [N, *observation_shape], stored dtype
    reward: np.ndarray  # [N] float32, of the transition that led here; 0 where autoreset
    terminated: np.ndarray  # [N] bool
    truncated: np.ndarray  # [N] bool
    autoreset: np.ndarray  # [N] bool: first row of an episode; the action was ignored
    episodes: tuple[Episode, ...]  # those that ended with this step
    legal: np.ndarray | None = None  # [N, A] bool, at least one each; None: no masks


class Envs(ABC):
    """N envs stepped together, with autoreset on the next step.

    The row that ends an episode holds its true final observation, with `terminated` or
    `truncated` set. The step after it ignores that env's action and delivers the first
    observation of the next episode, with `autoreset` set. That pseudo-step is no transition.
    """

    def __init__(
        self, env_id: str, num_envs: int, spaces: Spaces, *, has_action_masks: bool
    ) -> None:
        self.env_id = env_id
        self.num_envs = num_envs
        self.observation_shape = spaces.observation_shape  # of one env
        self.observation_dtype = spaces.observation_dtype  # as stored: float32, uint8 or bool
        self.byte_bounds = spaces.byte_bounds  # (low, high) of uint8 ones; None: 0 and 255
        self.num_actions = spaces.num_actions  # 0 .. num_actions - 1, whatever the env's start
        self.first_action = spaces.first_action  # the env's own number for action 0
        self.has_action_masks = has_action_masks  # whether every step has `legal`
        self.frames_per_second = 30.0  # at which the env is watched
        self.has_time_limit = True  # False: an episode may last for ever

    @abstractmethod
    def reset(self) -> Step:
        """Begins every env's episode 0, also when called again; `autoreset` is True for all."""

    @abstractmethod
    def step(self, actions: np.ndarray) -> Step:
        """Applies `actions`, [N] int32 or int64, and returns what came of them."""

    @abstractmethod
    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        """Ends the running episodes of the envs `which`, [N] bool, and returns them.

        Their next step is the reset that begins new ones. A vector env cannot reset one of its
        envs: there the episode goes on, and what follows counts as another one. Not for envs
        that are trained on: no `truncated` is set.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What `restore` needs to come back to this moment, as JSON has it."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> tuple[Step | None, list[str]]:
        """Comes back to the moment of `state`.

        Returns:
          The step that was the last one then (None if the agent keeps it), and what did not
          come back the same: there a new episode begins, as its `autoreset` says.
        """

    @abstractmethod
    def render(self) -> Any:
        """What env 0 draws, as its render_mode says."""

    @abstractmethod
    def close(self) -> None:
        """Closes every env; a second call does nothing."""
