"""Kernels, their error bounds, and their sums and products."""

from __future__ import annotations

from collections.abc import Mapping

from fastmcmd._base.annotations import Json
from fastmcmd._base.checks import quote
from fastmcmd.kernels.base import Kernel
from fastmcmd.kernels.combined import Constant, Product, Sum
from fastmcmd.kernels.custom import CustomKernel
from fastmcmd.kernels.distance import RBF, Delta, Laplacian, Matern
from fastmcmd.kernels.inner import Cosine, Linear, Polynomial
from fastmcmd.kernels.scaled import Scaled, scale_columns, scales_of, split_scales

__all__ = [
    "RBF",
    "Constant",
    "Cosine",
    "CustomKernel",
    "Delta",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "Product",
    "Scaled",
    "Sum",
    "kernel_from_dict",
    "scale_columns",
    "scales_of",
    "split_scales",
]

_SAVED_KERNELS: dict[str, type[Kernel]] = {
    kind.__name__: kind
    for kind in (
        RBF,
        Constant,
        Cosine,
        Delta,
        Laplacian,
        Linear,
        Matern,
        Polynomial,
        Product,
        Scaled,
        Sum,
    )
}


def kernel_from_dict(described: Json) -> Kernel:
    """Return the kernel described by a dict of ``Kernel.to_dict``."""
    if not isinstance(described, Mapping):
        raise TypeError(f"described is {quote(described)}; a dict as of Kernel.to_dict() is needed")
    parameters = dict(described)
    name = parameters.pop("kernel", None)
    if name not in _SAVED_KERNELS:
        raise ValueError(
            f"described: the kernel is {quote(name)}; one of {', '.join(_SAVED_KERNELS)} is needed"
        )
    values = {
        key: kernel_from_dict(value) if isinstance(value, dict) else value
        for key, value in parameters.items()
    }
    return _SAVED_KERNELS[name](**values)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
