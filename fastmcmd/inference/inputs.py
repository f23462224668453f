"""Inputs as the smoother takes them: by default standardised columns and three RBF lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import check_lam, shown
from fastmcmd.inference.defaults import median_distance
from fastmcmd.kernels import RBF, Constant, Kernel

__all__ = ["LAM", "InputMap", "checked_lam", "input_map"]

Array = NDArray[np.float64]

LAM = 0.01  # of the default kernel


@dataclass(frozen=True, eq=False)
class InputMap:
    """The kernel of inputs, and the column scales under it.

    Attributes
    ----------
    offset, scales : ndarray (d,)
        Inputs are seen as ``(x - offset) / scales``.
    kernel : Kernel
        On these, its parameters numbers.
    """

    offset: Array
    scales: Array
    kernel: Kernel

    def __call__(self, x: Array) -> Array:
        """Return inputs (n, d) as the kernel sees them."""
        return np.asarray((x - self.offset) / self.scales)


def input_map(x: Array, x_kernel: object) -> InputMap:
    """Return the kernel given, or the default for inputs (n, d).

    The default is the mean of RBFs at l, l/2 and l/4 on standardised columns, l the median distance of at
    most 1,000 rows; the constant kernel where all inputs are equal.
    """
    columns = x.shape[1]
    if x_kernel is not None:
        if not isinstance(x_kernel, Kernel):
            raise TypeError(f"x_kernel is {shown(x_kernel)}; a fastmcmd kernel or None is needed")
        return InputMap(np.zeros(columns), np.ones(columns), x_kernel.resolve(x))
    offset, scales = x.mean(axis=0), x.std(axis=0)
    scales[~(scales > 0)] = 1.0
    length = median_distance((x - offset) / scales)
    kernel: Kernel = Constant(1.0)
    if length > 0:
        parts = [RBF(0.5 / (length / part) ** 2) for part in (1, 2, 4)]
        kernel = (parts[0] + parts[1] + parts[2]) * Constant(1 / 3)
    return InputMap(offset, scales, kernel)


def checked_lam(lam: object) -> float:
    """Return a regulariser; None is the default."""
    return LAM if lam is None else check_lam(lam)
