"""Inputs as the smoother takes them: by default standardised columns and three RBF lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import check_lam, shown
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.kernels import RBF, Constant, Kernel

__all__ = ["LAM", "InputMap", "checked_lam", "input_map"]

Array = NDArray[np.float64]

LAM = 0.01  # of the default kernel
_PAIRS = 1000  # rows whose distances are measured


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


def input_map(x: Array, x_kernel: Any) -> InputMap:
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
    length = _median_distance((x - offset) / scales)
    kernel: Kernel = Constant(1.0)
    if length > 0:
        parts = [RBF(0.5 / (length / part) ** 2) for part in (1, 2, 4)]
        kernel = (parts[0] + parts[1] + parts[2]) * Constant(1 / 3)
    return InputMap(offset, scales, kernel)


def checked_lam(lam: Any) -> float:
    """Return a regulariser; None is the default."""
    return LAM if lam is None else check_lam(lam)


def _median_distance(x: Array) -> float:
    """Return the median distance of pairs of rows, of unequal pairs where that is 0."""
    from scipy.spatial.distance import pdist

    if len(x) > _PAIRS:
        rng = generator(len(x), Purpose.PROBE)
        x = x[np.sort(rng.choice(len(x), _PAIRS, replace=False))]
    distances = pdist(x)
    positive = distances[distances > 0]
    if not len(positive):
        return 0.0
    median = float(np.median(distances))
    return median if median > 0 else float(np.median(positive))
