"""The spaces of a run's env in its directory, so that its policy needs the env no more.

    spaces.json

Versions before 1.0 do not write it; then the env is made once to read its spaces. So it is where
JSON does not have them: an observation is a dict whose keys are neither texts nor numbers, or an
array of longdouble.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

import gymnasium as gym
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from targetnet.agents.config.envs import unstepped_envs
from targetnet.agents.config.files import names_version
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.saved.directory import CONFIG, SPACES, RunDir, write_file
from targetnet.envs import Envs
from targetnet.envs.drivers import UnsteppedEnvs
from targetnet.envs.masks import MaskSource
from targetnet.envs.nests import Leaf, Path
from targetnet.envs.spaces import Spaces, spaces_of
from targetnet.envs.stacks import stacked
from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.files import read_regular
from targetnet.rl_core.seal import sealed_json, unsealed_json

_MOST_BYTES = 1 << 26  # bounds of pictures may differ from element to element
_MOST_ELEMENTS = 1 << 26  # of an array; the file of another one may be short
_Size = Annotated[int, Field(ge=0, le=_MOST_ELEMENTS)]
_Key = str | int
_Numbers = list[int] | list[float]


class _SpaceModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Array(_SpaceModel):
    """A space of arrays; its bounds are flat, or one number that all elements have."""

    shape: list[_Size] = Field(max_length=32)

    @model_validator(mode="after")
    def _is_not_too_large(self) -> Self:
        if self.size > _MOST_ELEMENTS:
            raise ValueError(f"an array has at most {_MOST_ELEMENTS:,} elements, got {self.size:,}")
        return self

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def full(self, values: _Numbers, dtype: str) -> np.ndarray:
        """Returns an array of this shape; one value is that of all its elements."""
        if len(values) not in (1, self.size):
            raise ValueError(f"a bound has 1 or {self.size:,} numbers, got {len(values):,}")
        flat = np.broadcast_to(np.array(values, dtype), self.size)
        return flat.reshape(self.shape)


class _Box(_Array):
    kind: Literal["Box"] = "Box"
    dtype: str = Field(pattern=r"^(bool|u?int(8|16|32|64)|float(16|32|64))$")
    low: _Numbers
    high: _Numbers

    def made(self) -> gym.Space[Any]:
        low, high = (self.full(values, self.dtype) for values in (self.low, self.high))
        return gym.spaces.Box(low, high, dtype=np.dtype(self.dtype).type)


class _Discrete(_SpaceModel):
    kind: Literal["Discrete"] = "Discrete"
    n: Annotated[int, Field(ge=1, le=_MOST_ELEMENTS)]
    start: int = 0

    def made(self) -> gym.Space[Any]:
        return gym.spaces.Discrete(self.n, start=self.start)


class _MultiDiscrete(_Array):
    kind: Literal["MultiDiscrete"] = "MultiDiscrete"
    dtype: str = Field(pattern=r"^u?int(8|16|32|64)$")
    nvec: list[Annotated[int, Field(ge=1, le=_MOST_ELEMENTS)]]
    start: list[int]

    def made(self) -> gym.Space[Any]:
        nvec, start = (self.full(values, self.dtype) for values in (self.nvec, self.start))
        return gym.spaces.MultiDiscrete(nvec, dtype=np.dtype(self.dtype).type, start=start)


class _MultiBinary(_Array):
    kind: Literal["MultiBinary"] = "MultiBinary"

    def made(self) -> gym.Space[Any]:
        return gym.spaces.MultiBinary(self.shape)


_Space = Annotated[_Box | _Discrete | _MultiDiscrete | _MultiBinary, Field(discriminator="kind")]


class _ObservationPart(_SpaceModel):
    """A part of an observation that the network sees, and its place; [] if it is the whole."""

    path: list[_Key]
    space: _Space


class _Masks(_SpaceModel):
    """MaskSource."""

    name: str
    code: str
    path: list[_Key] | None


class _SpacesFile(_SpaceModel):
    """The content of spaces.json: of single frames, with what wrappers make of them."""

    observation: list[_ObservationPart] = Field(min_length=1)
    action: _Space
    masks: _Masks | None


def save_spaces(run: RunDir, spaces: Spaces) -> None:
    """Writes the spaces of a run's env; nothing of them if JSON does not have them.

    Raises:
      RunDirError: they cannot be written.
    """
    assert spaces.own is not None
    masks = spaces.masks
    try:
        fields = _SpacesFile(
            observation=[
                _ObservationPart(path=[*of.path], space=_described(of.space))
                for of in spaces.leaves
            ],
            action=_described(spaces.own[1]),
            masks=masks and _Masks(name=masks.name, code=masks.code, path=_listed(masks.path)),
        ).model_dump()
    except ValidationError:
        fields = {}
    write_file(run.path / SPACES, sealed_json(fields))


def envs_of_policy(run: RunDir, config: DqnConfig) -> Envs:
    """Returns what a policy has to know of a run's env, which is not made if the run kept it.

    Raises:
      RunDirError: the file of spaces is damaged, or missing in a run of this version.
      EnvError: the run does not have them, and its env cannot be made here.
    """
    path = run.path / SPACES
    try:
        fields = unsealed_json(read_regular(path, most=_MOST_BYTES))
        if not fields:
            return unstepped_envs(config)
        found = _SpacesFile.model_validate(fields)
        leaves = [Leaf(tuple(of.path), of.space.made()) for of in found.observation]
        action, masks = found.action.made(), found.masks
    except FileNotFoundError:
        if names_version(run.path / CONFIG):
            raise RunDirError(f"cannot read {path}: there is none") from None
        return unstepped_envs(config)
    except (OSError, ValueError, OverflowError, AssertionError) as error:
        problem = "it has no spaces" if isinstance(error, ValidationError) else reason_of(error)
        raise RunDirError(f"cannot read {path}: {problem}") from None
    source = None
    if masks is not None:
        place = None if masks.path is None else tuple(masks.path)
        source = MaskSource(masks.name, masks.code, place)
    spaces = spaces_of(config.env_id, leaves, action)._replace(masks=source)
    return UnsteppedEnvs(config.env_id, 1, stacked(spaces, config.frame_stack))


def _listed(path: Path | None) -> list[Any] | None:
    return None if path is None else [*path]


def _described(space: gym.Space[Any]) -> Any:
    if isinstance(space, gym.spaces.Discrete):
        return _Discrete(n=int(space.n), start=int(space.start))
    shape = list(space.shape or ())
    if isinstance(space, gym.spaces.MultiDiscrete):
        dtype, nvec, start = str(space.dtype), _flat(space.nvec), _flat(space.start)
        return _MultiDiscrete(shape=shape, dtype=dtype, nvec=nvec, start=start)
    if isinstance(space, gym.spaces.MultiBinary):
        return _MultiBinary(shape=shape)
    assert isinstance(space, gym.spaces.Box)
    low, high = _flat(space.low), _flat(space.high)
    return _Box(shape=shape, dtype=str(space.dtype), low=low, high=high)


def _flat(values: np.ndarray) -> Any:
    """Returns the values of an array in order; one if they are all equal."""
    flat = values.reshape(-1)
    return (flat[:1] if (flat == flat[0]).all() else flat).tolist()
