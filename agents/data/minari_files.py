"""Files of a dataset, as Minari 0.5 writes and reads them.

Minari, https://minari.farama.org, is an extra and is imported where it is used.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from targetnet.agents.data.hdf5 import NAME, EpisodeColumns, EpisodeFile
from targetnet.agents.data.metadata import (
    METADATA,
    DataError,
    UnsafeData,
    file_within,
    read_metadata,
)
from targetnet.envs.recorder import RecordedSteps
from targetnet.rl_core.errors import RlCoreError, did_you_mean, in_one_line, quoted

# Older versions can store pictures as JPEG alone, which loses what they show.
_LEAST = (0, 5, 4)
_NAME = re.compile(r"[-\w]+-v\d+")
_WITH_NAMESPACE = re.compile(r"[-\w][-\w/]*[-\w]/[-\w]+-v\d+")
_ROOT = "MINARI_DATASETS_PATH"  # names the directory below which Minari finds datasets


class Form(NamedTuple):
    """Everything that a dataset says of its env.

    Attributes:
      observations, actions: spaces of one observation and one action.
      spec: from which Minari makes the env again; None if it cannot be kept. Of a dataset that is
        read it has no entry point.
    """

    observations: gym.Space[Any]
    actions: gym.Space[Any]
    spec: EnvSpec | None


class DatasetSize(NamedTuple):
    """The size of a dataset, and the mean return of its episodes."""

    episodes: int
    env_steps: int
    mean_return: float


def require_minari() -> Any:
    """Returns the package.

    Raises:
      DataError: it is not installed, or too old.
    """
    try:
        import minari
    except ImportError as error:
        raise DataError(
            f"datasets need Minari ({in_one_line(error)}): pip install 'targetnet[data]'"
        ) from None
    version = tuple(map(int, re.findall(r"\d+", minari.__version__)[:3]))
    if version < _LEAST:
        wanted = ".".join(map(str, _LEAST))
        raise DataError(
            f"datasets need Minari >= {wanted}, and {minari.__version__} is installed: "
            "pip install 'targetnet[data]'"
        )
    return minari


def root_of_datasets() -> Path:
    """Returns the directory below which Minari finds datasets by their ids."""
    named = os.environ.get(_ROOT)
    return Path(named) if named else Path.home() / ".minari" / "datasets"


def id_of(out: Path) -> str:
    """Returns the id under which Minari finds a dataset at `out`.

    That is its path below MINARI_DATASETS_PATH, as far as Minari takes it for a namespace, or else
    its name, which Minari finds if that variable names the directory above.

    Raises:
      DataError: Minari takes no such name.
    """
    if not _NAME.fullmatch(out.name):
        raise DataError(
            "a dataset's directory must be named as Minari names datasets, NAME-v0, as in "
            f"data/cartpole-v0, got {quoted(str(out))}"
        )
    whole, root = out.resolve(), root_of_datasets().resolve()
    below = whole.relative_to(root).as_posix() if root in whole.parents else ""
    return below if _WITH_NAMESPACE.fullmatch(below) else out.name


def directory_of(dataset: str) -> Path:
    """Returns the whole path of a dataset.

    Args:
      dataset: its path, or the id under which Minari finds it on this machine.

    Raises:
      DataError: there is none; nothing is downloaded.
    """
    root = root_of_datasets()
    for place in (Path(dataset), root / dataset):
        if _holds_data(place) or _holds_data(place / "data"):
            return place.resolve()
    known = [path.parent.parent for path in root.glob("**/data/metadata.json")]
    ids = [path.relative_to(root).as_posix() for path in known]
    raise DataError(
        f"there is no Minari dataset {quoted(dataset)}: it is neither a directory with a dataset "
        f"nor the id of one in {root} ({_ROOT}){did_you_mean(dataset, ids)}"
    )


def _holds_data(place: Path) -> bool:
    # Also true of a pipe or a broken link, which is refused with its reason later.
    return os.path.lexists(place / METADATA)


class Dataset:
    """A dataset that is read.

    Args:
      path: of its directory.

    Attributes:
      path: the same.
      form: its spaces, and the spec of its env if it has one.

    Raises:
      DataError: Minari is not installed, or cannot read it.
    """

    def __init__(self, path: Path) -> None:
        require_minari()
        self.path = path
        with self._reading():
            inner = path / "data" if _holds_data(path / "data") else path
            metadata = read_metadata(path, inner)
            self._file = EpisodeFile(file_within(path, inner / NAME), metadata)
            self.form = Form(metadata.observations, metadata.actions, metadata.spec)

    def episodes(self) -> Iterator[EpisodeColumns]:
        """Yields the episodes in their order.

        Raises:
          DataError: the files are damaged.
        """
        episodes = self._file.episodes()
        while True:
            with self._reading():
                episode = next(episodes, None)
            if episode is None:
                return
            yield episode

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except RlCoreError:
            raise
        except UnsafeData as error:
            raise DataError(
                f"cannot read the dataset {self.path}: {in_one_line(error, 400)}"
            ) from None
        except Exception as error:  # damaged files let h5py and Pillow raise anything
            kind = type(error).__name__
            raise DataError(
                f"cannot read the dataset {self.path} ({kind}: {in_one_line(error)})"
            ) from error


def _require_storable_keys(space: gym.Space[Any]) -> None:
    """Checks that the keys of dicts can name parts of a file: a slash would begin another part."""
    if isinstance(space, gym.spaces.Dict):
        for key in space:
            if not isinstance(key, str) or "/" in key:
                raise DataError(
                    f"Minari cannot store a part that is called {quoted(key)}: it takes texts "
                    "without a slash; put a wrapper around the env that calls it otherwise "
                    "(env_wrapper)"
                )
    for part in space.values() if isinstance(space, gym.spaces.Dict) else ():
        _require_storable_keys(part)
    for part in space if isinstance(space, gym.spaces.Tuple) else ():
        _require_storable_keys(part)


def write(
    directory: Path,
    dataset_id: str,
    form: Form,
    episodes: Iterable[RecordedSteps],
    more: Mapping[str, Any],
) -> DatasetSize:
    """Writes a dataset into an empty directory, episode by episode.

    Args:
      directory: of the dataset; Minari's files are in its `data`.
      dataset_id: see `id_of`.
      episodes: are taken one after the other; not all of them need fit into memory.
      more: metadata, JSON values.

    Raises:
      DataError: Minari cannot store such spaces, or there is no episode.
    """
    minari = require_minari()
    from minari.dataset.minari_storage import MinariStorage

    for space in (form.observations, form.actions):
        _require_storable_keys(space)

    # Minari does not find what it has written below a relative path.
    data = directory.resolve() / "data"
    try:
        storage = MinariStorage.new(
            data, form.observations, form.actions, _kept(form.spec),
            jpeg_encoding=False,  # JPEG would lose what pictures show
        )  # fmt: skip
    except NotImplementedError as error:
        raise DataError(
            f"Minari cannot store what this env shows ({in_one_line(error)}); name the parts that "
            "are wanted in observation_keys, or put a wrapper around the env (env_wrapper)"
        ) from None
    storage.update_metadata(
        {"dataset_id": dataset_id, "minari_version": minari.__version__, **more}
    )
    counting = _EpisodeCounter(episodes)
    storage.update_episodes(counting)
    if not counting.episodes:
        raise DataError("there is nothing to record: no env step")
    return DatasetSize(counting.episodes, counting.env_steps, counting.total / counting.episodes)


class _EpisodeCounter:
    """Turns episodes into Minari's buffers, and counts them."""

    def __init__(self, episodes: Iterable[RecordedSteps]) -> None:
        self._given = episodes
        self.episodes, self.env_steps, self.total = 0, 0, 0.0

    def __iter__(self) -> Iterator[Any]:
        from minari.data_collector.episode_buffer import EpisodeBuffer

        for of in self._given:
            self.episodes += 1
            self.env_steps += len(of.actions)
            self.total += float(of.rewards.sum())
            yield EpisodeBuffer(
                seed=of.seed,
                observations=of.observations,
                actions=of.actions,
                rewards=of.rewards,
                terminations=of.terminations,
                truncations=of.truncations,
                infos=None if of.masks is None else {"action_mask": of.masks},
            )


def _kept(spec: EnvSpec | None) -> EnvSpec | None:
    """Returns the spec if it can be kept as JSON: an env made by a function of yours cannot."""
    try:
        if spec is not None:
            spec.to_json()
    except (TypeError, ValueError):
        return None
    return spec
