"""Action values of a network in NumPy, for actors that do without TensorFlow.

It serves dense torsos with a scalar, a categorical or a quantile head, and not with gelu. Its
values agree with those of the graph except for rounding, and its bits do not depend on the number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.deliveries import Weights

_EPSILON = np.float32(1e-5)  # of a layer norm
_HEADS = ("scalar", "categorical", "quantile")
# NumPy has no erf, which gelu needs.
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x * (np.float32(0.5) + np.float32(0.5) * np.tanh(np.float32(0.5) * x)),
}


def can_serve(config: DqnConfig) -> bool:
    """Says whether NumPy computes this config's network. The machine does not matter."""
    known = config.head in _HEADS and config.activation in _ACTIVATIONS
    return config.network == "mlp" and known and not config.noisy


class NumpyPolicy:
    """Action values of a config's network.

    Args:
      config: for which `can_serve` is true.
      num_actions: A.
      byte_bounds: that scale observations of bytes to [0, 1]; None: 0 and 255.
      branches: sizes of the branches of an action, with the sum A; (): it has none.
    """

    def __init__(
        self,
        config: DqnConfig,
        num_actions: int,
        byte_bounds: tuple[np.ndarray, np.ndarray] | None,
        branches: Sequence[int] = (),
    ) -> None:
        self._config, self._num_actions, self._branches = config, num_actions, branches
        self._low: np.ndarray | None = None
        if byte_bounds is not None:
            low, high = (np.asarray(bound, np.float32) for bound in byte_bounds)
            self._low, self._span = low, np.where(high > low, high - low, np.float32(1))
        self._support = np.linspace(*config.ends_of_support, config.atoms, dtype=np.float32)
        self._weights: Weights = {}
        self._activation = _ACTIVATIONS[config.activation]

    def load(self, weights: Weights) -> None:
        """Acts by these weights from now on."""
        self._weights = weights

    def values(
        self, observation: np.ndarray, time_step: int, live: Mapping[str, float]
    ) -> np.ndarray:
        """[M, ...] observations -> [M, A] float32; time step and live values change nothing."""
        x = self._as_float(observation)
        if self._config.normalize_observations:
            mean, scale = (self._weights[f"normalize/{name}"] for name in ("mean", "scale"))
            x = np.clip((x - mean) * scale, np.float32(-10), np.float32(10))
        x = x.reshape(len(x), -1)
        for i in range(len(self._config.hidden)):
            x = self._dense(x, f"torso/dense_{i}")
            if self._config.layer_norm:
                x = self._normal(x, f"torso/norm_{i}")
            x = self._activation(x)
        match self._config.head:
            case "categorical":
                logits = self._streams(x, self._config.atoms)  # [M, A, N]
                p = np.exp(logits - logits.max(axis=2, keepdims=True))
                q = (p / p.sum(axis=2, keepdims=True) * self._support).sum(axis=2)
            case "quantile":
                q = self._streams(x, self._config.quantiles).mean(axis=2)
            case "scalar":
                q = self._streams(x, 1)[:, :, 0]
            case head:
                raise NotImplementedError(f"head = {head!r} in NumPy")
        values: np.ndarray = q
        return values

    def _as_float(self, observation: np.ndarray) -> np.ndarray:
        x = observation.astype(np.float32)
        if observation.dtype != np.uint8:
            return x
        return x / np.float32(255) if self._low is None else (x - self._low) / self._span

    def _streams(self, x: np.ndarray, n: int) -> np.ndarray:
        """[M, F] features -> [M, A, n]."""
        if not self._config.dueling:
            return self._of_actions("head", "q", x, n)
        value = self._stream("value", "v", x, 1, n)
        advantage = self._of_actions("advantage", "a", x, n)
        if not self._branches:
            return value + advantage - advantage.mean(axis=1, keepdims=True)
        each = np.split(advantage, np.cumsum(self._branches)[:-1], axis=1)
        return value + np.concatenate([of - of.mean(axis=1, keepdims=True) for of in each], axis=1)

    def _of_actions(self, block: str, last: str, x: np.ndarray, n: int) -> np.ndarray:
        if not self._branches or not self._config.head_hidden:
            return self._stream(block, last, x, self._num_actions, n)
        each = [
            self._stream(f"{block}/branch_{d}", last, x, size, n)
            for d, size in enumerate(self._branches)
        ]
        return np.concatenate(each, axis=1)

    def _stream(self, block: str, last: str, x: np.ndarray, actions: int, n: int) -> np.ndarray:
        for i in range(len(self._config.head_hidden)):
            x = self._activation(self._dense(x, f"{block}/dense_{i}"))
        return self._dense(x, f"{block}/{last}").reshape(len(x), actions, n)

    def _dense(self, x: np.ndarray, layer: str) -> np.ndarray:
        # Not `x @ w`: BLAS sums in another order if it has another number of threads.
        product: np.ndarray = np.einsum("bi,ij->bj", x, self._weights[f"{layer}/w"])
        return product + self._weights[f"{layer}/b"]

    def _normal(self, x: np.ndarray, layer: str) -> np.ndarray:
        mean = x.mean(axis=1, keepdims=True)
        variance = np.square(x - mean).mean(axis=1, keepdims=True)
        scale, offset = self._weights[f"{layer}/scale"], self._weights[f"{layer}/offset"]
        normal: np.ndarray = (x - mean) / np.sqrt(variance + _EPSILON) * scale + offset
        return normal
