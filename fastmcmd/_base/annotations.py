"""Types that recur in signatures."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "NanPolicy", "Nodes", "RandomState"]

Array: TypeAlias = NDArray[np.float64]
# Values (n, L) or (n, L, k) and their weights (n, L), or of all rows.
Nodes: TypeAlias = tuple[Array, Array]
NanPolicy: TypeAlias = Literal["raise", "omit", "propagate"]
RandomState: TypeAlias = int | np.random.Generator | None
