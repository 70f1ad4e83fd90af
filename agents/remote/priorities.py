"""Priorities with which an actor's rows enter the replay: TD errors by the values it acted on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_EPSILON = np.float32(1e-3)
LIVE = ("discount", "n_step", "reward_scale", "reward_clip")  # live values that they depend on


def td_errors(
    q: np.ndarray,
    rows: Mapping[str, np.ndarray],
    live: Mapping[str, float],
    *,
    value_rescaling: bool = False,
) -> np.ndarray:
    """Returns the absolute n-step TD error of each row of a delivery.

        |r_t + discount_t * max_a q[destination, a] - q[t, action]|

    with r_t, discount_t and the destination as in `targetnet.rl_core.replay.items.n_step_span`.
    Horgan et al. (2018), https://arxiv.org/abs/1803.00933, algorithm 1: the actor's network stands
    for the target too.

    Args:
      q: [T + 1, M, A] action values, the lowest float where an action is illegal.
      rows: of a delivery, [T + 1, M, ...].
      live: the values of `LIVE`.
      value_rescaling: the values are h of returns, as in `targetnet.rl_core.losses.rescaling`: the
        error is |h(r_t + discount_t * h^-1(max_a q[destination, a])) - q[t, action]|.

    Returns:
      [T + 1, M] float32; 0 in the last row, which begins no step.
    """
    T = len(q) - 1
    clip = np.float32(live["reward_clip"] or np.inf)
    reward = np.clip(rows["reward"] * np.float32(live["reward_scale"]), -clip, clip)
    terminated, autoreset = rows["terminated"], rows["autoreset"]
    total = np.zeros(q.shape[:2], np.float32)[:T]
    discount, alive = np.ones_like(total), np.ones(total.shape, np.bool_)
    destination = np.zeros(total.shape, np.int64)
    for k in range(min(int(live["n_step"]), T)):
        after = np.minimum(np.arange(T) + k + 1, T)  # [T] the row to which the k-th step leads
        inside = (np.arange(T) + k < T)[:, None]
        # The step after one that terminated is an autoreset.
        alive &= inside & ~autoreset[after]
        total += np.where(alive, discount * reward[after], np.float32(0))
        further = np.where(
            terminated[after], np.float32(0), discount * np.float32(live["discount"])
        )
        discount = np.where(alive, further, discount)
        destination = np.where(alive, after[:, None], destination)
    taken = np.take_along_axis(q[:T], rows["action"][:T, :, None], axis=2)[:, :, 0]
    best = np.take_along_axis(q.max(axis=2), destination, axis=0)
    errors = np.zeros(q.shape[:2], np.float32)
    if value_rescaling:
        target = _rescaled(total + discount * _unscaled(best))
    else:
        target = total + discount * best
    errors[:T] = np.abs(target - taken)
    return errors


def _rescaled(x: np.ndarray) -> np.ndarray:
    """`rescaled` of `rl_core/losses/rescaling.py` without TensorFlow, which actors do not need."""
    size = np.abs(x)
    value: np.ndarray = np.sign(x) * size / (np.sqrt(size + 1) + 1) + _EPSILON * x
    return value


def _unscaled(y: np.ndarray) -> np.ndarray:
    """`unscaled` of the same file without TensorFlow."""
    size, linear = np.abs(y), np.float32(1) + 2 * _EPSILON
    s = 2 * size / (linear + np.sqrt(linear * linear + 4 * _EPSILON * size))
    value: np.ndarray = np.sign(y) * s * (s + 2)
    return value
