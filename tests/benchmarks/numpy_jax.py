"""A stand-in for JAX in NumPy: as much of it as the yardsticks' updates and the workers use.

Numbers are float64, and gradients are differences of the function itself, so nothing of what is
tested is written here a second time.
"""

import types

import numpy as np

_STEP = 1e-30  # nothing is subtracted, so it may be as small as one likes


def _grad(function):
    """Of a scalar function of a list of arrays: complex steps, number by number."""

    def gradient(weights, *more):
        weights, found = [w.astype(complex) for w in weights], []
        for weight in weights:
            slope = np.zeros(weight.shape)
            for place in np.ndindex(weight.shape):
                weight[place] += 1j * _STEP
                slope[place] = function(weights, *more).imag / _STEP
                weight[place] = weight[place].real
            found.append(slope)
        return found

    return gradient


def _value_and_grad(function):
    return lambda weights: (function(weights), _grad(function)(weights))


def _tree_map(function, *trees):
    """Of arrays in tuples, lists and named tuples."""
    first = trees[0]
    if not isinstance(first, tuple | list):
        return function(*trees)
    made = [_tree_map(function, *parts) for parts in zip(*trees, strict=True)]
    return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)


def _vmap(function):
    def one_by_one(key, *more):
        made = [function(*_tree_map(lambda x, i=i: x[i], (key, *more))) for i in range(len(key))]
        return _tree_map(lambda *parts: np.stack(parts), *made)

    return one_by_one


def _scan(function, carry, _, length):
    told = []
    for _ in range(length):
        carry, one = function(carry, None)
        told.append(one)
    return carry, _tree_map(lambda *parts: np.stack(parts), *told)


def _with_row(column, row, place, axis):
    assert axis == 0
    made = column.copy()
    made[place] = row
    return made


def _generator(key):
    return np.random.default_rng(int(key))


def _random():
    """Keys are whole numbers."""
    return types.SimpleNamespace(
        PRNGKey=np.int64,
        split=lambda key, num=2: _generator(key).integers(2**62, size=num),
        randint=lambda key, shape, low, high: _generator(key).integers(low, high, shape),
        uniform=lambda key, shape, minval=0.0, maxval=1.0: _generator(key).uniform(
            minval, maxval, shape
        ),
    )


def modules():
    """Name -> module, for `sys.modules`."""
    jax, jnp = types.ModuleType("jax"), types.ModuleType("jax.numpy")
    jnp.__getattr__ = lambda name: getattr(np, name)
    jnp.float32, jnp.abs = np.float64, lambda x: np.where(x.real < 0, -x, x)
    jax.numpy, jax.grad, jax.value_and_grad, jax.Array = jnp, _grad, _value_and_grad, np.ndarray
    jax.jit = lambda function, **_: function
    jax.vmap, jax.random, jax.device_get = _vmap, _random(), np.asarray
    jax.tree = types.SimpleNamespace(map=_tree_map)
    jax.nn = types.SimpleNamespace(
        relu=lambda x: np.where(x.real > 0, x, 0),
        initializers=types.SimpleNamespace(
            lecun_normal=lambda: (
                lambda key, shape: _generator(key).normal(size=shape) / np.sqrt(shape[0])
            )
        ),
    )
    jax.lax = types.SimpleNamespace(
        stop_gradient=lambda x: x,
        scan=_scan,
        cond=lambda condition, yes, no, given: (yes if condition else no)(given),
        dynamic_update_index_in_dim=_with_row,
    )
    return {"jax": jax, "jax.numpy": jnp}
