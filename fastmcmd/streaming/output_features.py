"""Features of outputs that do not depend on data, so that sums of different rows can be added.

A radial kernel on numbers is a lattice of Gaussian bumps: with ``h = 0.274 / sqrt(g)`` and
``p_j(y) = (h sqrt(4 g / pi))^(1/2) exp(-2 g (y - j h)^2)``, ``sum_j p_j(y) p_j(y')`` is
``exp(-g (y - y')^2)`` to 1e-14 (Poisson's summation formula). The lattice has no ends; only the bumps that
outputs or predictions reach are computed. Any other kernel needs given landmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.cached import cached_property
from fastmcmd.backends import get_backend
from fastmcmd.embedding.expected import Expectation
from fastmcmd.embedding.quadrature import mean_features_by_nodes
from fastmcmd.embedding.sample import DrawnOutputs, Outputs, PredictedOutputs
from fastmcmd.errors import NumericalError
from fastmcmd.gram import KernelFeatures
from fastmcmd.inference.row_norms import mean_features
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import RBF, Constant, Delta, Kernel, Product, Sum
from fastmcmd.kernels.custom import examine_kernel
from fastmcmd.predictive import Draws, Predictive
from fastmcmd.predictive.expectation import closed_form, closed_form_rows, expected_kernel
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.solvers.rounding import bounded_residuals, factor_error

__all__ = ["GivenLandmarks", "Lattice", "OutputMap", "landmarks_of_outputs", "outputs_of"]

_STEP = 0.274  # step of the lattice, in units of 1 / sqrt(g)
_LATTICE_ERROR = 3e-14  # largest error of a kernel value on the lattice, relative to k(y, y)
_REACH = 17  # bumps on either side of an output; all others are below 1e-18 of the largest
_OUTPUT_LANDMARKS = 200
_MOST_BUMPS = 2_048
_WIDE_SHARE = 0.05  # most rows whose predictions may be wider than the bumps
_ROUNDING = 1e-12  # of squares of mean features, relative to k(y, y)
_BUMPS_PER_CALL = 64  # bumps of a call: their factor is treated as a full triangle
_GOAL = 1e-6  # target error of an embedding by quadrature
_TAILS = (1e-13, 1e-7, 1e-4)  # probability beyond the bumps, on either side of a prediction

Array = NDArray[np.float64]
Columns = NDArray[np.int64]


def outputs_of(prediction: Predictive, columns: int) -> Outputs:
    """Return predictions as `Outputs` of the embedding layer."""
    if isinstance(prediction, Draws):
        values = np.asarray(prediction.array, dtype=np.float64)
        return DrawnOutputs(values.reshape(len(prediction), -1, columns))
    return PredictedOutputs(prediction)


def landmarks_of_outputs(
    kernel: Kernel, outputs: Array, classes: int, random_state: object
) -> Array | None:
    """Return outputs (r, k) at which features of a kernel are exact; None if a lattice needs none.

    Parameters
    ----------
    kernel : Kernel
        Resolved output kernel.
    outputs : ndarray (n, k)
        Outputs from which at most 200 are chosen.
    classes : int
        Number of classes without an order; 0 for numbers.
    random_state : int or numpy.random.Generator
        Source of the choice.
    """
    if isinstance(kernel, Delta) and classes:
        return np.arange(classes, dtype=np.float64)[:, None]
    if outputs.shape[1] == 1 and Lattice.of(kernel) is not None:
        return None
    smoother = Smoother.of(kernel, outputs, _OUTPUT_LANDMARKS, random_state, "y_kernel")
    return np.asarray(smoother.features.pivots)


class OutputMap(ABC):
    """A map p from outputs to features, which columns (r, 2) address: the part of the kernel, the place."""

    kernel: Kernel
    dimension: int

    @abstractmethod
    def columns(self, y: Array, predictions: list[Predictive]) -> Columns:
        """Return the ordered columns (r, 2) that outputs (n, k) and predictions reach."""

    @abstractmethod
    def transform(self, y: Array, columns: Columns) -> Array:
        """Return p(y) (n, r) for outputs (n, k)."""

    @abstractmethod
    def expected(self, prediction: Predictive, columns: Columns) -> tuple[Array, Array, bool]:
        """Return ``E p(Y_i)`` (n, r), a bound (n,) on its residual and error, and whether it is proven."""

    @abstractmethod
    def residual(self, y: Array, columns: Columns) -> Array:
        """Return the residual norm (n,) of the features at outputs (n, k)."""


@dataclass(frozen=True, eq=False)
class Lattice(OutputMap):
    """Gaussian bumps for a sum of RBF kernels on numbers.

    Attributes
    ----------
    kernel : Kernel
        The sum of RBF kernels.
    parts : tuple of (float, float)
        gamma and factor of each RBF kernel.
    """

    kernel: Kernel
    parts: tuple[tuple[float, float], ...]
    dimension: int = 1

    @staticmethod
    def of(kernel: Kernel) -> Lattice | None:
        """Return the lattice of a kernel, or None if it is not a sum of RBF kernels."""
        parts = _rbf_parts(kernel, 1.0)
        return None if parts is None else Lattice(kernel, tuple(parts))

    def columns(self, y: Array, predictions: list[Predictive]) -> Columns:
        """Return the columns (r, 2) that outputs and predictions reach."""
        reaches = []
        for tail in _TAILS:
            ranges = [(y[:, 0], y[:, 0])]
            ranges += [_range_of(prediction, tail) for prediction in predictions]
            low, high = (np.concatenate(side) for side in zip(*ranges, strict=True))
            columns = self._columns_within(low, high)
            if columns is not None:
                return columns
            reaches.append((low, high))
        # A few predictions much wider than the kernel are nearly flat: `expected` bounds what is left out.
        narrow_first = np.argsort(high - low, kind="stable")  # first the outcomes
        left_out = 1
        while left_out <= _WIDE_SHARE * len(y):
            some = narrow_first[:-left_out]
            for low, high in reaches:
                columns = self._columns_within(low[some], high[some])
                if columns is not None:
                    return columns
            left_out *= 2
        raise NumericalError(
            f"y and the predictions span more than {_MOST_BUMPS:,} steps of the lattice of y_kernel "
            f"{self.kernel!r}; pass a wider kernel, rescaled outputs, or output_landmarks"
        )

    def _columns_within(self, low: Array, high: Array) -> Columns | None:
        """Return the columns (r, 2) that ranges of outputs reach; None if they are too many."""
        intervals = [_intervals(low, high, self._step(gamma)) for gamma, _ in self.parts]
        if sum(int((last - first + 1).sum()) for first, last in intervals) > _MOST_BUMPS:
            return None
        return np.array(
            [
                (part, place)
                for part, spans in enumerate(intervals)
                for first, last in zip(*spans, strict=True)
                for place in range(int(first), int(last) + 1)
            ],
            dtype=np.int64,
        )

    def transform(self, y: Array, columns: Columns) -> Array:
        """Return p(y) (n, r)."""
        out = np.empty((len(y), len(columns)))
        for some, gamma, scale, points in self._bumps(columns):
            gaps = y[:, :1] - points[:, 0]
            out[:, some] = scale * np.exp(-2 * gamma * gaps * gaps)
        return out

    def expected(self, prediction: Predictive, columns: Columns) -> tuple[Array, Array, bool]:
        """Return ``E p(Y_i)``, a bound on its residual and error, and whether it is proven."""
        out = np.empty((len(prediction), len(columns)))
        size = float(np.sqrt(sum(factor for _, factor in self.parts)))
        residual = np.full(len(out), np.sqrt(_LATTICE_ERROR) * size)
        finite = isinstance(prediction, Draws) or prediction.exact_nodes
        one = prediction.take(np.zeros(1, dtype=np.intp))
        exact = finite or closed_form(one, RBF(1.0), np.zeros((1, 1))) is not None
        for some, gamma, scale, points in self._bumps(columns):
            kernel = RBF(2 * gamma)
            if exact:
                out[:, some] = scale * expected_kernel(prediction, kernel, points)
                continue
            for start in range(0, len(some), _BUMPS_PER_CALL):
                block = slice(start, start + _BUMPS_PER_CALL)
                factor = np.eye(len(points[block])) / scale
                bumps = KernelFeatures(kernel, points[block], factor, get_backend("auto", kernel))
                out[:, some[block]], _, error = mean_features_by_nodes(bumps, prediction, _GOAL)
                residual += error
        if not finite:
            tails = self._tails_beyond(prediction, columns)
            residual += 2 * tails * size
            wide = np.flatnonzero(tails == 1)
            if exact and len(wide):
                residual[wide] = self._left_out(prediction.take(wide), out[wide])
        return out, residual, exact

    def _left_out(self, prediction: Predictive, mean: Array) -> Array:
        """Bound the norms (n,) of what mean features have beyond those at the columns, ``mean``."""
        size = float(sum(factor for _, factor in self.parts))
        squares = closed_form_rows(prediction, self.kernel, prediction)
        if squares is None:
            return np.full(len(mean), 2 * np.sqrt(size))
        # All columns of a row have the square E k(Y, Y'), up to the error of the lattice and rounding.
        left = squares - np.einsum("ij,ij->i", mean, mean)
        return np.asarray(np.sqrt(np.maximum(left, 0.0) + _ROUNDING * size))

    def residual(self, y: Array, columns: Columns) -> Array:
        """Return the residual norm (n,) of the features."""
        del columns
        size = float(np.sqrt(sum(factor for _, factor in self.parts)))
        return np.full(len(y), np.sqrt(_LATTICE_ERROR) * size)

    def _tails_beyond(self, prediction: Predictive, columns: Columns) -> Array:
        """Return the smallest tail probabilities (n,) whose quantiles lie within the columns, or 1."""
        tails = np.ones(len(prediction))
        for tail in _TAILS:
            low, high = _range_of(prediction, tail)
            fits = np.ones(len(tails), dtype=bool)
            for part, (gamma, _) in enumerate(self.parts):
                first, last = _ends_of(low, high, self._step(gamma))
                places = columns[columns[:, 0] == part, 1]
                count = np.searchsorted(places, last, "right") - np.searchsorted(places, first)
                fits &= count == last - first + 1
            tails = np.where(fits, np.minimum(tails, tail), tails)
            if fits.all():
                break
        return tails

    @staticmethod
    def _step(gamma: float) -> float:
        return _STEP / float(np.sqrt(gamma))

    def _bumps(self, columns: Columns) -> list[tuple[NDArray[np.intp], float, float, Array]]:
        """Return positions among the columns, gamma, height and centres (r', 1) of each part."""
        bumps = []
        for part, (gamma, factor) in enumerate(self.parts):
            some = np.flatnonzero(columns[:, 0] == part)
            step = self._step(gamma)
            height = float(np.sqrt(factor * step * np.sqrt(4 * gamma / np.pi)))
            bumps.append((some, gamma, height, columns[some, 1:].astype(np.float64) * step))
        return bumps


def _rbf_parts(kernel: Kernel, factor: float) -> list[tuple[float, float]] | None:
    """Return gamma and factor of each RBF kernel in a sum, or None if the kernel is not such a sum."""
    if isinstance(kernel, RBF) and isinstance(kernel.gamma, (int, float)):
        return [(float(kernel.gamma), factor)]
    if isinstance(kernel, Product):
        for one, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
            if isinstance(one, Constant):
                return _rbf_parts(other, factor * one.value)
    if isinstance(kernel, Sum):
        left, right = _rbf_parts(kernel.left, factor), _rbf_parts(kernel.right, factor)
        return None if left is None or right is None else left + right
    return None


def _range_of(prediction: Predictive, tail: float) -> tuple[Array, Array]:
    """Return the smallest and largest output (n,) of each row, up to a probability ``tail`` per side."""
    if isinstance(prediction, Draws):
        values = np.asarray(prediction.array, dtype=np.float64).reshape(len(prediction), -1)
        return values.min(axis=1), values.max(axis=1)
    levels = np.full((len(prediction), 1), tail)
    low = np.asarray(prediction.quantiles_at(levels), dtype=np.float64)[:, 0]
    high = np.asarray(prediction.upper_quantiles_at(levels), dtype=np.float64)[:, 0]
    return low, np.maximum(low, high)


def _ends_of(low: Array, high: Array, step: float) -> tuple[Array, Array]:
    """Return the first and last places (n,) of the bumps that each range reaches."""
    return np.floor(low / step) - _REACH, np.ceil(high / step) + _REACH


def _intervals(low: Array, high: Array, step: float) -> tuple[Array, Array]:
    """Return the first and last places (s,) of the disjoint runs of bumps that ranges reach."""
    first, last = _ends_of(low, high, step)
    if not (np.abs(first).max() < 2**52 and np.abs(last).max() < 2**52):
        raise NumericalError(
            f"y or a prediction is {max(abs(low).max(), abs(high).max()):.3g}, too large for a y_kernel "
            f"with lattice step {step:.3g}; rescale the outputs or pass output_landmarks"
        )
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(last[order])
    starts = np.flatnonzero(np.append(True, first[1:] > reach[:-1] + 1))
    return first[starts], reach[np.append(starts[1:], len(reach)) - 1]


@dataclass(frozen=True, eq=False)
class GivenLandmarks(OutputMap):
    """Features at given outputs (r, k), for any kernel."""

    kernel: Kernel
    points: Array

    @cached_property
    def features(self) -> KernelFeatures:
        """The features at the given outputs, without those that the others reproduce."""
        kernel = self.kernel
        examine_kernel(kernel, "y_kernel", self.points)
        search = LandmarkSearch(
            get_backend("auto", kernel), kernel, self.points, np.ones(len(self.points)),
            len(self.points), np.random.default_rng(0),
        )  # fmt: skip
        search.take_all()
        return search.kernel_features()

    @cached_property
    def _factor_error(self) -> float:
        return factor_error(self.features, 0.0)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Number of components of an output."""
        return int(self.points.shape[1])

    def columns(self, y: Array, predictions: list[Predictive]) -> Columns:
        """Return all columns."""
        del y, predictions
        places = np.arange(self.features.rank, dtype=np.int64)
        return np.stack([np.zeros_like(places), places], axis=1)

    def transform(self, y: Array, columns: Columns) -> Array:
        """Return p(y) (n, r)."""
        del columns
        return self.features.transform(y)

    def expected(self, prediction: Predictive, columns: Columns) -> tuple[Array, Array, bool]:
        """Return ``E p(Y_i)``, a bound on its residual and error, and whether it is proven."""
        del columns
        outputs = outputs_of(prediction, self.dimension)
        mean = mean_features(self.features, outputs)
        expectation = Expectation(self.features, prediction)
        estimate = expectation.of(prediction)
        return mean, estimate.residual + estimate.error + estimate.floor, expectation.rigorous

    def residual(self, y: Array, columns: Columns) -> Array:
        """Return the residual norm (n,) of the features."""
        del columns
        p = self.features.transform(y)
        return np.sqrt(bounded_residuals(self.features, y, p, self._factor_error))
