"""Cost of entries of a Gram matrix, in float32 operations per pair and product.

A symmetric product computes each pair once, so a multiply-add per coordinate counts as one operation per
ordered pair. The figures are ratios of measured times, see docs/performance.md. The costs of solvers in
`fastmcmd.solvers.costs` follow from these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from fastmcmd.kernels import Constant, CustomKernel, Delta, Kernel, Laplacian, Product, Sum
from fastmcmd.kernels.distance import Stationary

__all__ = [
    "FEWEST_PRODUCTS", "FRESH_SECONDS", "QUANTIZED_READ_COST", "READ_COST", "STORE_COST", "USUAL_ERROR",
    "KernelMatrix", "MatrixSize", "cached_pays", "entry_cost", "expected_products", "prepared_bytes",
]  # fmt: skip

_EPILOGUE = 15.0  # cost of the exponential or power of an entry
_SPARED = 10.0  # part of it that an exponential does not cost if it is the fourth power of another
_CONSTANT = 1.0  # cost of a constant in a sum or product
_THREE_STEPS = 3.0  # cost of a coordinate that takes more than one fused multiply-add
READ_COST = 45.0  # cost of reading a float32 entry of a stored lower triangle from memory
QUANTIZED_READ_COST = 40.0  # the same of an entry of 16 bits, which is converted
_WRITE_COST = 45.0  # cost of writing such an entry
# Cost of the first use of its memory: the system clears pages, and the host of a virtual machine may have
# to find them. Two shared cores measured 20 to 250, according to what ran before.
_FRESH_COST = 45.0
STORE_COST = _WRITE_COST + _FRESH_COST  # cost of an entry that is stored in host memory
_QUANTIZE_COST = STORE_COST / 2  # the same in 16 bits
# Wall time in seconds per byte, for plans: it took 0 to 1.3 s of processor time per gigabyte.
FRESH_SECONDS = 5e-10
FEWEST_PRODUCTS = 4.0  # products of CG at the default regulariser
USUAL_ERROR, _PER_DIGIT = 1e-6, 0.3  # error of a usual run, and share of products per further digit
_CUSTOM = 1000.0  # cost of an entry from a user's function, called pair by pair


def prepared_bytes(values: int, itemsize: int) -> int:
    """Return the bytes of rows with this many values, prepared for a backend: padded and aligned."""
    return int(values * itemsize * 1.02) + 4096


def entry_cost(kernel: Kernel, dim: int, backend: str) -> float:
    """Return operations per ordered pair of a streamed symmetric product.

    A sum or product computes each statistic of a pair, such as the squared distance, once for all parts.
    """
    values, statistics = _parts(kernel)
    # For a device the costs of reading are those of the CPU; custom functions take long anywhere.
    slow = 10.0 if backend in ("numba", "numpy") and kernel.compiled else 1.0
    return slow * (values + sum(statistics.values()) * dim)


def _parts(kernel: Kernel) -> tuple[float, dict[str, float]]:
    """Return the cost of the values of a kernel, and of its statistics for each coordinate."""
    match kernel:
        case Sum(left=left, right=right) | Product(left=left, right=right):
            (value, statistics), (other_value, other_statistics) = _parts(left), _parts(right)
            spared = _SPARED if isinstance(kernel, Sum) and kernel.fourth_powers else 0.0
            return value + other_value - spared, statistics | other_statistics
        case CustomKernel():
            return _CUSTOM, {}
        case Constant():
            return _CONSTANT, {}
        case Laplacian() | Delta():
            return _EPILOGUE, {kernel.statistic: _THREE_STEPS}
        case Stationary():
            return _EPILOGUE, {kernel.statistic: 1.0}
        case _:
            return _EPILOGUE, {"product": 1.0}


def cached_pays(cost: float, products: float, on_device: bool, *, quantized: bool = False) -> bool:
    """Tell whether it pays to store tiles with entries of this cost, for so many expected products.

    Later products read them. Before that they are written, on the host to memory that is used for the first
    time.
    """
    first_use, each_later = _WRITE_COST if on_device else STORE_COST, READ_COST
    if quantized:
        first_use, each_later = _QUANTIZE_COST, QUANTIZED_READ_COST
    return (products - 1.0) * (cost - each_later) > first_use


def expected_products(ratio: float, error: float = USUAL_ERROR) -> float:
    """Return a guess of the number of products of CG for ``k(x, x) / lam`` equal to ``ratio``.

    ``error`` is the permitted error of the answer.
    """
    products = FEWEST_PRODUCTS + 6.0 * max(0.0, math.log10(max(ratio, 1.0)) - 1.0) ** 1.5
    digits = math.log10(USUAL_ERROR / max(error, 1e-16))
    return products * max(0.5, 1.0 + _PER_DIGIT * digits)


class KernelMatrix(Protocol):
    """The costs of a kernel matrix: those of an operator, or estimates from sizes alone."""

    @property
    def size(self) -> int:
        """Number of rows."""

    @property
    def entry_cost(self) -> float:
        """Operations per ordered pair, see `entry_cost`."""

    def streamed_cost(self, columns: int, *, exact: bool = False) -> float:
        """Return the cost of a product that computes the entries; ``exact`` means in float64."""

    def product_cost(self, columns: int, feature_bytes: int = 0) -> float:
        """Return the cost of each product after the first, in memory that features take a part of."""


@dataclass(frozen=True)
class MatrixSize:
    """A float32 kernel matrix known by its sizes only: every product is streamed.

    Attributes
    ----------
    kernel : Kernel
        Resolved kernel.
    size, dim : int
        Rows, and columns of the inputs.
    backend : str
        Name of the backend.
    """

    kernel: Kernel
    size: int
    dim: int
    backend: str

    @property
    def entry_cost(self) -> float:
        """Operations per ordered pair."""
        return entry_cost(self.kernel, self.dim, self.backend)

    def streamed_cost(self, columns: int, *, exact: bool = False) -> float:
        """Return the cost of a product; ``exact`` means in float64."""
        return float(self.size) ** 2 * (2.0 if exact else 1.0) * (self.entry_cost + 2 * columns)

    def product_cost(self, columns: int, feature_bytes: int = 0) -> float:
        """Return the cost of each product after the first, which equals that of the first."""
        del feature_bytes
        return self.streamed_cost(columns)
