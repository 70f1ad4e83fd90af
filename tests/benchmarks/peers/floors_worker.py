"""What nothing can be faster than: the bare env loop, and an update's matrix products alone.

    {"kind": "env", "envs": 1}            env.step and the resets; of more than one, the vector env
    {"kind": "products"}                  an update's products, called from C
    {"kind": "sgemm"}                     one product of two 1,024 x 1,024 matrices, the same way

The products are those of one DQN update, batch 64, of an MLP 4-64-64-2: three forward of the
online network, three of the target, and five backward (no gradient is wanted of the input).
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from protocol import Work, serve

B, SIZES = 64, (4, 64, 64, 2)
SQUARE = 1_024


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


class Product(ctypes.Structure):
    """One of products.c: c = a b, where a and b may be stored the other way round."""

    _fields_: ClassVar = [
        *((name, ctypes.c_void_p) for name in "abc"),
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "trans_a", "trans_b")),
    ]


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Product:
    """Returns c = a b; a view that is a transpose is handed over as one."""
    stored = [x if x.flags.c_contiguous else x.T for x in (a, b)]
    turned = [int(x is not kept) for x, kept in zip((a, b), stored, strict=True)]
    assert all(x.flags.c_contiguous for x in (*stored, c))
    pointers = [x.ctypes.data for x in (*stored, c)]
    made = Product(*pointers, *c.shape, a.shape[1], *turned)
    made.arrays = (a, b, c)  # alive as long as C has their addresses
    return made


def in_c(directory: Path) -> Callable[[Sequence[Product], int], None]:
    """Compiles products.c; returns the function that makes products so many times.

    Raises:
      RuntimeError: there is no C compiler, or NumPy's BLAS has another name for sgemm.
    """
    if not (compiler := shutil.which("cc")):
        raise RuntimeError("no C compiler")
    out, source = directory / "products.so", Path(__file__).with_name("products.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", out, source], check=True)
    multiply = ctypes.CDLL(str(out)).multiply
    found = sorted((Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas64_*"))
    if not found:
        raise RuntimeError("NumPy has another BLAS")
    sgemm = ctypes.cast(ctypes.CDLL(str(found[0])).scipy_cblas_sgemm64_, ctypes.c_void_p)

    def run(products: Sequence[Product], times: int) -> None:
        number = ctypes.c_int64(len(products))
        multiply(sgemm, (Product * len(products))(*products), number, ctypes.c_int64(times))

    return run


def of_an_update(rng: np.random.Generator) -> list[tuple[np.ndarray, ...]]:
    """Returns a, b, c of each product, c [B, ...] or as the weights."""
    pairs = list(itertools.pairwise(SIZES))
    inputs = [rng.standard_normal((B, n), np.float32) for n, _ in pairs]
    errors = [rng.standard_normal((B, m), np.float32) for _, m in pairs]
    networks = [[rng.standard_normal(pair, np.float32) for pair in pairs] for _ in range(2)]
    both = [(x, w) for weights in networks for x, w in zip(inputs, weights, strict=True)]
    both += [(x.T, error) for x, error in zip(inputs, errors, strict=True)]
    both += [(error, w.T) for error, w in zip(errors[1:], networks[0][1:], strict=True)]
    return [(a, b, np.zeros((a.shape[0], b.shape[1]), np.float32)) for a, b in both]


def flops(operands: Sequence[tuple[np.ndarray, ...]]) -> int:
    """Returns the multiplications and additions of products."""
    return sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b, _ in operands)


def products(setup: dict[str, Any]) -> Work:
    rng = np.random.default_rng(0)
    if setup["kind"] == "sgemm":
        square = [rng.standard_normal((SQUARE, SQUARE), np.float32) for _ in range(2)]
        operands = [(*square, np.zeros((SQUARE, SQUARE), np.float32))]
    else:
        operands = of_an_update(rng)
    handed = [product(*each) for each in operands]
    with tempfile.TemporaryDirectory() as directory:
        multiply = in_c(Path(directory))

    def run(count: int) -> tuple[int, int]:
        multiply(handed, count)
        return 0, count

    run(setup["warm_up"])
    return Work(run, 1, ("numpy",), flops(operands))


def make(setup: dict[str, Any]) -> Work:
    return {"env": env_loop, "products": products, "sgemm": products}[setup["kind"]](setup)


if __name__ == "__main__":
    serve(make)
