"""Sliding windows: the last batches of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from numpy.typing import ArrayLike

from fastmcmd._base.checks import check_count, check_instance, check_positive
from fastmcmd.kernels.base import EPS
from fastmcmd.streaming.congruence import CCE, ModelsLike
from fastmcmd.streaming.congruence_estimate import CongruenceEstimate, rounding_of

__all__ = ["SlidingWindow"]


class SlidingWindow:
    """The last batches of a stream: the oldest batch is subtracted when a new one comes.

    Parameters
    ----------
    accumulator : CCE
        Source of settings and landmarks; its rows do not count.
    batches : int
        Number of batches in the window.
    tolerance : float
        Relative level of rounding beyond which the sums are renewed: added up again from the batches.

    Attributes
    ----------
    total : CCE
        Accumulator of the rows in the window.
    renewals : int
        How often the sums were renewed.

    Notes
    -----
    The memory is that of ``batches + 1`` accumulators. A window of batches of equal weight is renewed about
    every ``tolerance lam / eps`` times its length: at 1e-9 and lam = 0.01, every 45,000 times.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> blank = fm.streaming.CCE(fm.RBF(0.5), fm.RBF(0.5), np.linspace(-3, 3, 20))
    >>> window = fm.streaming.SlidingWindow(blank, 3)
    >>> for _ in range(10):
    ...     x = rng.normal(size=100)
    ...     _ = window.update(x, x + rng.normal(size=100), fm.Gaussian(x, 1.0))
    >>> window.compute().rows
    300
    """

    def __init__(self, accumulator: CCE, batches: int, tolerance: float = 1e-9) -> None:
        check_instance(accumulator, "accumulator", CCE, "a fastmcmd.streaming.CCE")
        self.batches = check_count(batches, "batches", least=1)
        self.tolerance = check_positive(tolerance, "tolerance")
        self.total, self.renewals = accumulator.fresh(), 0
        self._parts: deque[CCE] = deque()

    def update(
        self,
        x: ArrayLike,
        y: ArrayLike,
        prediction: ModelsLike,
        sample_weight: ArrayLike | None = None,
    ) -> SlidingWindow:
        """Add a batch as in `CCE.update`, and drop the oldest if there are too many."""
        part = self.total.fresh().update(x, y, prediction, sample_weight)
        self.total.merge(part)
        self._parts.append(part)
        if len(self._parts) > self.batches:
            self.total.subtract(self._parts.popleft())
        state = self.total._state
        if state is not None and rounding_of(state, self.total.settings["lam"]) > max(
            self.tolerance, 2 * EPS / self.total.settings["lam"]
        ):
            self.renew()
        return self

    def renew(self) -> None:
        """Recompute the sums from the batches in the window."""
        self.total = self.total.fresh()
        for part in self._parts:
            self.total.merge(part)
        self.renewals += 1

    @property
    def parts(self) -> tuple[CCE, ...]:
        """The accumulators of the batches in the window, the oldest first."""
        return tuple(self._parts)

    def restore(self, total: CCE, parts: Sequence[CCE]) -> None:
        """Replace the sums by those of a saved window."""
        self.total, self._parts = total, deque(parts)

    def compute(self) -> CongruenceEstimate | dict[str, CongruenceEstimate]:
        """Return the estimate of the rows in the window."""
        return self.total.compute()
