"""Temporal-difference losses: one value per transition, never reduced.

The caller weights and averages. No gradient flows through a target.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.own_gradient import OwnGradient


class TdLoss(NamedTuple):
    """Loss, bootstrapped target and TD error (target - estimate) per transition, each [B].

    With branches of actions, target and TD error are [B, D]. Of sequences of L steps the loss is
    [B], of each sequence, and target and TD error are those of all steps, [B L].
    """

    loss: tf.Tensor
    target: tf.Tensor
    td_error: tf.Tensor


def q_learning(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t: tf.Tensor,
    name: str = "q_learning",
) -> TdLoss:
    """One-step Q-learning loss.

        target   = r_t + discount_t * max_a q_t[a]      (no gradient)
        td_error = target - q_tm1[a_tm1]
        loss     = td_error ** 2 / 2

    Watkins & Dayan (1992), https://doi.org/10.1007/BF00992698; with q_t from a target
    network, Mnih et al. (2015), https://doi.org/10.1038/nature14236.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      q_t: [B, A] float.

    Returns:
      TdLoss(loss, target, td_error), each [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        q_tm1, a_tm1, r_t, discount_t, q_t = require_shapes(
            name,
            q_tm1=(q_tm1, "BA"),
            a_tm1=(a_tm1, "B"),
            r_t=(r_t, "B"),
            discount_t=(discount_t, "B"),
            q_t=(q_t, "BA"),
        )
        return one_step(q_tm1, a_tm1, r_t, discount_t, tf.reduce_max(q_t, axis=1))


def double_q_learning(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t_value: tf.Tensor,
    q_t_selector: tf.Tensor,
    name: str = "double_q_learning",
) -> TdLoss:
    """One-step double Q-learning loss: one network chooses the action, the other evaluates it.

        target   = r_t + discount_t * q_t_value[argmax_a q_t_selector[a]]      (no gradient)
        td_error = target - q_tm1[a_tm1]
        loss     = td_error ** 2 / 2

    van Hasselt, Guez & Silver (2016), https://arxiv.org/abs/1509.06461.

    Args:
      q_tm1: [B, A] float. The only input that receives gradient.
      a_tm1: [B] int in [0, A).
      r_t: [B] float.
      discount_t: [B] float; 0 where the episode terminated.
      q_t_value: [B, A] float, usually the target network's.
      q_t_selector: [B, A] float, usually the online network's.

    Returns:
      TdLoss(loss, target, td_error), each [B].

    Raises:
      ShapeError: an argument has the wrong rank, or sizes that must agree differ.
    """
    with tf.name_scope(name):
        q_tm1, a_tm1, r_t, discount_t, q_t_value, q_t_selector = require_shapes(
            name,
            q_tm1=(q_tm1, "BA"),
            a_tm1=(a_tm1, "B"),
            r_t=(r_t, "B"),
            discount_t=(discount_t, "B"),
            q_t_value=(q_t_value, "BA"),
            q_t_selector=(q_t_selector, "BA"),
        )
        return one_step(q_tm1, a_tm1, r_t, discount_t, at_best(q_t_value, q_t_selector))


def squared(td_error: tf.Tensor) -> tf.Tensor:
    """Returns `td_error ** 2 / 2` per transition: [B] -> [B]."""
    return 0.5 * tf.square(td_error)


def huber(td_error: tf.Tensor, delta: float | tf.Tensor = 1.0) -> tf.Tensor:
    """Huber loss per transition: [B] -> [B].

        td_error ** 2 / 2                     where |td_error| <= delta
        delta * (|td_error| - delta / 2)      elsewhere

    Huber (1964), https://doi.org/10.1214/aoms/1177703732. Its gradient is the TD error
    clipped to [-delta, delta], as in Mnih et al. (2015).
    """
    td_error = tf.convert_to_tensor(td_error)
    absolute = tf.abs(td_error)
    quadratic = tf.minimum(absolute, delta)
    loss = 0.5 * tf.square(quadratic) + delta * (absolute - quadratic)
    return _OF_HUBER(loss, td_error, tf.convert_to_tensor(delta, td_error.dtype))


def _gradient_of_huber(
    dy: tf.Tensor, td_error: tf.Tensor, delta: tf.Tensor
) -> tuple[tf.Tensor, None]:
    return dy * tf.clip_by_value(td_error, -delta, delta), None


# TensorFlow would build the same gradient with twice as many operations.
_OF_HUBER = OwnGradient("Huber", _gradient_of_huber)


def one_step(
    q_tm1: tf.Tensor, a_tm1: tf.Tensor, r_t: tf.Tensor, discount_t: tf.Tensor, bootstrap: tf.Tensor
) -> TdLoss:
    """Returns the loss of `q_learning` for a given value of s_t, `bootstrap` [B]."""
    qa_tm1 = at_action(q_tm1, a_tm1)  # [B]
    target = tf.stop_gradient(r_t + discount_t * bootstrap)  # [B]
    td_error = target - qa_tm1  # [B]
    return TdLoss(squared(td_error), target, td_error)


def at_action(values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the values of the given actions: [B, A, ...], [B] int -> [B, ...]."""
    return _OF_GATHER(tf.gather(values, action, axis=1, batch_dims=1), values, action)


def _gradient_of_gather(
    dy: tf.Tensor, values: tf.Tensor, action: tf.Tensor
) -> tuple[tf.Tensor, None]:
    A, after = int(values.shape[1]), values.shape.rank - 2
    chosen = tf.one_hot(action, A, dtype=dy.dtype)  # [B, A]
    return tf.reshape(chosen, [-1, A, *[1] * after]) * tf.expand_dims(dy, 1), None


# TensorFlow's gradient of a batched gather has 65 operations, a third of an update.
_OF_GATHER = OwnGradient("Gather", _gradient_of_gather)


def at_best(values: tf.Tensor, selector: tf.Tensor) -> tf.Tensor:
    """Returns the values of the action with the largest selector: [B, A, ...] -> [B, ...]."""
    best = tf.argmax(selector, axis=1, output_type=tf.int32)  # [B]
    return tf.gather(values, best, axis=1, batch_dims=1)


def require_shapes(where: str, **arguments: tuple[Any, str | tuple[str, ...]]) -> list[Any]:
    """Checks ranks and sizes; returns the arguments as tensors, in order. None stays None.

    A rank or size that is unknown when the graph is built is not checked.

    Args:
      where: name of the calling function, for the message.
      arguments: name -> (value, dimensions). Dimensions are one letter per dimension, such as
        "BA", or a tuple of allowed alternatives. A letter means the same size in all arguments.

    Raises:
      ShapeError: a rank is wrong or sizes differ; the message lists all of them.
    """
    tensors = [v if v is None else tf.convert_to_tensor(v) for v, _ in arguments.values()]
    wanted = [(w,) if isinstance(w, str) else w for _, w in arguments.values()]
    known = [
        (name, tensor.shape, dimensions)
        for name, tensor, dimensions in zip(arguments, tensors, wanted, strict=True)
        if tensor is not None and tensor.shape.rank is not None
    ]
    # Check sizes only if all ranks are right: one mistake gives one message.
    wrong = _wrong_ranks(known) or _wrong_sizes(known)
    if wrong:
        raise ShapeError(f"{where}: {'; '.join(wrong)}")
    return tensors


_Known = list[tuple[str, tf.TensorShape, tuple[str, ...]]]


def _wrong_ranks(known: _Known) -> list[str]:
    return [
        f"{name} must have rank {' or '.join(str(len(w)) for w in wanted)}, got shape {shape}"
        for name, shape, wanted in known
        if shape.rank not in map(len, wanted)
    ]


def _wrong_sizes(known: _Known) -> list[str]:
    """Lists sizes that differ; TensorFlow would silently broadcast r_t [1] with q_tm1 [32, 4]."""
    named: dict[str, dict[int, list[str]]] = {}  # letter -> size -> arguments with that size
    for name, shape, wanted in known:
        dimensions = next(w for w in wanted if len(w) == shape.rank)
        for letter, size in zip(dimensions, shape.as_list(), strict=True):
            if size is not None:
                named.setdefault(letter, {}).setdefault(size, []).append(f"{name} {shape}")
    return [
        f"{letter} must be the same in all, got "
        + " and ".join(f"{size} in {', '.join(names)}" for size, names in sizes.items())
        for letter, sizes in named.items()
        if len(sizes) > 1
    ]
