"""A stand-in for JAX in NumPy: as much of it as the yardsticks use, one operation after the other.

Numbers are float64, and gradients are differences of the function itself, so nothing of what is
tested is written here a second time.
"""

import types

import numpy as np

_STEP = 1e-30  # nothing is subtracted, so it may be as small as one likes


def _grad(function):
    """Of a scalar function of a list of arrays: complex steps, number by number."""

    def gradient(weights):
        weights, found = [w.astype(complex) for w in weights], []
        for weight in weights:
            slope = np.zeros(weight.shape)
            for place in np.ndindex(weight.shape):
                weight[place] += 1j * _STEP
                slope[place] = function(weights).imag / _STEP
                weight[place] = weight[place].real
            found.append(slope)
        return found

    return gradient


def _rng(key):
    return np.random.default_rng(list(key))


def _scan(body, carry, xs, length):
    assert xs is None
    for _ in range(length):
        carry, _ = body(carry, None)
    return carry, None


def _dynamic_update_slice(array, rows, begin):
    array = array.copy()
    array[begin[0] : begin[0] + len(rows), begin[1] :] = rows
    return array


def _tree_map(function, *trees):
    return [function(*leaves) for leaves in zip(*trees, strict=True)]


def modules():
    """Name -> module, for `sys.modules`."""
    jax, jnp = types.ModuleType("jax"), types.ModuleType("jax.numpy")
    for name in (
        "argmax", "concatenate", "cos", "minimum", "ones", "sin", "sqrt", "stack",
        "take_along_axis", "where", "zeros", "zeros_like", "int32",
    ):  # fmt: skip
        setattr(jnp, name, getattr(np, name))
    jnp.float32, jnp.abs = np.float64, lambda x: np.where(x.real < 0, -x, x)
    jax.numpy, jax.grad = jnp, _grad
    jax.jit = lambda function, **_: function
    jax.block_until_ready = lambda value: value
    jax.nn = types.SimpleNamespace(relu=lambda x: np.where(x.real > 0, x, 0))
    jax.tree = types.SimpleNamespace(map=_tree_map)
    jax.lax = types.SimpleNamespace(scan=_scan, dynamic_update_slice=_dynamic_update_slice)
    jax.random = types.SimpleNamespace(
        PRNGKey=lambda seed: (seed,),
        fold_in=lambda key, number: (*key, 1, number),
        split=lambda key, count=2: [
            (*key[-3:], 2, i, _rng(key).integers(2**31)) for i in range(count)
        ],
        normal=lambda key, shape: _rng(key).normal(size=shape),
        uniform=lambda key, shape: _rng(key).random(shape),
        randint=lambda key, shape, low, high: _rng(key).integers(low, high, shape),
    )
    return {"jax": jax, "jax.numpy": jnp}
