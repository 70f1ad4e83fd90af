"""A stand-in for JAX in NumPy: as much of it as the updates of the yardsticks use.

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


def modules():
    """Name -> module, for `sys.modules`."""
    jax, jnp = types.ModuleType("jax"), types.ModuleType("jax.numpy")
    for name in ("sqrt", "take_along_axis", "where", "zeros_like"):
        setattr(jnp, name, getattr(np, name))
    jnp.float32, jnp.abs = np.float64, lambda x: np.where(x.real < 0, -x, x)
    jax.numpy, jax.grad, jax.value_and_grad, jax.Array = jnp, _grad, _value_and_grad, np.ndarray
    jax.jit = lambda function, **_: function
    jax.nn = types.SimpleNamespace(relu=lambda x: np.where(x.real > 0, x, 0))
    jax.lax = types.SimpleNamespace(stop_gradient=lambda x: x)
    return {"jax": jax, "jax.numpy": jnp}
