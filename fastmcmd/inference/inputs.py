"""Arguments that several tests share: kernels on inputs, and numbers of simulations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import check_count
from fastmcmd.default_kernels import chosen_input_kernel
from fastmcmd.kernels import Kernel, split_scales
from fastmcmd.kernels.base import KernelLike

__all__ = ["LEAST_SIMULATIONS", "InputMap", "check_simulations", "input_map"]

LEAST_SIMULATIONS = 19  # with fewer simulations no p-value reaches 0.05

Array = NDArray[np.float64]


def check_simulations(value: object) -> int:
    """Return the checked argument ``simulations``, an integer of at least `LEAST_SIMULATIONS`."""
    explanation = "with fewer no p-value reaches 0.05"
    return check_count(value, "simulations", LEAST_SIMULATIONS, explanation=explanation)


@dataclass(frozen=True, eq=False)
class InputMap:
    """The kernel of inputs, and the scales of their columns.

    Attributes
    ----------
    offset, scales : ndarray (d,)
        The kernel receives ``(x - offset) * scales``.
    kernel : Kernel
        Kernel on the scaled inputs, with numbers as parameters.
    """

    offset: Array
    scales: Array
    kernel: Kernel

    def __call__(self, x: Array) -> Array:
        """Return inputs (n, d) as the kernel receives them."""
        return np.asarray((x - self.offset) * self.scales)


def input_map(
    x: Array, x_kernel: KernelLike = None, weights: ArrayLike | None = None, name: str = "x"
) -> InputMap:
    """Return the input map for an argument ``x_kernel``: a kernel, "auto", "paper" or None.

    Rows of weight 0 do not count in the default. Messages call the inputs ``name``.
    """
    scales, kernel = split_scales(chosen_input_kernel(x, x_kernel, weights, name).resolve(x))
    factors = np.ones(x.shape[1]) if scales is None else np.array(scales)
    offset = np.zeros(x.shape[1])
    if scales is not None and kernel.translation_invariant:
        offset = x.mean(axis=0)  # far from 0, scaled columns would lose digits
    return InputMap(offset, factors, kernel)
