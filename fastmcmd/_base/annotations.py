"""Types of arguments that recur in public signatures."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np

__all__ = ["PIT", "AnyArray", "FilePath", "NanPolicy", "RandomState", "Real"]

NanPolicy: TypeAlias = Literal["raise", "omit", "propagate"]
RandomState: TypeAlias = int | np.random.Generator | None
PIT: TypeAlias = Literal["randomized", "mid", "plain"]
FilePath: TypeAlias = str | PathLike[str]
Real: TypeAlias = float | np.floating[Any] | np.integer[Any]
# An array of NumPy or CuPy, or a tensor of torch: the libraries share no type.
AnyArray: TypeAlias = Any
