"""Types that recur in signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "PIT",
    "AnyArray",
    "Array",
    "CertificateName",
    "ColumnsLike",
    "DType",
    "Encoder",
    "FilePath",
    "HostArray",
    "InputsLike",
    "Json",
    "Landmarks",
    "MemoryLimit",
    "NanPolicy",
    "Nodes",
    "Projection",
    "RandomState",
    "SolverName",
]

Array: TypeAlias = NDArray[np.float64]
DType: TypeAlias = np.dtype[Any]
# Values (n, L) or (n, L, k) with weights (n, L); or values and weights that all rows share.
Nodes: TypeAlias = tuple[Array, Array]
NanPolicy: TypeAlias = Literal["raise", "omit", "propagate"]
# Arguments accepted by `seeds.generator` and `seeds.seed_sequence`.
RandomState: TypeAlias = (
    int
    | Sequence[int]
    | NDArray[np.integer[Any]]
    | np.random.SeedSequence
    | np.random.Generator
    | np.random.BitGenerator
    | np.random.RandomState
    | None
)
SolverName: TypeAlias = Literal["auto", "cholesky", "cg", "lowrank", "nystrom"]
CertificateName: TypeAlias = Literal["auto", "rigorous", "sampled"]
PIT: TypeAlias = Literal["randomized", "mid", "plain"]
FilePath: TypeAlias = str | PathLike[str]
MemoryLimit: TypeAlias = int | float | str | None  # bytes, or text such as "8GB"
Landmarks: TypeAlias = str | ArrayLike | None  # how they are chosen, or the landmarks themselves
# Inputs: an array, a data frame, a file, or the items for an encoder.
InputsLike: TypeAlias = ArrayLike | PathLike[str] | Sequence[object]
# Columns that describe rows: a data frame, an array (n, c), or values by name.
ColumnsLike: TypeAlias = ArrayLike | Mapping[str, ArrayLike]
Encoder: TypeAlias = Callable[[Any], ArrayLike]
# An array of NumPy or CuPy, or a tensor of torch: the libraries share no type.
AnyArray: TypeAlias = Any
# Onto a plane: its name, positions (n, 2), or a function from rows to positions.
Projection: TypeAlias = str | ArrayLike | Callable[[NDArray[Any]], ArrayLike]
Json: TypeAlias = dict[str, Any]  # values that JSON holds, by their names
HostArray: TypeAlias = NDArray[Any]  # of NumPy, whatever its dtype
