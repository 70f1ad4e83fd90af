"""A dataset's steps as rows of a replay memory, as several envs would have shown them.

Episodes lie one after the other, as if the run's envs had shown them: T steps are T + 1 rows, of
which the first says that a reset led to it and the last shows the true final observation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.hdf5 import EpisodeColumns
from targetnet.agents.data.metadata import DataError
from targetnet.agents.data.minari_files import Dataset
from targetnet.envs import Envs
from targetnet.envs.masks import INFO, mask_in, write_legal
from targetnet.envs.nests import Path, at, leaves
from targetnet.envs.observations import ADVICE, LARGEST
from targetnet.envs.spaces import Spaces, read_spaces
from targetnet.envs.stacks import frame_shape
from targetnet.rl_core.digest import Digest
from targetnet.rl_core.errors import EnvError, EnvFault, in_one_line, quoted

Columns = dict[str, np.ndarray]


class EpisodeStreams:
    """Deals episodes out whole to streams of rows, one for each env.

    Each goes to the stream that is shortest so far, and of several such to the first. What a stream
    has beyond the shortest one is never taken: its last episode is cut off there.

    Args:
      num_envs: N.

    Attributes:
      lengths: rows that each stream was dealt.
    """

    def __init__(self, num_envs: int) -> None:
        self.lengths = [0] * num_envs
        self._waiting: list[Columns] = [{} for _ in range(num_envs)]

    @property
    def time_steps(self) -> int:
        """Rows of each stream, cut to the length of the shortest one."""
        return min(self.lengths)

    def deal(self, length: int) -> int:
        """Counts an episode of so many rows, and returns the number of its stream."""
        shortest = self.lengths.index(self.time_steps)
        self.lengths[shortest] += length
        return shortest

    def put(self, rows: Columns) -> None:
        """Deals out the rows of an episode, arrays [L, ...]."""
        stream = self.deal(len(rows["action"]))
        before = self._waiting[stream]
        self._waiting[stream] = (
            {name: np.concatenate([before[name], column]) for name, column in rows.items()}
            if before
            else rows
        )

    def waiting(self) -> int:
        """Time steps that can be taken."""
        return min(len(rows["action"]) if rows else 0 for rows in self._waiting)

    def take(self, time_steps: int) -> Columns:
        """Returns the next time steps of all streams, arrays [time_steps, N, ...]."""
        taken = [{n: c[:time_steps] for n, c in rows.items()} for rows in self._waiting]
        self._waiting = [{n: c[time_steps:] for n, c in rows.items()} for rows in self._waiting]
        return {name: np.stack([rows[name] for rows in taken], axis=1) for name in taken[0]}


_LEARNED_FROM = ("observations", "actions", "rewards", "terminations", "truncations")


class DatasetContent(NamedTuple):
    """The content of a dataset.

    Attributes:
      episodes, env_steps: with steps.
      time_steps: of the run's envs that its rows are; one env has all of them.
      digest: of all steps, as Minari gives them.
    """

    episodes: int
    env_steps: int
    time_steps: int
    digest: str


class DatasetRows:
    """Reads the steps of a dataset as rows of the replay memory of a run.

    Args:
      dataset: is read from its files whenever rows are asked for.
      config: of the run.
      envs: of such a run, whatever they are stepped by.

    Raises:
      DataError: the dataset has other spaces than the env.
    """

    def __init__(self, dataset: Dataset, config: DqnConfig, envs: Envs) -> None:
        self._dataset, self._masks = dataset, envs.has_action_masks
        self._num_envs, self._wanted = config.num_envs, config.dataset_digest
        self._spaces = _common_spaces(dataset, config, envs)
        shape = self._spaces.observation_shape
        self._row_shape = frame_shape(shape) if config.frame_stack > 1 else shape

    def look_through(self) -> DatasetContent:
        """Checks all steps, counts and hashes them.

        Raises:
          DataError: the dataset is damaged, or has no steps.
        """
        episodes = env_steps = 0
        digest, streams = Digest(), EpisodeStreams(self._num_envs)
        for number, episode in enumerate(self._dataset.episodes()):
            self._add_episode(digest, number, episode)
            if length := len(episode.rewards):
                self._rows(number, episode)
                streams.deal(length + 1)
            episodes += length > 0
            env_steps += length
        if not env_steps:
            raise DataError(f"the dataset {self._dataset.path} is empty: it has no env step")
        return DatasetContent(episodes, env_steps, streams.time_steps, digest.hexdigest())

    def pieces(self, most: int) -> Iterator[Columns]:
        """Yields the rows, arrays [P, N, ...] with P <= most, as `DqnAgent.store` takes them.

        Raises:
          DataError: the dataset is damaged, or is not the one whose digest the config has. That is
            known after the last piece.
        """
        digest, streams = Digest(), EpisodeStreams(self._num_envs)
        for number, episode in enumerate(self._dataset.episodes()):
            self._add_episode(digest, number, episode)
            if len(episode.rewards):
                streams.put(self._rows(number, episode))
            while streams.waiting() >= most:
                yield streams.take(most)
        if rest := streams.waiting():
            yield streams.take(rest)
        if self._wanted not in ("", digest.hexdigest()):
            raise DataError(
                f"the dataset {self._dataset.path} has changed since it was looked through: wanted "
                f"the digest {self._wanted}, got {digest.hexdigest()}"
            )

    def _add_episode(self, digest: Digest, number: int, episode: EpisodeColumns) -> None:
        for name in _LEARNED_FROM:
            _add(digest, f"{number}/{name}", getattr(episode, name))
        if self._masks and mask_in(episode.infos) is not None:
            _add(digest, f"{number}/action_mask", mask_in(episode.infos))

    def _rows(self, number: int, episode: EpisodeColumns) -> Columns:
        """Returns the rows of an episode, [T + 1, ...]; each has the outcome that led to it."""
        with self._checking(number):
            T = len(episode.rewards)
            action = self._actions(np.asarray(episode.actions), T)
            reward = np.asarray(episode.rewards)
            fits = reward.shape == (T,) and reward.dtype.kind in "fiub"
            _require(fits, f"{T} numbers as rewards", reward)
            good = np.isfinite(reward) & (np.abs(reward) <= LARGEST)
            _require(good.all(), "rewards that are finite in float32", reward)
            flags = [np.asarray(episode.terminations), np.asarray(episode.truncations)]
            for of in flags:
                _require(of.shape == (T,) and of.dtype.kind in "biu", f"{T} flags", of)
                _require(not of[:-1].any(), "no end before the last step", of)
            observation = np.zeros(
                (T + 1, *self._spaces.observation_shape), self._spaces.observation_dtype
            )
            self._spaces.writer(observation)(episode.observations)
            rows = {
                "observation": observation.reshape(T + 1, *self._row_shape),
                "action": action,
                "reward": np.concatenate([[0], reward]).astype(np.float32),
                "terminated": np.concatenate([[False], flags[0].astype(np.bool_)]),
                "autoreset": np.arange(T + 1) == 0,
            }
            if self._masks:
                rows["legal"] = self._legal(episode, T)
            return rows

    def _actions(self, given: np.ndarray, length: int) -> np.ndarray:
        """[T, ...] of the env's own -> [T + 1] or [T + 1, D] int32 from 0 on.

        The last one means nothing.
        """
        form = self._spaces.actions
        good: Any = given.shape == (length, *form.shape) and given.dtype.kind in "iu"
        each = f"vectors of {len(form.branches)} " if form.branches else ""
        _require(good, f"{length} {each}whole numbers", given)
        action = given.astype(np.int64).reshape(length, *form.agent_shape) - form.first
        good = (action >= 0) & (action < np.array(form.branches or form.outputs))
        wrong = ~good.reshape(length, -1).all(axis=1)
        if wrong.any():
            raise _BadEpisode(f"action {quoted(given[wrong][0].tolist())}, which is none of {form}")
        nothing = np.zeros((1, *form.agent_shape), np.int64)
        return np.concatenate([action, nothing]).astype(np.int32)

    def _legal(self, episode: EpisodeColumns, length: int) -> np.ndarray:
        legal = np.ones((length + 1, self._spaces.actions.outputs), np.bool_)
        mask, source = mask_in(episode.infos), self._spaces.masks
        if mask is None and source is not None and source.path is not None:
            mask = at(episode.observations, source.path)
        if mask is None:
            raise _BadEpisode("no infos['action_mask'], and the env has masks")
        last = np.arange(length + 1) == length
        write_legal(legal, mask, last, self._spaces.actions)
        return legal

    @contextlib.contextmanager
    def _checking(self, number: int) -> Iterator[None]:
        """Adds where it was to the error of an episode that cannot be learned from."""
        try:
            yield
        except (_BadEpisode, EnvFault, TypeError, AttributeError, ValueError, MemoryError) as error:
            problem = in_one_line(str(error).removesuffix(ADVICE), 400)
            if isinstance(error, EnvFault) and error.env is not None:
                problem = f"at step {error.env} {problem}"
            raise DataError(
                f"episode {number} of the dataset {self._dataset.path} cannot be learned from: "
                f"{problem}"
            ) from None


class _BadEpisode(Exception):
    """Something in an episode that should be otherwise."""


def _require(good: bool | np.bool_, wanted: str, got: np.ndarray) -> None:
    if not good:
        raise _BadEpisode(f"wanted {wanted}, got {quoted(got.tolist())}")


def _common_spaces(dataset: Dataset, config: DqnConfig, envs: Envs) -> Spaces:
    """Returns the spaces of single frames in the agent's form; the dataset's are the env's."""
    assert envs.spaces.own is not None
    own, keys, name = envs.spaces.own, config.observation_keys, str(dataset.path)
    form, masks = dataset.form, config.action_masks
    wanted = read_spaces(config.env_id, *own, keys, masks)
    if wanted.masks is not None and not _has(form.observations, wanted.masks.path or ()):
        masks = INFO  # where datasets of ours have them alone
    try:
        found = read_spaces(name, form.observations, form.actions, keys, masks)
    except EnvError as error:
        raise DataError(f"the dataset {name} cannot be learned from: {error}") from None
    if _form_of(found) == _form_of(wanted):
        return wanted  # whose parts are in the env's order; Minari sorts those of a dict
    shows = (
        f"its observations are {in_one_line(form.observations)} and its actions "
        f"{in_one_line(form.actions)}, and the env has {in_one_line(own[0])} and "
        f"{in_one_line(own[1])}"
    )
    env_id = form.spec.id.rpartition(":")[2] if form.spec is not None else "..."
    if "env_id" not in config.model_fields_set:
        raise DataError(
            f"the config names no env, and the dataset {name} does not fit {config.env_id}, which "
            f"is trained on by default: {shows}; --set env_id={env_id}"
        )
    advice = ""
    if env_id not in ("...", config.env_id.rpartition(":")[2]):
        advice = f"; it was recorded from {env_id}: --set env_id={env_id}"
    raise DataError(f"the dataset {name} is of another env than {config.env_id}: {shows}{advice}")


def _has(space: gym.Space[Any], path: Path) -> bool:
    return any(leaf.path[: len(path)] == path for leaf in leaves("", space))


def _form_of(spaces: Spaces) -> tuple[Any, ...]:
    parts = sorted((part.name, part.shape, str(part.dtype)) for part in spaces.parts)
    actions = spaces.actions._replace(first=np.asarray(spaces.actions.first).tolist())
    return spaces.observation_shape, spaces.observation_dtype, parts, actions


def _add(digest: Digest, name: str, value: Any) -> None:
    """Adds what Minari gives of an episode: arrays, in dicts and tuples, and lists of texts."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            _add(digest, f"{name}/{key}", value[key])
    elif isinstance(value, tuple):
        for i, of in enumerate(value):
            _add(digest, f"{name}/{i}", of)
    elif isinstance(value, np.ndarray):
        digest.array(name, value)
    else:
        digest.value(name, value)
