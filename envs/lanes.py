"""One single env among several: the rows it writes, and its repetition from the same seed."""

import time
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import gymnasium as gym
import numpy as np

from targetnet.envs.interface import Episode, Step
from targetnet.envs.masks import mask_writer
from targetnet.envs.observations import LARGEST, not_finite
from targetnet.envs.outcomes import (
    as_flag,
    as_number,
    env_error,
    lost_lives,
    not_a_step,
    reset_results,
)
from targetnet.envs.seeding import SeedGlobals, episode_seed, layers_of, seed_spaces
from targetnet.envs.spaces import Spaces
from targetnet.rl_core.errors import EnvFault, in_one_line, quoted

_LEAST = -LARGEST


def blank_step(num_envs: int, spaces: Spaces) -> Step:
    """Returns the arrays that a driver overwrites at every step."""
    legal = np.ones((num_envs, spaces.actions.outputs), np.bool_)
    return Step(
        observation=np.zeros((num_envs, *spaces.observation_shape), spaces.observation_dtype),
        reward=np.zeros(num_envs, np.float32),
        terminated=np.zeros(num_envs, np.bool_),
        truncated=np.zeros(num_envs, np.bool_),
        autoreset=np.zeros(num_envs, np.bool_),
        episodes=(),
        legal=None if spaces.masks is None else legal,
    )


class Lane:
    """One of N single envs; it writes row `row` of `step`.

    Args:
      env_id: the env's id, for error messages.
      number: index of the env among the N; with the seed it determines every episode.
      env: the gymnasium env.
      spaces: the env's spaces in the agent's form.
      seed: the run's seed.
      step: the driver's arrays.
      row: index of the row in `step`.
    """

    def __init__(
        self,
        env_id: str,
        number: int,
        env: gym.Env[Any, Any],
        spaces: Spaces,
        seed: int,
        step: Step,
        row: int,
    ) -> None:
        self.env = env
        self.episode = 0
        self.ended = False  # the next row begins an episode, or a life
        self.life_lost = False  # and nothing else ended: the next row begins a life
        self.env_id, self.number, self._seed = env_id, number, seed
        self._form, self._to_env = spaces.actions, spaces.actions.one_to_env()
        observation = step.observation[row, ...]  # a view even if an observation is a scalar
        self._write = spaces.writer(observation)
        self._bytes = observation.data
        self._frames = observation if spaces.stack > 1 else None
        self._channels = spaces.observation_shape[-1] // spaces.stack if spaces.stack > 1 else 0
        self._legal = None if step.legal is None else step.legal[row]  # a view
        self._masks = mask_writer(spaces.masks, env, self._legal, self._form)
        self._row = row
        self._rewards = step.reward
        self._terminated = step.terminated
        self._truncated = step.truncated
        self._autoreset = step.autoreset
        self._return = 0.0
        self._checksum = self._lives = 0
        self._begins = True  # the last row began an episode or a life
        self._actions: list[Any] = []

    def state(self) -> dict[str, Any]:
        """Returns where the episode is; `lives` is the number of its rows that began another."""
        return {
            "episode": self.episode,
            "actions": list(self._actions),
            "return": self._return,
            "observations": self._checksum,
            "lives": self._lives,
        }

    def begin_next(self) -> None:
        """Writes the first row of the next episode, or after a lost life of the next life."""
        if self.life_lost:
            self._begin_life()
        else:
            self.begin(self.episode + 1)

    def begin(self, episode: int) -> None:
        """Writes the first row of `episode`.

        Raises:
          EnvFault: the env raised, or returned an invalid value.
        """
        try:
            try:
                seed = episode_seed(self._seed, self.number, episode)
                seed_spaces(self.env, seed)
                result = self.env.reset(seed=seed)
            except (Exception, SystemExit) as error:
                raise env_error(error) from error
            observation, info = reset_results(result)
            if self._frames is not None:
                self._frames[...] = 0
            self._write(observation)
            if self._masks is not None:
                self._masks.write(observation, info)
        except EnvFault as fault:
            self._locate(fault, f"reset of its episode {episode}", 0)
            raise
        self._checksum = crc32(self._bytes)
        self.episode, self._return, self._lives, self._actions = episode, 0.0, 0, []
        self._write_first()

    def _begin_life(self) -> None:
        """Writes what the env showed last, without the frames before, as a life's first row."""
        if self._frames is not None:
            self._frames[..., : -self._channels] = 0
        self._checksum = crc32(self._bytes, self._checksum)
        self._lives += 1
        self._write_first()

    def _write_first(self) -> None:
        row = self._row
        self._rewards[row] = 0.0
        self._terminated[row] = self._truncated[row] = False
        self._autoreset[row] = self._begins = True
        self.ended = self.life_lost = False

    def advance(self, action: Any) -> tuple[Episode, ...]:
        """Applies `action` and writes the row; returns the episode if the step ended it.

        A lost life ends none (`LIFE_LOST`): the row is terminated, and the next one begins a life.

        Args:
          action: an int, or a list of D of them with branches.

        Raises:
          EnvFault: the env raised, or returned an invalid value.
        """
        try:
            try:
                result = self.env.step(self._to_env(action))
            except (Exception, SystemExit) as error:
                raise env_error(error) from error
            try:
                observation, reward, terminated, truncated, info = result
            except (TypeError, ValueError):
                raise not_a_step(result) from None
            self._write(observation)
            if reward.__class__ is not float:
                reward = as_number(reward)
            # A value beyond float32 would be stored as infinite. NaN fails the comparison too.
            if not _LEAST <= reward <= LARGEST:
                raise not_finite("the reward", reward)
            if terminated is False and truncated is False:
                ended = False
            else:
                terminated = as_flag("terminated", terminated)
                truncated = as_flag("truncated", truncated)
                self.life_lost = terminated and not truncated and bool(lost_lives(info).any())
                ended = terminated or truncated
            if self._masks is not None:
                over = ended and not self.life_lost
                self._masks.write(observation, info, over, over and terminated)
        except EnvFault as fault:
            self._locate(fault, f"step {len(self._actions) + 1:,} of its episode {self.episode}", 1)
            raise
        self._checksum = crc32(self._bytes, self._checksum)
        self._rewards[self._row] = reward
        # Write the flags only when they change, which is rare.
        if self._begins:
            self._autoreset[self._row] = self._begins = False
        self._return += reward
        self._actions.append(action)
        return self._end(terminated, truncated) if ended else ()

    def random_action(self, numbers: np.random.Generator) -> Any:
        """Returns any action that is legal now, as `advance` takes it."""
        return self._form.random(numbers, self._legal)

    def cut(self) -> Episode:
        """Ends the running episode and returns it."""
        self.ended, self.life_lost = True, False
        return self._now(False)._replace(cut=True)

    def _locate(self, fault: EnvFault, when: str, env_steps: int) -> None:
        """Adds the env and the moment to a fault."""
        fault.add(before=f"env {self.number} ({self.env_id}), {when}: ")
        # The envs before this one have already made their transition of this time step.
        transitions = self._row - np.count_nonzero(self._autoreset[: self._row])
        fault.env_steps = int(transitions) + env_steps

    def _end(self, terminated: bool, truncated: bool) -> tuple[Episode, ...]:
        self._terminated[self._row] = terminated
        self._truncated[self._row] = truncated
        self.ended = True
        if self.life_lost:
            return ()
        return (self._now(terminated),)

    def _now(self, terminated: bool) -> Episode:
        return Episode(self.number, self.episode, self._return, len(self._actions), terminated)


def repeat_episode(lane: Lane, state: dict[str, Any]) -> str | None:
    """Repeats the actions of a saved episode; returns None if the result is the same.

    Otherwise begins the next episode and returns a message.
    """
    did = "gave other results"
    try:
        lane.begin(state["episode"])
        for action in state["actions"]:
            if lane.life_lost:
                lane.begin_next()
            if lane.ended:
                break
            lane.advance(action)
        if lane.life_lost and lane.state()["lives"] < state["lives"]:
            lane.begin_next()
        if lane.state() == state:
            return None
    except EnvFault as fault:
        # What it shows now is another episode, in which these actions may be illegal.
        did = f"failed ({in_one_line(fault)})"
    lane.begin(state["episode"] + 1)
    return f"env {lane.number} ({lane.env_id}) {did} when episode {state['episode']} was repeated"


# The first steps of the first episodes; after so many seconds no further one is begun.
_EPISODES, _STEPS, _SECONDS = 3, 20, 0.1
BY_HAND = (
    "let the env draw from its own np_random, which reset(seed=...) seeds, and keep nothing over a "
    "reset"
)

Played = list[dict[str, Any]]  # states of a lane, one for each episode


def play_some(lane: Lane) -> Played:
    """Plays the beginnings of some episodes by random legal actions.

    Raises:
      EnvFault: the env raised, or returned an invalid value.
    """
    numbers, states = np.random.default_rng(0), []
    begin = time.perf_counter()
    for episode in range(_EPISODES):
        lane.begin(episode)
        stepping = time.perf_counter()
        for _ in range(_STEPS):
            lane.advance(lane.random_action(numbers))
            if lane.ended or time.perf_counter() - stepping > _SECONDS:
                break
        states.append(lane.state() | {"ended": lane.ended})
        if time.perf_counter() - begin > _SECONDS:
            break
    return states


def come_back(lane: Lane, played: Played) -> bool:
    """Says whether an env shows and pays the same again, step by step.

    Raises:
      EnvFault: the env raised, or returned an invalid value, when a new episode began.
    """
    for state in played:
        ended = state["ended"]
        state = {name: value for name, value in state.items() if name != "ended"}
        if repeat_episode(lane, state) or lane.ended != ended:
            return False
    return True


def line_about(env_id: str, advice: str) -> str:
    """Returns the line that tells of an env whose episodes do not come back."""
    return (
        f"{env_id} gives other results when an episode is repeated from its seed, so resume and "
        f"replay are not exact; {advice}"
    )


def mended_by(names: Sequence[str]) -> str:
    """Returns the advice to put `seed_globals` around the wrappers with these names."""
    value = [*names, "seed_globals"] if names else "seed_globals"
    return f"env_wrapper = {quoted(value)} mends that"


def untried_advice(env: gym.Env[Any, Any]) -> str:
    """Returns the advice for an env, if nobody has tried `seed_globals`."""
    if any(isinstance(layer, SeedGlobals) for layer in layers_of(env)):
        return BY_HAND
    return "env_wrapper = 'seed_globals' mends that if it draws from random or numpy.random"
