"""The state of block CG between two products, and how it is written down as arrays.

Only this module knows the layout of the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.checkpoint import State

__all__ = ["BlockState", "CGResult", "ColumnState"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CGResult:
    """Solution (n, r), its recurred residual (n, r) and what it took.

    Attributes
    ----------
    value, residual : ndarray (n, r)
        Solution, and the residual that the recurrence left.
    iterations : int
        Products.
    converged : bool
        Whether the target was reached, or the products are not exact enough for more (``short``).
    short : bool
        Whether it ended above the target because of the rounding of the products; a run on a residual of
        exact ones may go on.
    largest : float
        Largest eigenvalue that was seen.
    indefinite : bool
        Whether it ended because the preconditioner is not positive definite.
    """

    value: Array
    residual: Array
    iterations: int
    converged: bool
    short: bool = False
    largest: float = 0.0
    indefinite: bool = False


@dataclass(frozen=True, eq=False)
class ColumnState:
    """The state of one system between two products, in the scaled variables.

    Attributes
    ----------
    solution, residual : ndarray (n, r)
        Iterate and recurred residual.
    directions : ndarray (n, k)
        What K is to be multiplied with next.
    iterations, since_best : int
        Products so far, and since the residual was halved.
    best, norm, largest : float
        Residual norm when it was halved, the present one, and the largest eigenvalue seen.
    first, first_image : ndarray or None
        First block of directions and its image; None before the first product.
    """

    solution: Array
    residual: Array
    directions: Array
    iterations: int
    since_best: int
    best: float
    norm: float
    largest: float
    first: Array | None = None
    first_image: Array | None = None


@dataclass(frozen=True, eq=False)
class BlockState:
    """The state of all systems between two products.

    Attributes
    ----------
    passes : int
        Products with K so far.
    running : dict of int to ColumnState
        Systems that iterate, by their numbers.
    results : dict of int to CGResult
        Systems that have ended.
    """

    passes: int
    running: dict[int, ColumnState]
    results: dict[int, CGResult]

    @property
    def norm(self) -> float | None:
        """Largest residual norm of the systems that iterate; None where all have ended."""
        return max((state.norm for state in self.running.values()), default=None)

    def arrays(self) -> State:
        """Return the state as arrays by name."""
        arrays: State = {"passes": np.array(self.passes)}
        for index, state in self.running.items():
            numbers = [state.iterations, state.since_best, state.best, state.norm, state.largest]
            own = {
                "solution": state.solution,
                "residual": state.residual,
                "directions": state.directions,
                "numbers": np.array(numbers),
            }
            if state.first is not None and state.first_image is not None:
                own |= {"first": state.first, "first_image": state.first_image}
            arrays |= {f"{index}.{name}": array for name, array in own.items()}
        for index, result in self.results.items():
            counts = [result.iterations, result.converged, result.short, result.largest]
            arrays[f"{index}.value"] = result.value
            arrays[f"{index}.residual"] = result.residual
            arrays[f"{index}.numbers"] = np.array(counts)
        return arrays

    @staticmethod
    def of_arrays(arrays: State) -> BlockState:
        """Return the state that `arrays` wrote down."""
        running: dict[int, ColumnState] = {}
        results: dict[int, CGResult] = {}
        for name in arrays:
            start, _, what = name.partition(".")
            if what != "numbers":
                continue
            own = {key: arrays.get(f"{start}.{key}") for key in _NAMES}
            if own["value"] is not None:
                results[int(start)] = _result_of(own)
            else:
                running[int(start)] = _column_state_of(own)
        return BlockState(int(arrays["passes"]), running, results)


_NAMES = (
    "value", "residual", "numbers", "solution", "directions", "first", "first_image",
)  # fmt: skip


def _column_state_of(arrays: dict[str, Any]) -> ColumnState:
    iterations, since_best, best, norm, largest = map(float, arrays["numbers"])
    return ColumnState(
        arrays["solution"], arrays["residual"], arrays["directions"], int(iterations),
        int(since_best), best, norm, largest, arrays["first"], arrays["first_image"],
    )  # fmt: skip


def _result_of(arrays: dict[str, Any]) -> CGResult:
    iterations, converged, short, largest = map(float, arrays["numbers"])
    # Row-major, as a run makes them, so that sums over them run in the same order.
    value, residual = (np.ascontiguousarray(arrays[name]) for name in ("value", "residual"))
    return CGResult(value, residual, int(iterations), bool(converged), bool(short), largest)
