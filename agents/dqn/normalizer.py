"""Normalized observations: by the mean and the variance of all that the envs have shown so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.graph.scopes import variables_in
from targetnet.rl_core.networks import ObservationForm
from targetnet.rl_core.observation_parts import part_scope
from targetnet.rl_core.own_gradient import OwnGradient

NORMALIZE = "normalize"  # the block
_LARGEST = 10.0  # standard deviations that a network sees at most
_LEAST_VARIANCE = 1e-8
_TAKEN_OVER = 10_000  # rows that the moments of given weights count as


def normalized(numbers: Any, observed: ObservationForm, dtype: tf.DType) -> Any:
    """Returns what a network sees of `numbers`: (x - mean) * scale, at most 10 from 0.

    Mean and scale are variables of the scope that is open, in the block `normalize`. No gradient
    reaches them; `Normalizer` sets those of the online network, and copies take them over with the
    weights. So a target network holds still in this too, and weights that are saved have them.

    Args:
      numbers: float32 [B, ...], or a dict of that by the parts' names.
      observed: the form of observations; of parts those of float32 are normalized.
      dtype: as stored, of observations of one array.
    """
    with tf.variable_scope(NORMALIZE):
        if not observed.parts:
            return numbers if dtype.is_integer or dtype.is_bool else _layer(numbers)
        seen = dict(numbers)
        for part in observed.parts:
            if part.dtype == np.float32:
                with tf.variable_scope(part_scope(part.name)):
                    seen[part.name] = _layer(numbers[part.name])
        return seen


def require_numbers(config: DqnConfig, observed: ObservationForm, dtype: tf.DType) -> None:
    """Checks that there is something to normalize, if the config says so.

    Raises:
      ConfigError: all observations are pictures or bools.
    """
    dtypes = [part.dtype for part in observed.parts] or [dtype.as_numpy_dtype]
    if config.normalize_observations and np.float32 not in dtypes:
        raise ConfigError(
            "normalize_observations is for numbers, and these observations are "
            f"{np.dtype(dtypes[0]).name}; leave it out"
        )


class _RunningMoments(NamedTuple):
    """Running moments of one array, and the variables that follow from them."""

    count: tf.Variable  # float64 []
    mean: tf.Variable  # float64 [...]
    squares: tf.Variable  # float64 [...] sum of the squared distances from the mean
    online_means: tuple[tf.Variable, ...]  # float32, of the network, or of each one of a chain
    online_scales: tuple[tf.Variable, ...]


class Normalizer:
    """Takes in what envs show, and sets the online network's mean and scale.

    Chan, Golub & LeVeque (1979), http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf,
    in float64. What weights of another run bring along counts as 10,000 rows. Make it while the
    graph is being built; without `normalize_observations` it does nothing.

    Args:
      config: of the agent.
      online: full name of the online network's scope.
      torsos: the first parts of the names below it, of networks with a torso of their own.
      observed: the form of observations.
      stack: frames of an observation that is learned from; rows have one each.
    """

    def __init__(
        self,
        config: DqnConfig,
        online: str,
        torsos: Sequence[str],
        observed: ObservationForm,
        stack: int,
    ) -> None:
        self._observed, self._stack = observed, stack
        self._seen: dict[str, _RunningMoments] = {}
        if not config.normalize_observations:
            return
        # Networks of a chain see the same numbers, each by a block of its own.
        weights = [variables_in(f"{online}/{block}{NORMALIZE}") for block in torsos]
        names = [part.name for part in observed.parts if part.dtype == np.float32] or [""]
        with tf.variable_scope("shown"):
            for name in names:
                prefix = f"{part_scope(name)}/" if name else ""
                means, scales = (
                    tuple(of[f"{prefix}{kind}"] for of in weights) for kind in ("mean", "scale")
                )
                self._seen[name] = self._moments(prefix, means, scales)

    def see(self, observation: tf.Tensor) -> list[tf.Operation]:
        """Takes in rows [..., *shape] as they are stored; each counts once.

        The network's variables are set, so what acts on them before must be computed by then.
        """
        done = []
        for name, x in self._arrays(observation):
            of = self._seen[name]
            shape = of.mean.shape.as_list()
            rows = tf.cast(tf.reshape(x, [-1, *shape]), tf.float64)  # [n, ...]
            n = tf.cast(tf.shape(rows)[0], tf.float64)
            mean = tf.reduce_mean(rows, axis=0)
            squares = tf.reduce_sum(tf.square(rows - mean), axis=0)
            before = self._before(of)
            count = before[0] + n
            away = mean - before[1]
            mean = before[1] + away * (n / count)
            squares = before[2] + squares + tf.square(away) * (before[0] * n / count)
            scale = tf.math.rsqrt(squares / count + _LEAST_VARIANCE)
            with tf.control_dependencies([count, mean, squares]):
                done += [
                    of.count.assign(count, read_value=False),
                    of.mean.assign(mean, read_value=False),
                    of.squares.assign(squares, read_value=False),
                    *(to.assign(self._tiled(mean, to), read_value=False) for to in of.online_means),
                    *(
                        to.assign(self._tiled(scale, to), read_value=False)
                        for to in of.online_scales
                    ),
                ]
        return done

    def _before(self, of: _RunningMoments) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns count, mean and squares of what was shown so far.

        Before anything was shown, those that came with given weights count as of some rows.
        """
        count, mean, squares = of.count.read_value(), of.mean.read_value(), of.squares.read_value()
        frame = mean.shape.as_list()[-1:]
        given_mean, given_scale = (
            tf.cast(
                to[0].read_value()[..., : frame[0]] if frame else to[0].read_value(), tf.float64
            )
            for to in (of.online_means, of.online_scales)
        )
        untouched = tf.logical_and(tf.equal(given_mean, 0.0), tf.equal(given_scale, 1.0))
        given = tf.logical_and(count < 1.0, tf.logical_not(tf.reduce_all(untouched)))
        variance = 1.0 / tf.square(given_scale) - _LEAST_VARIANCE
        return (
            tf.where_v2(given, np.float64(_TAKEN_OVER), count),
            tf.where_v2(given, given_mean, mean),
            tf.where_v2(given, _TAKEN_OVER * variance, squares),
        )

    def _moments(
        self, prefix: str, means: tuple[tf.Variable, ...], scales: tuple[tf.Variable, ...]
    ) -> _RunningMoments:
        shape = means[0].shape.as_list()
        if self._stack > 1:
            shape[-1] //= self._stack

        def variable(name: str, shape: list[int]) -> tf.Variable:
            zeros = tf.zeros_initializer()
            return tf.get_variable(f"{prefix}{name}", shape, tf.float64, zeros, trainable=False)

        return _RunningMoments(
            variable("count", []), variable("mean", shape), variable("squares", shape),
            means, scales,
        )  # fmt: skip

    def _arrays(self, observation: tf.Tensor) -> Iterator[tuple[str, tf.Tensor]]:
        if "" in self._seen:
            yield "", observation
        elif self._seen:
            size = observation.shape[-1]
            numbers = self._observed.floats(tf.reshape(observation, [-1, size]))
            yield from ((name, numbers[name]) for name in self._seen)

    def _tiled(self, of_frame: tf.Tensor, to: tf.Variable) -> tf.Tensor:
        """float64 of one frame -> float32 of all frames side by side."""
        of_frame = tf.cast(of_frame, tf.float32)
        if self._stack < 2:
            return of_frame
        return tf.tile(of_frame, [*[1] * (to.shape.rank - 1), self._stack])


def _layer(x: tf.Tensor) -> tf.Tensor:
    shape = x.shape.as_list()[1:]
    mean = tf.get_variable("mean", shape, initializer=tf.zeros_initializer())
    scale = tf.get_variable("scale", shape, initializer=tf.ones_initializer())

    mean, scale = tf.identity(mean), tf.identity(scale)
    normal = tf.clip_by_value((x - mean) * scale, -_LARGEST, _LARGEST)
    return _OF_NORMAL(normal, x, mean, scale)


def _gradient_of_normal(
    dy: tf.Tensor, _: tf.Tensor, mean: tf.Tensor, scale: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    # A gradient of exactly 0 leaves them where they are, whatever optimizes the block.
    return dy * scale, tf.zeros_like(mean), tf.zeros_like(scale)


_OF_NORMAL = OwnGradient("Normal", _gradient_of_normal)
