"""Live values as what is fed to the graph: those of updates, and the user's own outside them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.graph.xla import building_for_xla
from targetnet.rl_core.hyperparameters import LARGEST_FLOAT32, Hyperparameters, Knob

# Live values whose 0 means no limit, and what is fed then, so that no operation asks for it. A norm
# of gradients is finite and so at most the largest float32; infinity would divide itself.
_LIMITS = {"reward_clip": np.inf, "max_grad_norm": LARGEST_FLOAT32}


class LiveFeeds:
    """Scalars by name in the graph; outside, an array of the real ones and one of the whole ones.

    Each argument of a compiled call costs, so two arrays are fed. Inside a compiled function, read
    `live[name]` where it is used; a scalar taken outside would become one more argument.

    Args:
      knobs: of the values.

    Attributes:
      tensors: what is fed, float32 [n] and int64 [m].
    """

    def __init__(self, knobs: Iterable[Knob]) -> None:
        knobs = list(knobs)
        self._names = [[k.name for k in knobs if k.whole == whole] for whole in (False, True)]
        self.tensors = [
            tf.placeholder(dtype, [len(names)], f"live_{dtype.name}")
            for dtype, names in zip((tf.float32, tf.int64), self._names, strict=True)
        ]
        self._places = {
            n: (k, i) for k, names in enumerate(self._names) for i, n in enumerate(names)
        }
        self._scalars = {
            name: scalar
            for names, fed in zip(self._names, self.tensors, strict=True)
            for name, scalar in zip(names, tf.unstack(fed), strict=True)
        }
        self._limits = {n: limit for n, limit in _LIMITS.items() if n in self._places}

    def __getitem__(self, name: str) -> tf.Tensor:
        if not building_for_xla():
            return self._scalars[name]
        array, place = self._places[name]
        return self.tensors[array][place]

    def __contains__(self, name: str) -> bool:
        return name in self._scalars

    def reader(self, name: str) -> Callable[[], tf.Tensor]:
        """Returns a function that looks the scalar up."""
        return lambda: self[name]

    @contextlib.contextmanager
    def fed_by(self, tensors: Sequence[tf.Tensor]) -> Iterator[None]:
        """Hands these to what is compiled inside this context, not `tensors`."""
        before, self.tensors = self.tensors, [*tensors]
        try:
            yield
        finally:
            self.tensors = before

    def start(self, live: Hyperparameters) -> None:
        """Takes the values from `live` from now on."""
        self._live = live
        self._scheduled = any(live.is_scheduled(name) for name in self._scalars)
        self._make()

    def values(self) -> list[np.ndarray]:
        """Returns the present values to feed to `tensors`, in arrays that are never changed."""
        if self._scheduled or self._live.revision != self._revision:
            self._make()
        return self._arrays

    def with_value(self, values: Sequence[np.ndarray], name: str, value: float) -> list[np.ndarray]:
        """Returns arrays as `values()` returned them, but for one value."""
        arrays = [array.copy() for array in values]
        self._put(arrays, name, value)
        return arrays

    def among(self, values: Sequence[np.ndarray]) -> dict[str, float]:
        """Returns name -> value of arrays that `values()` returned."""
        pairs = zip(self._names, values, strict=True)
        return {n: v for names, array in pairs for n, v in zip(names, array.tolist(), strict=True)}

    def _make(self) -> None:
        self._revision = self._live.revision
        self._arrays = [
            np.array([self._live[name] for name in names], fed.dtype.as_numpy_dtype)
            for names, fed in zip(self._names, self.tensors, strict=True)
        ]
        for name, no_limit in self._limits.items():
            if not self._live[name]:
                self._put(self._arrays, name, no_limit)

    def _put(self, arrays: Sequence[np.ndarray], name: str, value: float) -> None:
        array, place = self._places[name]
        arrays[array][place] = value


class OwnFeeds:
    """The user's own live values, fed one by one to calls of a network that make no update.

    Args:
      config: of the agent.

    Attributes:
      tensors: float32 scalar placeholders by name.
    """

    def __init__(self, config: DqnConfig) -> None:
        names = config.own_live_names
        self.tensors = {name: tf.placeholder(tf.float32, [], f"live_{name}") for name in names}

    def start(self, live: Hyperparameters) -> None:
        """Takes the values from `live` from now on."""
        self._live = live

    def values(self) -> list[np.ndarray]:
        """Returns the present values to feed to `tensors`."""
        return [np.array(self._live[name], np.float32) for name in self.tensors]
