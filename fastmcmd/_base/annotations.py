"""Types of arguments that recur in public signatures."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

__all__ = ["NanPolicy", "RandomState"]

NanPolicy: TypeAlias = Literal["raise", "omit", "propagate"]
RandomState: TypeAlias = int | np.random.Generator | None
