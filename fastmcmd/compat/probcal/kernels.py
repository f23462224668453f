"""The published kernels as functions: arrays in, an array out; torch tensors in, a tensor out."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import (
    as_array,
    as_float,
    as_rows,
    check_count,
    check_flag,
    check_positive,
    dense_tensor,
    is_tensor,
    quote,
)
from fastmcmd.backends import get_backend
from fastmcmd.gram import offset_of
from fastmcmd.kernels import RBF, Kernel, Laplacian, Polynomial
from fastmcmd.kernels.base import Array

__all__ = ["laplacian_kernel", "polynomial_kernel", "rbf_kernel"]

_BLOCK = 1 << 22  # elements of a temporary array


def rbf_kernel(x: AnyArray, x_prime: AnyArray, gamma: float | None = None) -> AnyArray:
    """Return the matrix (n, m) of ``exp(-gamma |x - x'|_2^2)``.

    Parameters
    ----------
    x, x_prime : array_like or torch.Tensor, (n,) or (n, d), (m,) or (m, d)
        Rows; both arrays or both tensors.
    gamma : float, optional
        Positive number; None, and 0 as published, mean 1/d.

    Returns
    -------
    ndarray or torch.Tensor (n, m)
        The matrix in the dtype of the rows; a tensor on their device, with gradients as published. Arrays
        are computed in float64 and rounded.

    Raises
    ------
    ValueError
        Rows of another number of dimensions or columns.

    Examples
    --------
    >>> from fastmcmd.compat.probcal import rbf_kernel
    >>> rbf_kernel([[0.0, 0.0]], [[1.0, 1.0]]).round(4).tolist()
    [[0.3679]]
    """
    x, z = _pair(x, x_prime)
    gamma = _width(gamma, x.shape[1])
    if is_tensor(x):
        import torch

        return torch.exp(-gamma * torch.cdist(x, z) ** 2)
    return _matrix(RBF(gamma), x, z)


def laplacian_kernel(
    x: AnyArray, x_prime: AnyArray, gamma: float | None = None, *, squared: bool = True
) -> AnyArray:
    """Return the matrix (n, m) of ``exp(-gamma |x - x'|_1^2)``, with the square as published.

    Parameters
    ----------
    x, x_prime : array_like or torch.Tensor, (n,) or (n, d), (m,) or (m, d)
        Rows; both arrays or both tensors.
    gamma : float, optional
        Positive number; None, and 0 as published, mean 1/d.
    squared : bool
        True: the published values. False: ``exp(-gamma |x - x'|_1)``, the usual Laplacian kernel, as in
        scikit-learn. This argument is not part of the published signature.

    Returns
    -------
    ndarray or torch.Tensor (n, m)
        As of `rbf_kernel`.

    Raises
    ------
    ValueError
        Rows of another number of dimensions or columns.

    Notes
    -----
    The published function is documented as scikit-learn's Laplacian kernel but squares the distance. For
    one column, such as the outputs of the CCE, it is the RBF kernel with the same gamma: a valid kernel
    under another name, which the published numbers used. With more columns it is not positive semi-definite
    (``exp(-t r^2)`` of a norm r is positive semi-definite for all t only if the norm is Euclidean;
    Schoenberg, *Metric spaces and positive definite functions*, 1938), so the MCMD is not defined.
    `compute_mcmd_torch` then warns (for inputs) or raises an error (for outputs); use
    ``functools.partial(laplacian_kernel, squared=False)`` instead.

    Examples
    --------
    >>> from fastmcmd.compat.probcal import laplacian_kernel
    >>> laplacian_kernel([[0.0, 0.0]], [[1.0, 1.0]]).round(4).tolist()
    [[0.1353]]
    >>> laplacian_kernel([[0.0, 0.0]], [[1.0, 1.0]], squared=False).round(4).tolist()
    [[0.3679]]
    """
    x, z = _pair(x, x_prime)
    gamma = _width(gamma, x.shape[1])
    if is_tensor(x):
        import torch

        distance = torch.cdist(x, z, p=1.0)
        return torch.exp(-gamma * (distance**2 if squared else distance))
    if not check_flag(squared, "squared"):
        return _matrix(Laplacian(gamma), x, z)
    if x.shape[1] == 1:
        return _matrix(RBF(gamma), x, z)
    from scipy.spatial.distance import cdist

    out = np.empty((len(x), len(z)), dtype=np.result_type(x, z))
    for rows in _blocks(x, z):
        out[rows] = np.exp(-gamma * cdist(x[rows], z, "cityblock") ** 2)
    return out


def polynomial_kernel(
    x: AnyArray, x_prime: AnyArray, gamma: float = 1.0, coef0: float = 1.0, degree: int = 3
) -> AnyArray:
    """Return the matrix (n, m) of ``(gamma x.x' + coef0)^degree``.

    Parameters
    ----------
    x, x_prime : array_like or torch.Tensor, (n,) or (n, d), (m,) or (m, d)
        Rows; both arrays or both tensors.
    gamma : float
        Positive number. The default 1 is that of the published code; the paper and scikit-learn use 1/d.
    coef0 : float
        Nonnegative constant.
    degree : int
        Positive whole number.

    Returns
    -------
    ndarray or torch.Tensor (n, m)
        As of `rbf_kernel`.

    Raises
    ------
    ValueError
        Rows of another number of dimensions or columns.

    Examples
    --------
    >>> from fastmcmd.compat.probcal import polynomial_kernel
    >>> polynomial_kernel([[1.0, 2.0]], [[1.0, 1.0]]).tolist()
    [[64.0]]
    """
    x, z = _pair(x, x_prime)
    gamma, coef0 = check_positive(gamma, "gamma"), as_float(coef0, "coef0")
    degree = check_count(degree, "degree")
    if is_tensor(x):
        return (gamma * (x @ z.T) + coef0) ** degree
    return _matrix(Polynomial(degree, gamma, coef0), x, z)


def _width(gamma: float | None, columns: int) -> AnyArray:
    """Return gamma, or 1/d for None and 0; a tensor, which may need a gradient, is returned unchanged."""
    if gamma is None:
        return 1.0 / columns
    if is_tensor(gamma):
        width = _real_tensor(gamma, "gamma")
        if width.numel() != 1 or not width > 0:
            raise ValueError(f"gamma is {quote(gamma)}; a positive number is needed")
        return width
    return 1.0 / columns if as_float(gamma, "gamma") == 0 else check_positive(gamma, "gamma")


def _pair(x: AnyArray, z: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return two sets of rows (n, d), (m, d), both arrays or both tensors."""
    if is_tensor(x) != is_tensor(z):
        raise TypeError(
            f"x is a {type(x).__name__} and x_prime a {type(z).__name__}; two arrays or two torch tensors "
            "are needed"
        )
    if is_tensor(x):
        x, z = _real_tensor(x, "x"), _real_tensor(z, "x_prime")
    else:
        x, z = as_array(x, "x"), as_array(z, "x_prime")
    if x.ndim != z.ndim:
        raise ValueError(
            f"x has {x.ndim} dimensions and x_prime has {z.ndim}; they must have the same number"
        )
    if x.ndim not in (1, 2):
        raise ValueError(f"x has shape {tuple(x.shape)}; (n,) or (n, d) is needed")
    if x.ndim == 1:
        x, z = x.reshape(-1, 1), z.reshape(-1, 1)
    if x.shape[1] != z.shape[1]:
        raise ValueError(
            f"x has {x.shape[1]} columns and x_prime has {z.shape[1]}; they must have the same"
        )
    if not is_tensor(x):
        return as_rows(x, "x"), as_rows(z, "x_prime")
    for name, rows in (("x", x), ("x_prime", z)):
        if not rows.numel() or not bool(rows.detach().isfinite().all()):
            raise ValueError(f"{name} is empty or holds NaN or infinity; finite rows are needed")
    return (x.double(), z.double()) if x.dtype != z.dtype else (x, z)


def _real_tensor(value: AnyArray, name: str) -> AnyArray:
    """Return a dense tensor of float32 or float64, with its gradient; torch has no distances of others."""
    value = dense_tensor(value, name)
    if value.is_complex():
        raise TypeError(f"{name} has dtype {value.dtype}; real numbers are needed")
    if not value.is_floating_point():
        return value.double()
    return value.float() if value.element_size() < 4 else value


def _blocks(x: Array, z: Array) -> list[slice]:
    step = max(1, _BLOCK // len(z))
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _matrix(kernel: Kernel, x: Array, z: Array) -> Array:
    """Return the matrix in the dtype of the rows, computed in float64 by the compiled core."""
    backend = get_backend("auto", kernel)
    offset = offset_of(kernel, backend, z)
    columns = backend.points(z, np.float64, offset)
    out = np.empty((len(x), len(z)), dtype=np.result_type(x, z))
    for rows in _blocks(x, z):
        out[rows] = backend.gram(kernel, backend.points(x[rows], np.float64, offset), columns)
    return out
