"""What entries of a Gram matrix cost, in float32 operations per pair and product.

A symmetric product computes each pair once, so that a multiply-add per coordinate counts one
operation per ordered pair. The figures are ratios of measured times, see docs/performance.md.
"""

from __future__ import annotations

import math

from fastmcmd.kernels import CustomKernel, Delta, Kernel, Laplacian, Product, Sum

__all__ = [
    "READ_COST", "affordable_rank", "cached_pays", "entry_cost", "nominal_seconds", "products_of_cg",
    "work_of_cg",
]  # fmt: skip

_EPILOGUE = 15.0  # exponential or power of an entry
READ_COST = 45.0  # reading a float32 entry of a stored lower triangle from memory
_PRODUCTS = 4.0  # of CG at the default regulariser
_USUAL_ERROR, _PER_DIGIT = 1e-6, 0.3  # of the products for that error, each digit more
_CUSTOM = 1000.0  # a user's function, pair by pair
_NOMINAL = (
    2e10  # operations a second of a thread: one multiply-add of 8 numbers a cycle, at 2.5 GHz
)


def entry_cost(kernel: Kernel, dim: int, backend: str) -> float:
    """Return operations per ordered pair of a streamed symmetric product."""
    match kernel:
        case Sum(left=left, right=right) | Product(left=left, right=right):
            return entry_cost(left, dim, backend) + entry_cost(right, dim, backend)
        case CustomKernel():
            return _CUSTOM
        case Laplacian() | Delta():
            per_coordinate = 3.0  # instead of one fused multiply-add
        case _:
            per_coordinate = 1.0
    slow = 10.0 if backend in ("numba", "numpy") else 1.0  # of a card: reading costs as on the CPU
    return slow * (_EPILOGUE + per_coordinate * dim)


def cached_pays(kernel: Kernel, dim: int, backend: str) -> bool:
    """Tell whether stored tiles are read faster than they are computed again."""
    return entry_cost(kernel, dim, backend) > _EPILOGUE + READ_COST


def affordable_rank(kernel: Kernel, n: int, dim: int, backend: str, columns: int) -> int:
    """Return the number of landmarks whose two passes cost half as much as a run of CG."""
    entry = entry_cost(kernel, dim, backend)
    iterations = n * (entry + 2 * columns) * _PRODUCTS / 2  # a row of it
    # 2 * 2 * (p entry + 2 p^2) operations in float64 a row.
    return int((-entry + math.sqrt(entry * entry + 2 * iterations)) / 4)


def products_of_cg(ratio: float, error: float = _USUAL_ERROR) -> float:
    """Return a guess of the products that CG needs where ``k(x, x) / lam`` is ``ratio``.

    ``error`` is what the answer may be off by.
    """
    products = _PRODUCTS + 6.0 * max(0.0, math.log10(max(ratio, 1.0)) - 1.0) ** 1.5
    digits = math.log10(_USUAL_ERROR / max(error, 1e-16))
    return products * max(0.5, 1.0 + _PER_DIGIT * digits)


def work_of_cg(
    kernel: Kernel, n: int, dim: int, backend: str, ratio: float, columns: int,
    error: float = _USUAL_ERROR,
) -> float:  # fmt: skip
    """Return the operations of CG, each product streamed, from sizes alone."""
    pair = entry_cost(kernel, dim, backend) + 2 * columns
    return products_of_cg(ratio, error) * float(n) ** 2 * pair


def nominal_seconds(
    kernel: Kernel, n: int, dim: int, ratio: float, columns: int, threads: int
) -> float:
    """Return the seconds of CG on processors of nominal speed: from sizes alone, nothing is measured."""
    return work_of_cg(kernel, n, dim, "cpu", ratio, columns) / (_NOMINAL * threads)
