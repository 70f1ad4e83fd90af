"""The drivers behind `Envs`: one env, several in a loop, and an env's own vector env.

Imports: envs.interface, envs.masks, envs.rewards, envs.seeding, envs.spaces.
"""

import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import numpy as np

from envs.interface import Envs, Episode, Step
from envs.masks import write_legal
from envs.rewards import RewardTransform
from envs.seeding import episode_seed
from envs.spaces import Spaces


def _blank_step(num_envs: int, spaces: Spaces, has_action_masks: bool) -> Step:
    """Returns the arrays that a driver fills anew at every step."""
    return Step(
        observation=np.zeros((num_envs, *spaces.observation_shape), spaces.observation_dtype),
        reward=np.zeros(num_envs, np.float32),
        terminated=np.zeros(num_envs, np.bool_),
        truncated=np.zeros(num_envs, np.bool_),
        autoreset=np.zeros(num_envs, np.bool_),
        episodes=(),
        legal=np.ones((num_envs, spaces.num_actions), np.bool_) if has_action_masks else None,
    )


class SyncEnvs(Envs):
    """N single envs stepped one after the other; every episode resets with its own seed.

    Not gymnasium's SyncVectorEnv, which gives no seed to the resets it does by itself.
    """

    def __init__(
        self,
        env_id: str,
        envs: Sequence[gym.Env[Any, Any]],
        spaces: Spaces,
        seed: int,
        *,
        has_action_masks: bool,
        transform: RewardTransform | None,
    ) -> None:
        super().__init__(env_id, len(envs), spaces, has_action_masks=has_action_masks)
        self._step = _blank_step(len(envs), spaces, has_action_masks)
        self._lanes = [
            _Lane(env_id, i, env, spaces, seed, self._step, transform) for i, env in enumerate(envs)
        ]
        self.frames_per_second = float(envs[0].metadata.get("render_fps", 30))

    def reset(self) -> Step:
        for lane in self._lanes:
            lane.begin(episode=0)
        return self._step

    def step(self, actions: np.ndarray) -> Step:
        episodes: tuple[Episode, ...] = ()
        # strict: a wrong number of actions, or any after `close`, is an error.
        for lane, action in zip(self._lanes, actions.tolist(), strict=True):
            if lane.ended:
                lane.begin(lane.episode + 1)
            else:
                episodes += lane.advance(action)
        return self._step._replace(episodes=episodes) if episodes else self._step

    def state(self) -> dict[str, Any]:
        return {"lanes": [lane.state() for lane in self._lanes]}

    def restore(self, state: dict[str, Any]) -> tuple[Step, list[str]]:
        pairs = zip(self._lanes, state["lanes"], strict=True)
        problems = [problem for lane, past in pairs if (problem := lane.restore(past))]
        return self._step, problems

    def render(self) -> Any:
        return self._lanes[0].env.render()

    def close(self) -> None:
        with ExitStack() as stack:  # closes the rest also when one raises
            for lane in self._lanes:
                stack.callback(lane.env.close)
            self._lanes = []


class SingleEnv(SyncEnvs):
    """The same for one env, without the loop: that costs as much as the rest of a step."""

    def step(self, actions: np.ndarray) -> Step:
        (lane,) = self._lanes  # none after `close`, which is an error
        if lane.ended:
            lane.begin(lane.episode + 1)
            return self._step
        episodes = lane.advance(actions.item())
        return self._step._replace(episodes=episodes) if episodes else self._step


class _Lane:
    """One of N single envs: its running episode, and the rows it writes."""

    def __init__(
        self,
        env_id: str,
        index: int,
        env: gym.Env[Any, Any],
        spaces: Spaces,
        seed: int,
        step: Step,
        transform: RewardTransform | None,
    ) -> None:
        self.env = env
        self.episode = 0
        self.ended = False
        self._env_id = env_id
        self._index = index
        self._seed = seed
        self._first_action = spaces.first_action
        self._write = spaces.write
        self._observation = step.observation[index, ...]  # a view, also of a scalar
        self._legal = None if step.legal is None else step.legal[index]  # a view
        self._transform = transform
        self._step = step
        self._return = 0.0
        self._length = 0
        self._checksum = 0
        self._actions: list[int] = []

    def state(self) -> dict[str, Any]:
        """Which episode, the actions that led to where it is, a checksum of all it showed."""
        return {
            "episode": self.episode,
            "actions": list(self._actions),
            "return": self._return,
            "observations": self._checksum,
        }

    def restore(self, state: dict[str, Any]) -> str | None:
        """Plays the episode's actions again; says what was not the same, and begins the next."""
        self.begin(state["episode"])
        for action in state["actions"]:
            if self.ended:
                break
            self.advance(action)
        if self.state() == state:
            return None
        self.begin(state["episode"] + 1)
        return (
            f"env {self._index} ({self.env.spec.id if self.env.spec else self.env}) did not come "
            f"back the same in episode {state['episode']}"
        )

    def begin(self, episode: int) -> None:
        """Writes the first row of `episode`."""
        observation, info = self.env.reset(seed=episode_seed(self._seed, self._index, episode))
        self._write(self._observation, observation)
        self._checksum = zlib.crc32(self._observation.data)
        index, step = self._index, self._step
        step.reward[index] = 0.0
        step.terminated[index] = False
        step.truncated[index] = False
        step.autoreset[index] = True
        if self._legal is not None:
            write_legal(self._env_id, self._legal, info, False, index)
        self.episode = episode
        self.ended = False
        self._return = 0.0
        self._length = 0
        self._actions = []

    def advance(self, action: int) -> tuple[Episode, ...]:
        """Writes the row that `action` leads to; returns the episode if that ended it."""
        observation, reward, terminated, truncated, info = self.env.step(
            self._first_action + action
        )
        self._write(self._observation, observation)
        self._checksum = zlib.crc32(self._observation.data, self._checksum)
        index, step = self._index, self._step
        reward = float(reward)  # a NumPy float32 would make the sum float32
        step.reward[index] = reward if self._transform is None else self._transform.one(reward)
        step.terminated[index] = terminated
        step.truncated[index] = truncated
        step.autoreset[index] = False
        if self._legal is not None:
            write_legal(self._env_id, self._legal, info, bool(terminated or truncated), index)
        self._return += reward
        self._length += 1
        self._actions.append(action)
        if not (terminated or truncated):
            return ()
        self.ended = True
        return (Episode(self._index, self.episode, self._return, self._length, bool(terminated)),)


class VectorEnvs(Envs):
    """An env's own vector env, which by itself resets ended episodes on the next step.

    Only its first reset is seeded, as env 0's episode 0; the later episodes draw on the
    vector env's own random state, so one of them alone cannot be reproduced.
    """

    def __init__(
        self,
        env_id: str,
        env: gym.vector.VectorEnv[Any, Any, Any],
        spaces: Spaces,
        seed: int,
        *,
        has_action_masks: bool,
        transform: RewardTransform | None,
    ) -> None:
        super().__init__(env_id, env.num_envs, spaces, has_action_masks=has_action_masks)
        self._env = env
        self._seed = episode_seed(seed, env=0, episode=0)
        self._first_action = spaces.first_action
        self._write = spaces.write
        self._transform = transform
        self._step = _blank_step(env.num_envs, spaces, has_action_masks)
        self._closed = False
        self._ended = np.ones(env.num_envs, np.bool_)
        self._episode = np.zeros(env.num_envs, np.int64)
        self._return = np.zeros(env.num_envs, np.float64)
        self._length = np.zeros(env.num_envs, np.int64)

    def reset(self) -> Step:
        observation, info = self._env.reset(seed=self._seed)
        self._ended[:] = True
        self._episode[:] = -1
        return self._record(observation, 0.0, False, False, info)

    def step(self, actions: np.ndarray) -> Step:
        return self._record(*self._env.step(actions + self._first_action))

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> tuple[Step, list[str]]:
        return self.reset(), [f"a vector env cannot be brought back ({self.env_id})"]

    def render(self) -> Any:
        frames = self._env.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._env.close()

    def _record(
        self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any
    ) -> Step:
        step = self._step
        step.autoreset[:] = began = self._ended
        self._write(step.observation, observation)
        # Some vector envs go on giving rewards on the step that resets.
        reward = np.where(began, 0.0, reward)
        step.reward[:] = reward if self._transform is None else self._transform.all(reward)
        step.terminated[:] = terminated
        step.truncated[:] = truncated
        self._episode += began
        self._return = np.where(began, 0.0, self._return + reward)
        self._length = np.where(began, 0, self._length + 1)
        self._ended = step.terminated | step.truncated
        if step.legal is not None:
            write_legal(self.env_id, step.legal, info, self._ended)
        if not self._ended.any():
            return step
        return step._replace(
            episodes=tuple(map(self._finished, np.flatnonzero(self._ended).tolist()))
        )

    def _finished(self, env: int) -> Episode:
        return Episode(
            env,
            int(self._episode[env]),
            float(self._return[env]),
            int(self._length[env]),
            bool(self._step.terminated[env]),
        )
