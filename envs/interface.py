"""Interface between envs and agents: one step of N envs, and the episodes that it ended."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from targetnet.envs.spaces import Spaces


class Episode(NamedTuple):
    """One finished episode."""

    env: int  # index in [0, N)
    number: int  # 0, 1, ... within its env
    episode_return: float  # sum of the rewards in float64
    length: int  # transitions
    terminated: bool  # False: the episode was truncated
    cut: bool = False  # True: ended by `Envs.cut`


class Step(NamedTuple):
    """Results of one step of N envs.

    A lost life that is an end for the learner ends no episode: its row is terminated, and the next
    one has `autoreset`, shows the same once more, and belongs to the same episode.

    The arrays belong to the driver, and the next `step` or `reset` overwrites them: copy a row to
    keep it. They are C-contiguous and never change their dtype. `legal` belongs to the observation
    in the same row; if an episode ended without a legal action, every action is marked legal.
    """

    observation: np.ndarray  # [N, *observation_shape], stored dtype
    reward: np.ndarray  # [N] float32, of the transition to this observation; 0 where autoreset
    terminated: np.ndarray  # [N] bool
    truncated: np.ndarray  # [N] bool
    autoreset: np.ndarray  # [N] bool: first row of an episode or life; the action was ignored
    episodes: tuple[Episode, ...]  # the episodes that ended with this step
    legal: np.ndarray | None = None  # [N, A] bool, a True in each branch; None: no masks


class Envs(ABC):
    """N envs stepped together, with autoreset on the next step.

    The last row of an episode holds the true final observation, with `terminated` or `truncated`
    set. The next step ignores that env's action and returns the first observation of the next
    episode, with `autoreset` set. This pseudo-step is no transition.
    """

    def __init__(self, env_id: str, num_envs: int, spaces: Spaces) -> None:
        self.env_id = env_id
        self.spaces = spaces  # of one env, in the agent's form
        self.num_envs = num_envs
        self.observation_shape = spaces.observation_shape  # of one env
        self.observation_dtype = spaces.observation_dtype  # as stored: float32, uint8 or bool
        self.byte_bounds = spaces.byte_bounds  # (low, high) for uint8; None: 0 and 255
        self.parts = spaces.parts  # of packed observations; (): each is one array
        self.num_actions = spaces.actions.outputs  # actions are 0 .. num_actions - 1
        self.branches = spaces.actions.branches  # choices in each branch; (): Discrete actions
        self.has_action_masks = spaces.masks is not None  # True: every step has `legal`
        self.frames_per_second = 30.0  # speed at which a person watches the env
        self.has_time_limit = True  # False: an episode may never end
        # A line about episodes that do not come back from their seeds; "": none is known.
        self.not_repeated = ""
        self.check_is_due = False  # True: they take long to make; others of them are compared

    @abstractmethod
    def reset(self) -> Step:
        """Begins episode 0 of every env, on every call; `autoreset` is True for all."""

    @abstractmethod
    def step(self, actions: np.ndarray) -> Step:
        """Applies `actions`, [N] or [N, D] int32 or int64 from 0 on, and returns the results."""

    @abstractmethod
    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        """Ends the running episodes of the envs `which`, [N] bool, and returns the episodes.

        The next step of these envs is the reset to a new episode. A vector env cannot reset one
        of its envs: there the game continues, and its rest counts as a new episode. Not for
        training: `truncated` is not set.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Returns the present state for `restore`, as JSON values."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> tuple[Step | None, list[str]]:
        """Restores the envs to the moment of `state`.

        Returns:
          The last step before that moment (None if the agent keeps it), and a message for each
          env that could not be restored. Such an env begins a new episode, with `autoreset` set.
        """

    def check(self) -> str:
        """Compares some steps of env 0 with their repetition; `reset` has to come after it.

        Returns:
          A line if they are not the same; "" if they are, or cannot be compared here.
        """
        return ""

    @abstractmethod
    def render(self) -> Any:
        """Returns the picture of env 0 in its render_mode."""

    @abstractmethod
    def close(self) -> None:
        """Closes every env; a second call does nothing."""
