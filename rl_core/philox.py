"""Philox's random numbers as NumPy arrays, without TensorFlow: what a stream in the graph draws."""

from __future__ import annotations

import math
import zlib

import numpy as np


class NumpyStream:
    """One stream of Philox numbers (Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405).

    Args:
      seed: the run's seed.
      name: what the numbers are for; streams of different names are independent.
    """

    def __init__(self, seed: int, name: str) -> None:
        self._host_key = stream_key(seed, name)

    def uniform_in_numpy(self, first: int, count: int, shape: tuple[int, ...]) -> np.ndarray:
        """Computes the numbers of the counters first, ..., first + count - 1.

        Returns:
          [count, *shape] float32 in [0, 1), the bits of `targetnet.rl_core.random.Stream.uniform`.
        """
        size = math.prod(shape)
        groups = np.arange(-(-size // 4), dtype=np.uint64)[None, :]
        counters = np.arange(first, first + count, dtype=np.uint64)[:, None]
        words = _philox(int(self._host_key[0]), groups, counters)[:, :size]  # [count, size]
        # The low 23 bits as the mantissa of a number in [1, 2).
        floats = ((words & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32)
        return (floats - np.float32(1)).reshape(count, *shape)


def stream_key(seed: int, name: str) -> np.ndarray:
    """Returns the key of the stream `name`, [1] uint64."""
    words = np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1, "u8")
    return words.astype(np.uint64)


def _philox(key: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Philox-4x32-10 of the counters (low, high), [1, G] and [C, 1] uint64: [C, 4 G] uint32."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low, high = np.broadcast_arrays(low, high)
    x = [low & mask, low >> half, high & mask, high >> half]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [
            (b >> half) ^ x[1] ^ np.uint64(k0), b & mask,
            (a >> half) ^ x[3] ^ np.uint64(k1), a & mask,
        ]  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(x, axis=-1).reshape(len(low), -1).astype(np.uint32)
