"""The chance part of a congruence error: its mean under a right model, excess over noise, support.

With the coefficients ``c_i(x)`` of the rows, ``CCE(x)^2 = |sum_i c_i(x) e_i|^2``. Its noise is
``sum_i c_i(x)^2 |e_i|^2``. The rest, the excess, is an unbiased estimate of
``sum_{i != j} c_i c_j <E e_i, E e_j>`` whatever the truth (a U-statistic), and may be negative. If the
model is right, CCE(x)^2 has the mean ``sum_i c_i(x)^2 V_i``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.backends.tall_skinny import (
    cholesky_factor,
    inner,
    row_squares,
    substituted,
    times,
)
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.gram import offset_of
from fastmcmd.inference.row_norms import row_norms
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import Kernel
from fastmcmd.result import LEAST_SUPPORT
from fastmcmd.rows import Rows

__all__ = ["Chance"]

Array = NDArray[np.float64]

_EXACT = 2_000  # distinct inputs up to which coefficients come from a dense factor
_OPERATIONS = (
    1e11  # of a product of the features with themselves; determines the number of landmarks
)
_LANDMARKS = 256, 1_000  # landmarks, at least and at most
_POINTS = 1 << 21  # coefficients in memory at once
_ROWS = 8_192  # rows whose features are in memory at once
_CHECK_POINTS = 200  # points at which the landmarks are halved
_QUICK = 600, 300  # inputs up to which `right_values` is exact, and its landmarks for more inputs
_SUPPORTED_ROWS = 100_000  # most rows whose support is computed for plots, in a few seconds
_SPREAD_ROWS, _SPREAD_DRAWS = 300, 20  # from which it estimates the number of noise directions
_SPREAD_RANK = 100  # rank of the features of those outcomes


@dataclass(frozen=True, eq=False)
class Chance:
    """The data behind the CCE at some points, from which its noise is computed on demand.

    It holds references to the arrays of the CCE, not copies.

    Attributes
    ----------
    nature, model : Sample
        Outcomes, and predictions at the same inputs.
    x_kernel, y_kernel : Kernel
        Resolved kernels.
    grid : ndarray (q, d) or Rows
        The points.
    exact : int or None
        Number of distinct inputs up to which coefficients are exact; None for 2,000.
    most : int or None
        Largest number of landmarks beyond; None takes as many as a few seconds allow.
    computed_norms : dict of ndarray (n,), optional
        `norms` of the same rows, if they are known already.
    """

    nature: Sample
    model: Sample
    x_kernel: Kernel
    y_kernel: Kernel
    grid: Any
    exact: int | None = None
    most: int | None = None
    computed_norms: dict[str, Array] | None = None

    @property
    def reason(self) -> str:
        """The reason why the noise cannot be computed; "" if it can."""
        if isinstance(self.nature.x, Rows) or isinstance(self.grid, Rows):
            return "the inputs are on disk or on a device; it needs them in memory, as NumPy arrays"
        return ""

    def at(self, grid: object) -> Chance:
        """Return the same data with other points."""
        return replace(self, grid=grid)

    @property
    def noise(self) -> Array:
        """``sum_i c_i^2 |e_i|^2`` (q,)."""
        return self._sums["errors"]

    @property
    def null_mean(self) -> Array:
        """``sum_i c_i^2 V_i`` (q,): the mean of CCE^2 if the model is right."""
        if "variances" not in self._sums:
            raise ValueError(
                "null_mean needs the spread of the prediction, and one draw a row has none; give the "
                "distribution itself with draws=None, or at least two draws"
            )
        return self._sums["variances"]

    @property
    def effective_rows(self) -> Array:
        """``(c(x)'k(x) / k(x, x))^2 / sum_i c_i(x)^2`` (q,), 0 if k(x, x) is 0; outputs have no effect."""
        return self._coefficient_sums["effective"]

    @property
    def landmarks(self) -> int:
        """Number of landmarks of the approximation; 0 if coefficients are exact."""
        return 0 if self._exact else int(self._coefficient_sums["landmarks"][0])

    @property
    def approximation(self) -> float:
        """Relative change of ``sum_i c_i^2`` when the landmarks are halved (a median); 0 if exact.

        It shows the order of the error that the landmarks cause in the noise, but does not bound it.
        """
        return 0.0 if self._exact else float(self._coefficient_sums["change"][0])

    @property
    def _exact(self) -> bool:
        return len(self.nature.design) <= (_EXACT if self.exact is None else self.exact)

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Mask of points with support (q,): at least 5 `effective_rows`; by 300 landmarks for many rows."""
        return np.asarray(replace(self, most=_QUICK[1]).effective_rows >= LEAST_SUPPORT)

    @property
    def quick_support(self) -> NDArray[np.bool_] | None:
        """`supported`; None if it is not known, or would take more than a few seconds."""
        if self.reason or max(len(self.nature.x), len(self.grid)) > _SUPPORTED_ROWS:
            return None
        return self.supported

    def right_values(self, points: NDArray[np.intp]) -> Array:
        """Return the mean CCE (p,) of a right model at some points, within a few per cent.

        The square root of `null_mean` is larger: under a right model CCE^2 is a sum of squares in about
        ``1 / t`` directions, where t is the trace of the squared covariance of the noise over its squared
        trace. The mean of the root is taken as that of a chi distribution (Satterthwaite).
        """
        quick = replace(
            self, grid=self.grid[points], exact=_QUICK[0], most=_QUICK[1], computed_norms=self.norms
        )
        return np.asarray(self._chi_ratio() * np.sqrt(np.maximum(quick.null_mean, 0.0)))

    @property
    def right_deviations(self) -> Array:
        """Standard deviation (q,) of the CCE of a right model at each point: that of a chi distribution."""
        spread = math.sqrt(max(0.0, 1.0 - self._chi_ratio() ** 2))
        return np.asarray(spread * np.sqrt(np.maximum(self.null_mean, 0.0)))

    def _chi_ratio(self) -> float:
        """Return the mean of the CCE of a right model relative to the root of the mean of its square."""
        half = 0.5 / self._concentration()
        log_ratio = scipy.special.gammaln(half + 0.5) - scipy.special.gammaln(half)
        return float(np.exp(log_ratio) / np.sqrt(half))

    def _concentration(self) -> float:
        """Return ``tr C^2 / (tr C)^2`` for the covariance C of the outcomes that the model predicts."""
        outputs = self.model.outputs
        n = len(outputs.values if isinstance(outputs, DrawnOutputs) else outputs.prediction)
        some = np.unique(np.linspace(0, n - 1, min(n, _SPREAD_ROWS)).astype(np.intp))
        part = outputs.take(some)
        if isinstance(part, DrawnOutputs):
            outcomes = np.asarray(part.values[:, :_SPREAD_DRAWS], dtype=np.float64)
        else:
            rng = generator(n, Purpose.CHANCE)
            outcomes = np.asarray(part.prediction.sample(_SPREAD_DRAWS, rng), dtype=np.float64)
        rows, draws = outcomes.shape[:2]
        flat = outcomes.reshape(rows * draws, -1)
        features = Smoother.of(self.y_kernel, flat, _SPREAD_RANK).transform(flat)
        features = features.reshape(rows, draws, -1)
        noise = (features - features.mean(axis=1, keepdims=True)).reshape(rows * draws, -1)
        covariance = inner(noise, noise)
        trace = float(np.trace(covariance))
        return float(np.sum(covariance**2)) / trace**2 if trace > 0 else 1.0

    @cached_property
    def norms(self) -> dict[str, Array]:
        """``|e_i|^2`` ("errors") and, if known, ``V_i`` ("variances") of the rows."""
        if self.computed_norms is not None:
            return self.computed_norms
        outcomes = self.nature.outputs.values[:, 0]  # type: ignore[union-attr]
        errors, variances = row_norms(self.y_kernel, outcomes, self.model.outputs)
        by_name = {"errors": errors}
        return by_name if variances is None else {**by_name, "variances": variances}

    @cached_property
    def _sums(self) -> dict[str, Array]:
        """Sums over rows that need the norms of output embeddings, and `_coefficient_sums`."""
        return self._summed(self.norms)

    @cached_property
    def _coefficient_sums(self) -> dict[str, Array]:
        """Sums over rows that depend on the inputs alone; they need no norms."""
        return self._sums if "_sums" in vars(self) else self._summed({})

    def _summed(self, values: dict[str, Array]) -> dict[str, Array]:
        """Return ``sum_i c_i^2 v_i`` (q,) for values (n,) of the rows, effective rows, and landmarks."""
        if self.reason:
            raise ValueError(f"what a right model would have is not known: {self.reason}")
        return self._by_dense_factor(values) if self._exact else self._by_landmarks(values)

    def _by_dense_factor(self, values: dict[str, Array]) -> dict[str, Array]:
        """Return sums over rows with coefficients from a dense Cholesky factor, in blocks of points."""
        design = self.nature.design
        x = np.asarray(design.x, dtype=np.float64)
        grid = np.asarray(self.grid, dtype=np.float64)
        backend = get_backend("auto", self.x_kernel).directly()
        offset = offset_of(self.x_kernel, backend, x)
        rows_of_x = backend.points(x, np.float64, offset)
        system = np.asarray(backend.gram(self.x_kernel, rows_of_x))
        system[np.diag_indices(len(x))] += self.nature.shift
        factor = cholesky_factor(system)
        del system
        n = len(x) if design.group is None else len(design.group)
        rows = {"ones": np.ones(n), **values}
        shares = {name: _squared_shares(design, value) for name, value in rows.items()}
        stacked = np.stack(list(shares.values()), axis=1)
        sums = {name: np.empty(len(grid)) for name in shares}
        explained = np.empty(len(grid))
        step = max(1, _POINTS // len(x))
        for start in range(0, len(grid), step):
            some = slice(start, start + step)
            k = backend.gram(
                self.x_kernel, rows_of_x, backend.points(grid[some], np.float64, offset)
            )
            a = _solved(factor, k)
            explained[some] = np.einsum("gq,gq->q", a, k)
            np.square(a, out=a)
            for name, total in zip(shares, inner(stacked, a), strict=True):
                sums[name][some] = total
        return self._with_support(sums, explained)

    def _by_landmarks(self, values: dict[str, Array]) -> dict[str, Array]:
        """Return sums over rows as quadratic forms at landmarks: ``c_i = w_i f_i'z(x)``."""
        nature = self.nature
        design_rows = nature.design.rows
        x = np.asarray(nature.x if design_rows is None else nature.x[design_rows])
        weight = (
            nature.weights
            if design_rows is None or nature.weights is None
            else nature.weights[design_rows]
        )
        n = len(x)
        most = self.most or int(np.clip(np.sqrt(_OPERATIONS / n), *_LANDMARKS))
        smoother = Smoother.of(self.x_kernel, x, most)
        rows = {"ones": np.ones(n), **values}
        rank = smoother.rank
        gram, moments = np.zeros((rank, rank)), {name: np.zeros((rank, rank)) for name in rows}
        if weight is None:
            moments["ones"] = gram
        summed = {name: value for name, value in rows.items() if moments[name] is not gram}
        for start in range(0, n, _ROWS):
            some = slice(start, start + _ROWS)
            f = smoother.transform(x[some])
            w = np.ones(len(f)) if weight is None else weight[some]
            root = f if weight is None else np.sqrt(w)[:, None] * f
            gram += inner(root, root)
            for name, value in summed.items():
                moments[name] += inner(f, f, scale=w**2 * value[some])
        shift = nature.lam * float(n if weight is None else weight.sum())

        def forms(points: Array, names: Any, rank: int) -> dict[str, Array]:
            f = smoother.transform(points)[:, :rank]
            system = gram[:rank, :rank] + shift * np.eye(rank)
            z = np.ascontiguousarray(_solved(cholesky_factor(system), f.T).T)
            sums = {
                name: np.einsum("qp,qp->q", z, times(z, moments[name][:rank, :rank]))
                for name in names
            }
            sums["explained"] = row_squares(f) - shift * np.einsum("qp,qp->q", f, z)
            return sums

        grid = self.grid
        blocks = [
            forms(grid[start : start + _ROWS], rows, rank) for start in range(0, len(grid), _ROWS)
        ]
        sums = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        estimates = self._with_support(sums, sums.pop("explained"))
        check_points = np.unique(np.linspace(0, len(grid) - 1, _CHECK_POINTS).astype(np.intp))
        halved = forms(grid[check_points], ["ones"], max(1, rank // 2))["ones"]
        change = np.abs(halved / np.maximum(sums["ones"][check_points], 1e-300) - 1)
        estimates["landmarks"] = np.array([float(rank)])
        estimates["change"] = np.array([float(np.median(change))])
        return estimates

    def _with_support(self, sums: dict[str, Array], explained: Array) -> dict[str, Array]:
        diagonal = np.asarray(self.x_kernel.diagonal(self.grid), dtype=np.float64)
        squares = sums.pop("ones")
        share = np.divide(explained, diagonal, out=np.zeros(len(squares)), where=diagonal > 0)
        sums["effective"] = np.divide(
            share**2, squares, out=np.zeros(len(squares)), where=squares > 0
        )
        sums["ones"] = squares
        return sums


def _solved(factor: Array, b: Array) -> Array:
    """Return ``L'^-1 L^-1 b`` (p, q) for a lower triangular L (p, p)."""
    return substituted(factor, substituted(factor, b), transposed=True)


def _squared_shares(design: Any, values: Array) -> Array:
    """Return ``sum_i (w_i / w_g)^2 v_i`` (g,) over the rows of each distinct input."""
    weight = np.ones(len(values)) if design.row_weight is None else design.row_weight
    if design.group is None:
        return values
    share = (weight / design.weight[design.group]) ** 2 * values
    return np.asarray(
        np.bincount(design.group, weights=share, minlength=len(design.weight)), dtype=np.float64
    )
