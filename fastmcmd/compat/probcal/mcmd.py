"""The published MCMD functions, computed by `fastmcmd.mcmd`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import as_rows, check_lam, is_tensor
from fastmcmd.compat.probcal.recognise import (
    Converter,
    Converters,
    KernelFunction,
    as_kernel,
    is_indefinite,
)
from fastmcmd.errors import NumericalError
from fastmcmd.kernels.base import UNIT, Array
from fastmcmd.mcmd import mcmd

if TYPE_CHECKING:
    import torch

__all__ = ["compute_mcmd_numpy", "compute_mcmd_torch"]

_NAMES = ("grid", "x", "y", "x_prime", "y_prime")


def compute_mcmd_numpy(
    grid: AnyArray,
    x: AnyArray,
    y: AnyArray,
    x_prime: AnyArray,
    y_prime: AnyArray,
    x_kernel: KernelFunction,
    y_kernel: KernelFunction,
    lmbda: float = 0.01,
) -> NDArray[np.float64]:
    """Return the MCMD between two conditional distributions at the points of ``grid``.

    Parameters
    ----------
    grid : array_like (q, d) or (q,)
        Points at which the MCMD is evaluated.
    x, y : array_like (n, d) or (n,), (n, k) or (n,)
        Sample of the first distribution: inputs and outputs.
    x_prime, y_prime : array_like (m, d) or (m,), (m, k) or (m,)
        Sample of the second.
    x_kernel, y_kernel : callable or Kernel
        Kernels on inputs and outputs: functions from two sets of rows to their matrix. Functions of this
        module, of the published code and of ``sklearn.metrics.pairwise`` (RBF, Laplacian, polynomial,
        linear, cosine), and `functools.partial` of them, are recognised and run at full speed. Any other
        function is called on tiles of rows in float64.
    lmbda : float
        Regulariser, positive.

    Returns
    -------
    ndarray (q,)
        The MCMD in float64, never NaN and never negative.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Warns
    -----
    ToleranceWarning
        If the certified error is larger than 1e-6. `fastmcmd.mcmd` accepts a ``tol`` and returns the bound.

    Notes
    -----
    The result is that of `fastmcmd.mcmd` with ``lam=lmbda``. The published formula needs O(n^2) memory and
    O(n^3) time, and loses digits by cancellation if the MCMD is small. Both agree where the formula is
    accurate.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np
    >>> from fastmcmd.compat.probcal import compute_mcmd_numpy, rbf_kernel
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.uniform(size=200), rng.normal(size=200)
    >>> kernel = partial(rbf_kernel, gamma=0.5)
    >>> near = compute_mcmd_numpy(x, x, y, x, rng.normal(size=200), kernel, kernel)
    >>> far = compute_mcmd_numpy(x, x, y, x, 3 + rng.normal(size=200), kernel, kernel)
    >>> bool(near.mean() < far.mean())
    True
    """
    arrays = _arrays((grid, x, y, x_prime, y_prime))
    return _mcmd(arrays, x_kernel, y_kernel, lmbda, [(np.asarray, UNIT)])


def compute_mcmd_torch(
    grid: AnyArray,
    x: AnyArray,
    y: AnyArray,
    x_prime: AnyArray,
    y_prime: AnyArray,
    x_kernel: KernelFunction,
    y_kernel: KernelFunction,
    lmbda: float = 0.01,
) -> AnyArray:
    """Return the MCMD between two conditional distributions at the points of ``grid``, as a tensor.

    Parameters
    ----------
    grid, x, y, x_prime, y_prime : torch.Tensor
        As in `compute_mcmd_numpy`, on any device.
    x_kernel, y_kernel : callable or Kernel
        As in `compute_mcmd_numpy`. A function that is not recognised is called with tensors on the device
        of ``x``, in float64, or in the precision of ``x`` if it cannot take float64.
    lmbda : float
        Regulariser, positive.

    Returns
    -------
    torch.Tensor (q,)
        On the device of ``x``, in the widest precision of the inputs; detached. Never NaN, never negative.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Warns
    -----
    ToleranceWarning
        The certified error is larger than 1e-6.
    UserWarning
        If an input requires a gradient, because the result has none.

    Notes
    -----
    Recognised kernels are computed on the processor, whatever the device of the tensors. Rounding the
    result to float32 adds at most 6e-8 relative.

    Examples
    --------
    >>> import numpy as np, pytest
    >>> torch = pytest.importorskip("torch")
    >>> from fastmcmd.compat.probcal import compute_mcmd_torch, polynomial_kernel, rbf_kernel
    >>> x, y = torch.linspace(0, 1, 50), torch.linspace(-1, 1, 50)
    >>> compute_mcmd_torch(x, x, y, x, y, polynomial_kernel, rbf_kernel).abs().max().item()
    0.0
    """
    import torch

    tensors = (grid, x, y, x_prime, y_prime)
    for name, value in zip(_NAMES, tensors, strict=True):
        if not is_tensor(value):
            raise TypeError(
                f"{name} is a {type(value).__name__}; a torch tensor is needed (compute_mcmd_numpy takes "
                "arrays)"
            )
    if torch.is_grad_enabled() and any(value.requires_grad for value in tensors):
        warnings.warn(
            "an input needs a gradient: compute_mcmd_torch returns a detached tensor, through which none "
            "flows; call it under torch.no_grad() where that is meant",
            UserWarning,
            stacklevel=2,
        )
    floating = [value.dtype for value in tensors if value.dtype.is_floating_point]
    widest = torch.get_default_dtype()
    if floating:
        widest = floating[0]
        for dtype in floating[1:]:
            widest = torch.promote_types(widest, dtype)

    def converter(dtype: torch.dtype) -> Converter:
        def convert(block: Array) -> AnyArray:
            return torch.tensor(block, dtype=dtype, device=x.device)

        return convert, float(torch.finfo(dtype).eps) / 2

    converters = [converter(torch.float64)]
    if x.device.type == "mps":  # has no float64
        converters = [converter(widest)]
    elif widest != torch.float64:
        converters.append(converter(widest))
    with torch.no_grad():
        values = _mcmd(_arrays(tensors), x_kernel, y_kernel, lmbda, converters)
    return torch.as_tensor(values, dtype=widest, device=x.device)


def _arrays(values: tuple[AnyArray, ...]) -> tuple[Array, ...]:
    """Return the five arguments as arrays of rows; the same object stays the same."""
    converted: dict[int, Array] = {}
    for name, value in zip(_NAMES, values, strict=True):
        if id(value) not in converted:
            converted[id(value)] = as_rows(value, name)
    return tuple(converted[id(value)] for value in values)


def _mcmd(
    arrays: tuple[Array, ...],
    x_kernel: KernelFunction,
    y_kernel: KernelFunction,
    lmbda: float,
    converters: Converters,
) -> NDArray[np.float64]:
    grid, x, y, x_prime, y_prime = arrays
    lmbda = check_lam(lmbda, "lmbda")
    if is_indefinite(y_kernel) and y.shape[1] > 1:
        raise ValueError(
            f"y_kernel: exp(-gamma |y - z|_1^2) of {y.shape[1]} columns, the published Laplacian kernel, "
            "is not positive semi-definite, so that no MCMD belongs to it; use partial(laplacian_kernel, "
            "squared=False)"
        )
    exact = is_indefinite(x_kernel) and x.shape[1] > 1  # iterations need a positive matrix
    x_kernel = as_kernel(x_kernel, "x_kernel", x, converters)
    y_kernel = as_kernel(y_kernel, "y_kernel", y, converters)
    try:
        result = mcmd(
            grid, x, y, x_prime, y_prime, x_kernel=x_kernel, y_kernel=y_kernel, lam=lmbda,
            solver="cholesky" if exact else "auto",
            # The user's function is called in float64: certifying float32 tiles of it would cost twice as
            # much.
            dtype=None if x_kernel.compiled else np.float64,
        )  # fmt: skip
    except NumericalError as error:
        raise NumericalError(f"x, x_prime or grid: {error}") from None
    return result.values
