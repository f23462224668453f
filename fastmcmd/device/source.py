"""The CUDA source of a kernel: its program as an expression of the formulas in ``formulas.h``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from fastmcmd._base.annotations import DType
from fastmcmd.kernels import Kernel

__all__ = ["DIRECT_LIMIT", "Source", "row_source", "structure_of", "tile_source"]

# Up to this many columns squared distances are sums of squared differences: as in the compiled core, so
# that a certificate says the same of both.
DIRECT_LIMIT = 32
_PARAMETERS = 4  # of an instruction
_SMALL_DEGREES = range(1, 9)  # powers by multiplication


@dataclass(frozen=True)
class Source:
    """A text to be compiled, which is also its name in a cache.

    Attributes
    ----------
    text : str
        CUDA C++ without any include.
    needs_dot : bool
        Whether tiles must hold inner products before ``pairs`` runs.
    """

    text: str
    needs_dot: bool = False


@lru_cache(maxsize=8)
def row_source(dtype: DType) -> Source:
    """Return what prepares rows and features in one precision."""
    return Source(_stage(dtype) + _file("rows.cu"))


@lru_cache(maxsize=128)
def tile_source(codes: tuple[Any, ...], dim: int, dtype: DType) -> Source:
    """Return what evaluates kernels of one structure, whatever their parameters.

    Parameters
    ----------
    codes : tuple
        `structure_of` a kernel.
    dim : int
        Columns of the rows; says only how squared distances are formed.
    dtype : numpy.dtype
    """
    needs: set[str] = set()
    stack: list[str] = []
    # As in the core (program.h): rows that are compared cannot be centred.
    direct = dim <= DIRECT_LIMIT or any(name == "delta" for name, _ in codes)
    for place, (name, variant) in enumerate(codes):
        if name in ("add", "mul"):
            right, left = stack.pop(), stack.pop()
            stack.append(f"({left} {'+' if name == 'add' else '*'} {right})")
            continue
        statistic, expression = _leaf(name, variant, direct, place)
        needs |= statistic
        stack.append(expression)
    (value,) = stack
    names = ("dot", "expanded", "squared", "l1", "unequal")
    flags = "".join(f"#define FASTMCMD_{name.upper()} {int(name in needs)}\n" for name in names)
    program = _PROGRAM.replace("@value", value)
    text = flags + _stage(dtype) + program + _file("tiles.cu")
    return Source(text, needs_dot="dot" in needs)


def structure_of(kernel: Kernel) -> tuple[tuple[Any, ...], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return what the source of a kernel depends on, and the parameters that it reads."""
    names, parameters = kernel.program()
    codes = []
    for name, values in zip(names, parameters, strict=True):
        variant: Any = None
        if name == "matern":
            variant = round(2 * values[1])
        if name == "polynomial" and values[2] in _SMALL_DEGREES:
            variant = int(values[2])
        codes.append((name, variant))
    return tuple(codes), np.array(parameters, dtype=np.float64).reshape(-1)


def _leaf(name: str, variant: Any, direct: bool, place: int) -> tuple[set[str], str]:
    """Return the statistics that a leaf needs, and its value in CUDA."""
    first, second = (f"real(p[{_PARAMETERS * place + i}])" for i in range(2))
    squared = {"squared"} if direct else {"dot", "expanded"}
    distance = "s.squared" if direct else "s.expanded"
    match name:
        case "rbf":
            return squared, f"exponential<number_math>({distance}, -{first})"
        case "laplacian":
            return {"l1"}, f"exponential<number_math>(s.l1, -{first})"
        case "matern":
            if variant == 1:  # the root of a rounded difference would magnify it near 0
                squared, distance = {"squared"}, "s.squared"
            scale = f"real(sqrt({variant}.0) / p[{_PARAMETERS * place}])"
            return squared, f"matern<number_math, {variant}>({distance}, {scale})"
        case "polynomial":
            if variant is None:
                degree = f"p[{_PARAMETERS * place + 2}]"
                return {"dot"}, f"real_polynomial<number_math>(s.dot, {first}, {second}, {degree})"
            return {"dot"}, f"polynomial<number_math, {variant}>(s.dot, {first}, {second})"
        case "linear":
            return {"dot"}, "s.dot"
        case "cosine":
            return {"dot"}, "cosine<number_math>(s.dot, s.x_inverse, s.z_inverse)"
        case "delta":
            return {"unequal"}, "delta<number_math>(s.unequal)"
        case "constant":
            return set(), first
    raise ValueError(f"no CUDA formula for {name!r}; add it to fastmcmd/device/source.py")


_PROGRAM = """
namespace fastmcmd {
namespace device {

struct statistics {
  real dot, expanded, squared, l1, unequal, x_inverse, z_inverse;
};

__device__ __forceinline__ real kernel_value(const statistics& s, const double* p) {
  (void)s, (void)p;
  return @value;
}

}  // namespace device
}  // namespace fastmcmd
"""


def _stage(dtype: DType) -> str:
    single = np.dtype(dtype).itemsize == 4
    lines = f"#define FASTMCMD_REAL {'float' if single else 'double'}\n"
    lines += f"#define FASTMCMD_FLOAT32 {int(single)}\n"
    return lines + _file("numbers.h") + _file("formulas.h")


@lru_cache(maxsize=8)
def _file(name: str) -> str:
    return resources.files("fastmcmd.device").joinpath(name).read_text(encoding="utf-8")
