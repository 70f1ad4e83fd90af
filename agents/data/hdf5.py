"""Episodes of a dataset's HDF5 file, read as Minari reads them, from this one file alone.

HDF5 can name other files: by soft and external links, external storage and virtual datasets. All
are refused, and so are filters that would be loaded as a plugin, and numbers that would need far
more memory than the file has bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.agents.data.metadata import METADATA, Metadata, UnsafeData
from targetnet.rl_core.errors import quoted, reason_of
from targetnet.rl_core.files import open_regular
from targetnet.rl_core.machine import format_bytes, memory_limit

NAME = "main_data.hdf5"
# zlib packs at most 1,032 bytes into one; a small file may have some more that are never written.
_MOST_PACKED, _SPARE = 1_100, 1 << 26
_AT_ONCE = 1 << 28  # bytes of texts that are read by one call, if each is as long as the file
_FILTERS = (1, 2, 3, 4, 5, 6, 32000)  # those of HDF5 and h5py: deflate to scaleoffset, and LZF
_MASK = "action_mask"


class EpisodeColumns(NamedTuple):
    """Columns of an episode of T steps that a run learns from, as in Minari's EpisodeData.

    Attributes:
      observations: [T + 1, ...] arrays, in dicts and tuples; of texts lists.
      actions: [T, ...].
      rewards, terminations, truncations: [T].
      infos: the action masks alone; None if there are none.
    """

    observations: Any
    actions: Any
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: dict[str, Any] | None


class EpisodeFile:
    """The HDF5 file of a dataset.

    Args:
      path: of the file, without links.
      metadata: of the dataset.

    Raises:
      UnsafeData: it is no regular file, or cannot have as much as the metadata say.
    """

    def __init__(self, path: Path, metadata: Metadata) -> None:
        self._path, self._metadata = path, metadata
        self.check()

    def check(self) -> None:
        """Compares what the metadata say with what the file has; reads no episode."""
        import h5py

        with self._open() as file, h5py.File(file, "r") as h5:
            there, most = len(h5), _most_bytes(file)
        episodes, env_steps = self._metadata.episodes, self._metadata.env_steps
        if episodes > there:
            raise UnsafeData(f"{METADATA} says {episodes:,} episodes, and {NAME} has {there:,}")
        if env_steps > most:
            raise UnsafeData(f"{METADATA} says {env_steps:,} steps, more than {NAME} can have")

    def episodes(self) -> Iterator[EpisodeColumns]:
        """Yields the episodes in their order, all from one opening of the file.

        Raises:
          UnsafeData: a part of one is not in this file, or too large.
          Exception: of h5py and Pillow, of a damaged file.
        """
        import h5py

        with self._open() as file, h5py.File(file, "r") as h5:
            reader = _Reader(self._metadata, _most_bytes(file))
            for number in range(self._metadata.episodes):
                yield reader.episode(h5, f"episode_{number}")

    def _open(self) -> io.BufferedReader:
        try:
            return open_regular(self._path)
        except (OSError, ValueError) as error:
            raise UnsafeData(f"{NAME} cannot be read: {reason_of(error)}") from None


def _most_bytes(file: io.BufferedReader) -> int:
    """Returns the bytes that the numbers of a file may take when they are unpacked."""
    return file.seek(0, io.SEEK_END) * _MOST_PACKED + _SPARE


class _Reader:
    """Reads the parts of episodes, and counts their bytes before it reads them."""

    def __init__(self, metadata: Metadata, most: int) -> None:
        self._metadata, self._most = metadata, most
        self._left, self._of_episode = most, 0
        self._limit = memory_limit() // 2  # the rows that are made of an episode take as much

    def episode(self, h5: Any, name: str) -> EpisodeColumns:
        self._of_episode = 0
        group = _group(h5, name)
        rewards, terminations, truncations = (
            self._array(group, of)[:] for of in ("rewards", "terminations", "truncations")
        )
        infos = None
        if _has(group, "infos") and _has(found := _group(group, "infos"), _MASK):
            infos = {_MASK: self._array(found, _MASK)[()]}
        return EpisodeColumns(
            self._of_space(group, "observations", self._metadata.observations),
            self._of_space(group, "actions", self._metadata.actions),
            rewards,
            terminations,
            truncations,
            infos,
        )

    def _of_space(self, parent: Any, name: str, space: gym.Space[Any]) -> Any:
        """Returns the values of a space: arrays in dicts and tuples, lists of texts."""
        if isinstance(space, gym.spaces.Dict):
            group = _group(parent, name)
            return {key: self._of_space(group, key, space[key]) for key in sorted(space)}
        if isinstance(space, gym.spaces.Tuple):
            group = _group(parent, name)
            parts = enumerate(space)
            return tuple(self._of_space(group, f"_index_{i}", part) for i, part in parts)
        if isinstance(space, gym.spaces.Text):
            found = self._variable(_dataset(parent, name))
            return [text.decode("utf-8") for text in found]
        if self._metadata.jpeg and _is_picture(space):
            return self._pictures(_dataset(parent, name), space)
        return self._array(parent, name)[()]

    def _array(self, parent: Any, name: str) -> Any:
        """Returns a dataset of numbers whose bytes are counted, to be read by the caller."""
        dataset = _dataset(parent, name)
        if self._count_array(dataset).kind not in "biufS":
            raise UnsafeData(f"{dataset.name} in {NAME} has no numbers, but {dataset.dtype}")
        return dataset

    def _variable(self, dataset: Any) -> Iterator[Any]:
        """Yields values of different lengths: many may be the same long one in the file."""
        import h5py

        kind = self._count_array(dataset)
        if kind.kind != "S" and not h5py.check_string_dtype(kind) and not _is_bytes(kind):
            raise UnsafeData(f"{dataset.name} in {NAME} has neither texts nor bytes, but {kind}")
        at_once = max(1, _AT_ONCE * _MOST_PACKED // self._most)
        for begin in range(0, len(dataset), at_once):
            for value in dataset[begin : begin + at_once]:
                self._count(dataset, len(value))
                yield value

    def _pictures(self, dataset: Any, space: gym.Space[Any]) -> np.ndarray:
        """Returns pictures that are stored as JPEG, [T, H, W] or [T, H, W, C]."""
        from PIL import Image

        assert space.shape is not None
        if len(dataset.shape) == 2 and dataset.dtype == np.uint8:  # all of one length
            self._count_array(dataset)
            packed = dataset[()]
        else:
            packed = [*self._variable(dataset)]
        self._count(dataset, len(packed) * math.prod(space.shape))
        pictures = np.empty((len(packed), *space.shape), np.uint8)
        for i, data in enumerate(packed):
            # Without `formats`, Pillow reads any format, some of them by another program.
            with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
                size = image.size[::-1]
                if size != space.shape[:2]:  # checked before it is unpacked
                    raise UnsafeData(
                        f"a picture of {dataset.name} in {NAME} is of {size}, and the space says "
                        f"{space.shape[:2]}"
                    )
                picture = np.array(image, np.uint8)
            if picture.shape != space.shape:
                raise UnsafeData(
                    f"a picture of {dataset.name} in {NAME} has the shape {picture.shape}, and "
                    f"the space says {space.shape}"
                )
            pictures[i] = picture
        return pictures

    def _count_array(self, dataset: Any) -> np.dtype[Any]:
        """Counts the bytes of an array, or of a chunk if one is longer: it is unpacked whole.

        Returns its dtype: a dataset asks the file for it each time.
        """
        kind: np.dtype[Any] = dataset.dtype
        nbytes = dataset.id.get_space().get_simple_extent_npoints() * kind.itemsize
        chunk = math.prod(dataset.chunks or (0,)) * kind.itemsize
        if chunk - nbytes > _SPARE:
            raise UnsafeData(
                f"{dataset.name} in {NAME} has chunks of {format_bytes(chunk)} for an array of "
                f"{format_bytes(nbytes)}"
            )
        self._count(dataset, nbytes, chunk - nbytes)
        return kind

    def _count(self, dataset: Any, nbytes: int, more: int = 0) -> None:
        """Counts bytes before they are read, and `more` that only need memory meanwhile."""
        self._left -= nbytes
        self._of_episode += nbytes + max(0, more)
        if self._left < 0:
            raise UnsafeData(
                f"the numbers in {NAME} take more than {format_bytes(self._most)}, to which its "
                "bytes cannot be unpacked"
            )
        if self._of_episode > self._limit:
            raise UnsafeData(
                f"{dataset.parent.name} in {NAME} takes at least {format_bytes(self._of_episode)}, "
                f"and there is memory for an episode of {format_bytes(self._limit)}"
            )


def _is_picture(space: gym.Space[Any]) -> bool:
    from minari.dataset.minari_storage import is_image_space

    return bool(is_image_space(space))


def _is_bytes(kind: np.dtype[Any]) -> bool:
    import h5py

    return bool(h5py.check_vlen_dtype(kind) == np.uint8)


def _has(group: Any, name: str) -> bool:
    # `name in group` would follow a link into another file.
    return bool(group.id.links.exists(name.encode()))


def _where(group: Any, name: str) -> str:
    return quoted(f"{group.name.rstrip('/')}/{name}")


def _opened(group: Any, name: str) -> Any:
    """Returns the id of a group's part; it is in the same file."""
    import h5py

    if "/" in name or name in ("", "."):  # a path, which can lead over links
        raise UnsafeData(f"{_where(group, name)} is no name of a part of {NAME}")
    try:
        link = group.id.links.get_info(name.encode())
    except KeyError:
        raise UnsafeData(f"{NAME} has no {_where(group, name)}") from None
    if link.type != h5py.h5l.TYPE_HARD:
        raise UnsafeData(f"{_where(group, name)} in {NAME} is a link to another place")
    return h5py.h5o.open(group.id, name.encode())


def _group(parent: Any, name: str) -> Any:
    import h5py

    found = _opened(parent, name)
    if not isinstance(found, h5py.h5g.GroupID):
        raise UnsafeData(f"{_where(parent, name)} in {NAME} is no group")
    return h5py.Group(found)


def _dataset(parent: Any, name: str) -> Any:
    """Returns a dataset whose values are all in the same file; asks the file for none."""
    import h5py

    found = _opened(parent, name)
    if not isinstance(found, h5py.h5d.DatasetID):
        raise UnsafeData(f"{_where(parent, name)} in {NAME} is no array")
    made = found.get_create_plist()
    # Before the shape is asked for: that alone can open the files of a virtual dataset.
    if made.get_layout() == h5py.h5d.VIRTUAL:
        raise UnsafeData(f"{_where(parent, name)} in {NAME} is a virtual dataset, of other files")
    if made.get_external_count():
        raise UnsafeData(f"{_where(parent, name)} in {NAME} is stored in another file")
    for i in range(made.get_nfilters()):
        if (number := made.get_filter(i)[0]) not in _FILTERS:
            raise UnsafeData(
                f"{_where(parent, name)} in {NAME} needs the plugin of filter {number}"
            )
    if found.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        raise UnsafeData(f"{_where(parent, name)} in {NAME} has no values")
    return h5py.Dataset(found)
