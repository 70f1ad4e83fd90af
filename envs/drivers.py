"""Drivers in one process: one env, several envs in a loop, and an env's own vector env."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.envs.interface import Envs, Episode, Step
from targetnet.envs.lanes import (
    Lane,
    blank_step,
    come_back,
    line_about,
    play_some,
    repeat_episode,
    untried_advice,
)
from targetnet.envs.masks import mask_writer
from targetnet.envs.observations import LARGEST, not_finite
from targetnet.envs.outcomes import (
    as_flags,
    as_rewards,
    env_error,
    lost_lives,
    naming,
    not_a_step,
    reset_results,
)
from targetnet.envs.seeding import episode_seed, global_state, put_back, seed_spaces
from targetnet.envs.spaces import Spaces
from targetnet.rl_core.errors import EnvError, EnvFault


class UnsteppedEnvs(Envs):
    """Envs that nobody steps by this interface.

    Attributes:
      reason: who does instead, for error messages.
    """

    reason = "the run learns from a dataset"

    def reset(self) -> Step:
        raise self._unstepped()

    def step(self, actions: np.ndarray) -> Step:
        raise self._unstepped()

    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        raise self._unstepped()

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> tuple[Step | None, list[str]]:
        return None, []

    def render(self) -> Any:
        return None

    def close(self) -> None:
        pass

    def _unstepped(self) -> EnvError:
        return EnvError(f"{self.env_id!r} is not stepped: {self.reason}")


class SyncEnvs(Envs):
    """N single envs stepped one after the other; every episode resets with its own seed.

    Gymnasium's SyncVectorEnv is not used, because its autoresets pass no seed.

    Args:
      env_id: the envs' id, for error messages.
      envs: the single envs.
      spaces: the spaces of one env in the agent's form.
      seed: the run's seed.
      first: number of the first env, if `envs` is a share of a larger set.
      step: the arrays to write, one row per env; None makes them.
    """

    def __init__(
        self,
        env_id: str,
        envs: Sequence[gym.Env[Any, Any]],
        spaces: Spaces,
        seed: int,
        *,
        first: int = 0,
        step: Step | None = None,
    ) -> None:
        super().__init__(env_id, len(envs), spaces)
        self._step = step or blank_step(len(envs), spaces)
        self._lanes = [
            Lane(env_id, first + row, env, spaces, seed, self._step, row)
            for row, env in enumerate(envs)
        ]
        self.frames_per_second = frames_per_second(envs[0])

    def reset(self) -> Step:
        for lane in self._lanes:
            lane.begin(episode=0)
        return self._step

    def step(self, actions: np.ndarray) -> Step:
        episodes: tuple[Episode, ...] = ()
        # strict: raises for a wrong number of actions, and for any action after `close`.
        for lane, action in zip(self._lanes, actions.tolist(), strict=True):
            if lane.ended:
                lane.begin_next()
            else:
                episodes += lane.advance(action)
        return self._step._replace(episodes=episodes) if episodes else self._step

    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        return tuple(self._lanes[row].cut() for row in which.nonzero()[0])

    def state(self) -> dict[str, Any]:
        return {"lanes": [lane.state() for lane in self._lanes]}

    def restore(self, state: dict[str, Any]) -> tuple[Step, list[str]]:
        pairs = zip(self._lanes, state["lanes"], strict=True)
        problems = [problem for lane, past in pairs if (problem := repeat_episode(lane, past))]
        return self._step, problems

    def check(self) -> str:
        lane, before = self._lanes[0], global_state()
        try:
            if not come_back(lane, play_some(lane)):
                return line_about(self.env_id, untried_advice(lane.env))
        except EnvFault:  # it is told by the call that needs the env
            pass
        finally:
            put_back(before)
        return ""

    def render(self) -> Any:
        return self._lanes[0].env.render()

    def close(self) -> None:
        with naming(self.env_id, "its close"), ExitStack() as stack:
            for lane in self._lanes:  # all are closed even if one of them raises
                stack.callback(lane.env.close)
            self._lanes = []


def frames_per_second(env: gym.Env[Any, Any]) -> float:
    """Returns how fast a video of an env is played: what its metadata say, or 30."""
    fps = (getattr(env, "metadata", None) or {}).get("render_fps")
    return float(fps) if isinstance(fps, int | float) and 0 < fps < math.inf else 30.0


class SingleEnv(SyncEnvs):
    """SyncEnvs for a single env without the loop, which costs as much as the rest of a step."""

    def step(self, actions: np.ndarray) -> Step:
        (lane,) = self._lanes  # raises after `close`, which leaves no lane
        (action,) = actions.tolist()
        if lane.ended:
            lane.begin_next()
            return self._step
        episodes = lane.advance(action)
        return self._step._replace(episodes=episodes) if episodes else self._step


class VectorEnvs(Envs):
    """An env's own vector env, which resets ended episodes on the next step.

    Only the first reset is seeded, with the seed of env 0's episode 0. Later episodes use the
    vector env's random state, so no single episode can be reproduced alone.
    """

    def __init__(
        self,
        env_id: str,
        env: gym.vector.VectorEnv[Any, Any, Any],
        spaces: Spaces,
        seed: int,
    ) -> None:
        super().__init__(env_id, env.num_envs, spaces)
        self._env = env
        self._seed = episode_seed(seed, env=0, episode=0)
        self._step = blank_step(env.num_envs, spaces)
        self._masks = mask_writer(spaces.masks, env, self._step.legal, spaces.actions)
        self._write = spaces.writer(self._step.observation)
        self._closed = False
        self._tick = 0  # number of rows so far
        self._raw = np.zeros(env.num_envs, np.float64)  # raw rewards of the last step
        self._over = np.zeros(env.num_envs, np.bool_)
        self._life_lost = np.zeros(env.num_envs, np.bool_)  # and so the episode goes on
        self._sizes = np.empty(env.num_envs, np.float64)
        self._good = np.empty(env.num_envs, np.bool_)
        # Indices of the envs whose last row begins an episode, and of those whose row ends one. A
        # life counts as one here, whether or not the env plays on in the row that begins it.
        self._fresh = self._ended = np.empty(0, np.int64)
        self._episode = np.zeros(env.num_envs, np.int64)
        self._began = np.zeros(env.num_envs, np.int64)  # tick of the episode's first row
        self._return = np.zeros(env.num_envs, np.float64)

    def reset(self) -> Step:
        self._ended = np.arange(self.num_envs)
        self._life_lost[:] = False
        self._episode[:] = -1
        try:
            try:
                seed_spaces(self._env, self._seed)
                result = self._env.reset(seed=self._seed)
            except EnvError:  # PoolEnv makes its pool in `reset`, which may fail
                raise
            except (Exception, SystemExit) as error:
                raise env_error(error) from error
            observation, info = reset_results(result)
            no = np.zeros(self.num_envs, np.bool_)
            return self._record(observation, no, no, no, info)
        except EnvFault as fault:
            self._locate(fault, "reset")
            raise

    def step(self, actions: np.ndarray) -> Step:
        try:
            try:
                result = self._env.step(self.spaces.actions.to_env(actions))
            except (Exception, SystemExit) as error:
                raise env_error(error) from error
            try:
                observation, reward, terminated, truncated, info = result
            except (TypeError, ValueError):
                raise not_a_step(result) from None
            return self._record(observation, reward, terminated, truncated, info)
        except EnvFault as fault:
            self._locate(fault, "step")
            raise

    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        cut = tuple(
            self._finished(env)._replace(terminated=False, cut=True)
            for env in which.nonzero()[0].tolist()
        )
        self._return[which] = 0.0
        self._life_lost[which] = False
        self._began[which] = self._tick
        self._episode[which] += 1
        return cut

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> tuple[Step, list[str]]:
        return self.reset(), [f"a vector env cannot be restored ({self.env_id})"]

    def render(self) -> Any:
        frames = self._env.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            with naming(self.env_id, "its close"):
                self._env.close()

    def _record(
        self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any
    ) -> Step:
        step, raw = self._step, self._raw
        self._tick += 1
        raw[:] = as_rewards(reward, self.num_envs)
        step.terminated[:] = as_flags("terminated", terminated, self.num_envs)
        step.truncated[:] = as_flags("truncated", truncated, self.num_envs)
        if len(self._fresh) or len(self._ended):
            self._begin_episodes()
        if self.spaces.stack > 1:
            step.observation[self._fresh] = 0
        self._write(observation)
        self._require_finite_rewards()
        step.reward[:] = raw
        self._return += raw
        np.logical_or(step.terminated, step.truncated, out=self._over)
        if self._masks is not None:
            self._masks.write(observation, info, self._over)
        self._ended = self._over.nonzero()[0]
        if not len(self._ended):
            return step
        np.logical_and(step.terminated & ~step.truncated, lost_lives(info), out=self._life_lost)
        finished = (self._over & ~self._life_lost).nonzero()[0]
        return step._replace(episodes=tuple(map(self._finished, finished.tolist())))

    def _require_finite_rewards(self) -> None:
        sizes, good = self._sizes, self._good
        np.less_equal(np.abs(self._raw, sizes), LARGEST, good)  # False for NaN
        if np.count_nonzero(good) < self.num_envs:
            env = int(np.argmin(good))
            fault = not_finite("the reward", self._raw[env])
            fault.env = env
            raise fault

    def _locate(self, fault: EnvFault, call: str) -> None:
        """Adds the env and the moment to a fault."""
        env = fault.env
        if env is None:  # the fault is of all envs together
            fault.add(before=f"envs 0 to {self.num_envs - 1} ({self.env_id}), {call}: ")
            fault.env_steps = int(call == "step")
            return
        length = self._tick - int(self._began[env])
        when = f"step {length:,} of" if length else "reset of"
        fault.add(before=f"env {env} ({self.env_id}), {when} its episode {self._episode[env]}: ")
        resets = np.count_nonzero(self._step.autoreset[: env + 1])
        fault.env_steps = env + 1 - int(resets)

    def _begin_episodes(self) -> None:
        self._step.autoreset[self._fresh] = False
        self._fresh = began = self._ended
        self._step.autoreset[began] = True
        of_life = self._life_lost[began]
        lives, began = began[of_life], began[~of_life]
        self._return[lives] += self._raw[lives]  # nobody learns from it, but the game paid it
        self._began[lives] += 1  # this row is no transition
        self._raw[self._fresh] = 0.0  # some vector envs give a reward on the resetting step too
        self._return[began] = 0.0
        self._began[began] = self._tick
        self._episode[began] += 1

    def _finished(self, env: int) -> Episode:
        return Episode(
            env,
            int(self._episode[env]),
            float(self._return[env]),
            self._tick - int(self._began[env]),
            bool(self._step.terminated[env]),
        )
