"""A kernel on inputs whose columns are multiplied by separate factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.checks import as_array, as_float
from fastmcmd.kernels.base import Array, Instruction, Kernel, as_rows
from fastmcmd.kernels.combined import Constant, Product, Sum

__all__ = ["Scaled", "scale_columns", "scales_of", "split_scales"]


@dataclass(frozen=True)
class Scaled(Kernel):
    """A kernel on rows whose columns are multiplied by ``scales``: ``inner(x * scales, z * scales)``.

    Use it for columns in different units, or to leave columns out (scale 0). Computations multiply the
    columns once, in float64, when they read the inputs; every backend then uses the inner kernel.

    Parameters
    ----------
    inner : Kernel
        Kernel on the scaled rows. A ``gamma`` that depends on the data is computed from scaled rows.
    scales : sequence of float (d,)
        Nonnegative factor of each column. One over the standard deviation of a column standardises it.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> x = np.array([[0.0, 0.0], [1.0, 1000.0]])
    >>> kernel = fm.Scaled(fm.RBF(0.5), (1.0, 0.001))
    >>> bool(np.isclose(kernel(x)[0, 1], np.exp(-1)))
    True
    """

    has_scales: ClassVar[bool] = True
    inner: Kernel
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Kernel):
            raise TypeError(f"inner is {self.inner!r}; a kernel is needed")
        values: Any = self.scales
        if not isinstance(values, (list, tuple)):
            array = np.atleast_1d(as_array(values, "scales"))
            values = array.tolist() if array.ndim == 1 else []
        scales = tuple(as_float(one, "an entry of scales") for one in values)
        if not scales or not all(0 <= one < np.inf for one in scales):
            raise ValueError(
                f"scales is {self.scales!r}; finite numbers >= 0 are needed, one per column"
            )
        inner = self.inner
        if isinstance(inner, Scaled):
            if len(inner.scales) != len(scales):
                raise ValueError(
                    f"scales has {len(scales)} entries, those of the inner kernel {len(inner.scales)}"
                )
            scales = tuple(a * b for a, b in zip(scales, inner.scales, strict=True))
            inner = inner.inner
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "scales", scales)

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel is."""
        return self.inner.translation_invariant

    @property
    def compares_rows(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel does."""
        return self.inner.compares_rows

    @property
    def divides_by_norms(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel does."""
        return self.inner.divides_by_norms

    @property
    def scale_free(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel is."""
        return self.inner.scale_free

    @property
    def is_resolved(self) -> bool:
        """Whether the inner kernel is."""
        return self.inner.is_resolved

    @property
    def compiled(self) -> bool:
        """Whether the inner kernel is."""
        return self.inner.compiled

    def rows(self, x: ArrayLike, name: str = "x") -> Array:
        """Return the scaled rows (n, d) in float64."""
        x = as_rows(x)
        if x.shape[1] != len(self.scales):
            raise ValueError(
                f"{name} has {x.shape[1]} columns and the kernel has scales for {len(self.scales)}; they "
                "must agree"
            )
        return np.asarray(x * np.array(self.scales))

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        return self.inner.evaluate(self.rows(x), self.rows(z))

    def diagonal(self, x: ArrayLike) -> Array:
        """Return k(x_i, x_i) (n,)."""
        return self.inner.diagonal(self.rows(x))

    @property
    def at_zero(self) -> float:
        """k(0, 0) of the inner kernel."""
        return self.inner.at_zero

    def resolve(self, data: ArrayLike) -> Kernel:
        """Return the kernel with parameters that depend on the scaled data replaced by numbers."""
        if self.is_resolved:
            return self
        rows: Any = data
        on_disk = hasattr(rows, "blocks")
        rows = rows.scaled(np.array(self.scales)) if on_disk else self.rows(data)
        return replace(self, inner=self.inner.resolve(rows))

    def prepared(self, x: Array, name: str) -> Array:
        """Return the scaled rows, prepared for the inner kernel."""
        return self.inner.prepared(self.rows(x, name), name)

    def examine(self, rows: Array, name: str) -> None:
        """Examine the inner kernel."""
        self.inner.examine(self.rows(rows), name)

    def instructions(self) -> Iterator[Instruction]:
        """Raise TypeError: rows are scaled before the core receives them (`split_scales`)."""
        raise TypeError(
            f"{self!r} must be split into scales and an inner kernel before it is computed"
        )

    def max_value(self, max_norm2: float) -> float:
        """Return the bound of the inner kernel at the largest scale."""
        return self.inner.max_value(self._largest_norm2(max_norm2))

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return the bound of the inner kernel at the largest scale, plus one rounding for the scaling."""
        return self.inner.entry_error(unit, dim + 2, self._largest_norm2(max_norm2), direct)

    def _largest_norm2(self, max_norm2: float) -> float:
        """Return a bound on the squared norm of scaled rows, even if the square of a scale overflows."""
        return float(np.square(np.sqrt(max_norm2) * max(self.scales)))

    def __repr__(self) -> str:
        first_scales = ", ".join(f"{one:.4g}" for one in self.scales[:6])
        more = f", ... {len(self.scales)} in all" if len(self.scales) > 6 else ""
        return f"Scaled({self.inner!r}, ({first_scales}{more}))"


def split_scales(kernel: Kernel) -> tuple[tuple[float, ...] | None, Kernel]:
    """Return the scales of the columns, or None if nothing is scaled, and the kernel on the scaled rows.

    Raises
    ------
    ValueError
        A sum or product of kernels with different scales: rows can be scaled only once.
    """
    if not kernel.has_scales:
        return None, kernel
    match kernel:
        case Scaled(inner=inner, scales=scales):
            return scales, inner
        case Sum(left=left, right=right) | Product(left=left, right=right):
            first, left = split_scales(left)
            second, right = split_scales(right)
            if isinstance(left, Constant) or isinstance(right, Constant):
                first = second = first or second
            if first != second:
                raise ValueError(
                    f"{kernel!r} combines kernels of differently scaled columns; give one Scaled around "
                    "the whole kernel"
                )
            return first, type(kernel)(left, right)
    return None, kernel


def scales_of(kernel: Kernel | None) -> tuple[float, ...] | None:
    """Return the scales of the columns (d,), or None if nothing is scaled."""
    return None if kernel is None else split_scales(kernel)[0]


def scale_columns(kernel: Kernel, x: Array, name: str = "x") -> tuple[Kernel, Array]:
    """Return the inner kernel and its scaled rows (n, d), or the originals if nothing is scaled."""
    scales, inner = split_scales(kernel)
    return inner, x if scales is None else Scaled(inner, scales).rows(x, name)
