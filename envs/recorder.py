"""Keeps the steps of a single env in its own form: its observations, actions and rewards."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.envs.actions import action_form
from targetnet.envs.masks import MaskSource, MaskWriter
from targetnet.envs.outcomes import as_number, lost_lives
from targetnet.rl_core.errors import EnvFault

_ENDLESS = 2**63


class RecordedSteps(NamedTuple):
    """Steps of one episode, in the env's own form.

    Attributes:
      observations: [T + 1, ...], or dicts and tuples of such; the last one is the true final one.
      actions: [T] the env's own numbers.
      rewards: [T] float64.
      terminated, truncated: how the last step ended it. An episode that goes on, and is not kept
        any further, is truncated there.
      masks: [T + 1, A] int8: which actions were legal, as a replay has them, A over all branches;
        None without action masks.
      seed: of its reset; None if it is not known.
    """

    observations: Any
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    masks: np.ndarray | None = None
    seed: int | None = None

    @property
    def terminations(self) -> np.ndarray:
        """[T] bool."""
        return self._at_the_end(self.terminated)

    @property
    def truncations(self) -> np.ndarray:
        """[T] bool."""
        return self._at_the_end(self.truncated)

    def _at_the_end(self, flag: bool) -> np.ndarray:
        flags = np.zeros(len(self.actions), np.bool_)
        flags[-1] = flag
        return flags


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Hands all calls on to an env, and keeps the steps until it has enough of them.

    An episode that is reset before it ended is kept too, as truncated. A lost life that is an end
    for a learner ends an episode here: what it showed begins the next one too.

    Args:
      env: the env; nothing may be put around this wrapper that changes steps.
      space: of the observations that are kept: all of the env's, or some parts of them.
      episodes, env_steps: kept at most; None is no limit. All lives of a game count as one
        episode. An episode that is still running at the last env step is cut there.

    Attributes:
      ended: episodes that are complete; whoever takes them removes them.
      masks: where the env says which actions are legal; to be set before a reset. None: nowhere.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        space: gym.Space[Any],
        *,
        episodes: int | None = None,
        env_steps: int | None = None,
    ) -> None:
        super().__init__(env)
        self.ended: list[RecordedSteps] = []
        self.masks: MaskSource | None = None
        self._space, self._copy = space, _copier(space)
        self._form = action_form(env.spec.id if env.spec else "", env.action_space)
        self._legal = np.ones(self._form.outputs, np.bool_)
        self._writer: MaskWriter | None = None
        self._episodes = _ENDLESS if episodes is None else episodes
        self._env_steps = _ENDLESS if env_steps is None else env_steps
        self._begin(None)

    @property
    def is_over(self) -> bool:
        """True once no more steps are kept."""
        return not (self._episodes and self._env_steps)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._end(terminated=False)
        observation, info = result = self.env.reset(seed=seed, options=options)
        if self.masks is not None:
            self._writer = MaskWriter(self.masks, self.env, self._legal, self._form)
        self._begin(seed)
        self._keep(observation, info)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = observation, reward, terminated, truncated, info = self.env.step(action)
        if self._episodes and self._env_steps:
            lost = bool(terminated and not truncated and lost_lives(info).any())
            over = bool(terminated or truncated) and not lost
            self._keep(observation, info, over, over and bool(terminated))
            self._actions.append(action)
            self._rewards.append(as_number(reward))
            self._env_steps -= 1
            if terminated or truncated or not self._env_steps:
                self._end(terminated=bool(terminated), truncated=bool(truncated))
            if lost:
                self._episodes += 1
                self._keep(observation, info)
        return result

    def _begin(self, seed: int | None) -> None:
        self._seed, self._shown, self._masks = seed, list[Any](), list[Any]()
        self._actions, self._rewards = list[int](), list[float]()

    def _keep(self, observation: Any, info: Any, ended: bool = False, over: bool = False) -> None:
        self._shown.append(self._copy(observation))
        if self._writer is not None:
            # A wrong mask is refused by whoever asked for this step, who knows which env it is.
            with contextlib.suppress(EnvFault):
                self._writer.write(observation, info, ended, over)
            self._masks.append(self._legal.astype(np.int8))

    def _end(self, *, terminated: bool, truncated: bool = False) -> None:
        if not self._actions:
            return
        self.ended.append(
            RecordedSteps(
                _together(self._space, self._shown),
                np.array(self._actions, np.int64),
                np.array(self._rewards, np.float64),
                terminated,
                truncated or not terminated,
                np.stack(self._masks) if self._masks else None,
                self._seed,
            )
        )
        self._episodes -= 1
        self._begin(None)


def _copier(space: gym.Space[Any]) -> Callable[[Any], Any]:
    """Returns a function that copies what is in `space` of an observation: envs reuse arrays."""
    if isinstance(space, gym.spaces.Dict):
        inside = {key: _copier(of) for key, of in space.spaces.items()}
        return lambda shown: {key: copy(shown[key]) for key, copy in inside.items()}
    if isinstance(space, gym.spaces.Tuple):
        each = [_copier(of) for of in space.spaces]
        return lambda shown: tuple(copy(one) for copy, one in zip(each, shown, strict=True))
    return str if isinstance(space, gym.spaces.Text) else np.array


def _together(space: gym.Space[Any], shown: list[Any]) -> Any:
    """Returns observations as one: an array [T + 1, ...], or dicts and tuples of such."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _together(of, [one[key] for one in shown]) for key, of in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        each = enumerate(space.spaces)
        return tuple(_together(of, [one[i] for one in shown]) for i, of in each)
    return shown if isinstance(space, gym.spaces.Text) else np.stack(shown)
