"""What nothing can be faster than: the bare env loop, and an update's matrix products alone.

    {"kind": "env", "envs": 1}            env.step and the resets; of more than one, the vector env
    {"kind": "products", "with": "numpy"} or "tensorflow"

The products are those of one DQN update, batch 64, of an MLP 4-64-64-2: three forward of the
online network, three of the target, and five backward (no gradient is wanted of the input).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from protocol import Work, serve

B, SIZES = 64, (4, 64, 64, 2)
K = 16  # updates' products in one call of TensorFlow


def env_loop(setup: dict[str, Any]) -> Work:
    import gymnasium

    N = setup["envs"]
    packages = ("gymnasium", "numpy")
    if N > 1:
        vector = gymnasium.make_vec("CartPole-v1", N, vectorization_mode="vector_entry_point")
        vector.reset(seed=0)
        actions = [np.full(N, i) for i in range(2)]

        def run_vector(count: int) -> tuple[int, int]:
            for i in range(count // N):
                vector.step(actions[i % 2])
            return count, 0

        return Work(run_vector, N, packages)
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)

    def run(count: int) -> tuple[int, int]:
        for i in range(count):
            if env.step(i % 2)[2]:
                env.reset()
        return count, 0

    return Work(run, 1, packages)


def products(setup: dict[str, Any]) -> Work:
    with_numpy = setup["with"] == "numpy"
    once = numpy_products() if with_numpy else tensorflow_products()
    unit = 1 if with_numpy else K

    def run(count: int) -> tuple[int, int]:
        for _ in range(count // unit):
            once()
        return 0, count

    run(setup["warm_up"] * unit)
    return Work(run, unit, ("numpy",) if with_numpy else ("tensorflow", "numpy"))


def operands(rng: np.random.Generator) -> tuple[list[np.ndarray], ...]:
    """Activations [B, n] and errors [B, m] of each layer, weights [n, m] of both networks."""
    pairs = list(itertools.pairwise(SIZES))
    random = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    return (
        [random(B, n) for n, _ in pairs],
        [random(B, m) for _, m in pairs],
        [random(n, m) for n, m in pairs],
        [random(n, m) for n, m in pairs],
    )


def numpy_products() -> Callable[[], None]:
    inputs, errors, online, target = operands(np.random.default_rng(0))
    pairs = [(x, w) for weights in (online, target) for x, w in zip(inputs, weights, strict=True)]
    pairs += [(x.T, error) for x, error in zip(inputs, errors, strict=True)]
    pairs += [(error, w.T) for error, w in zip(errors[1:], online[1:], strict=True)]
    calls = [(a, b, np.empty((a.shape[0], b.shape[1]), np.float32)) for a, b in pairs]
    matmul = np.matmul

    def once() -> None:
        for a, b, out in calls:
            matmul(a, b, out)

    return once


def tensorflow_products() -> Callable[[], None]:
    """K times in one call: the way into TensorFlow is not part of the floor."""
    import tensorflow.compat.v1 as tf

    from rl_core import Engine

    engine, rng = Engine(), np.random.default_rng(0)
    feeds, values, out = [], [], []
    with engine.building():
        weights = [[tf.Variable(w) for w in network] for network in operands(rng)[2:]]
        online, target = ([w.read_value() for w in network] for network in weights)
        # Inputs and errors are other ones each time: what is the same would be computed once.
        for _ in range(K):
            given = operands(rng)[:2]
            inputs, errors = ([tf.placeholder(tf.float32, v.shape) for v in vs] for vs in given)
            feeds += [*inputs, *errors]
            values += [*given[0], *given[1]]
            for network in (online, target):
                out += [tf.matmul(x, w) for x, w in zip(inputs, network, strict=True)]
            out += [tf.matmul(x, e, transpose_a=True) for x, e in zip(inputs, errors, strict=True)]
            out += [
                tf.matmul(e, w, transpose_b=True)
                for e, w in zip(errors[1:], online[1:], strict=True)
            ]
    engine.start()
    call = engine.callable(None, feeds, out)
    return lambda: call(*values)


def make(setup: dict[str, Any]) -> Work:
    return {"env": env_loop, "products": products}[setup["kind"]](setup)


if __name__ == "__main__":
    serve(make)
