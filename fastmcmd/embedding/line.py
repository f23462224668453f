"""Features of sums of RBF kernels on the line, for predictions that are wide relative to the kernel.

``exp(-gamma (y - z)^2)`` is, up to a constant, the L2 inner product of two bumps
``exp(-2 gamma (t - y)^2)`` around y and z. The embedding of a distribution is its density smoothed by that
bump. The features are the coefficients of bumps and of smoothed densities in Legendre polynomials on panels
of the line: short panels near outputs, long ones in the tails, where smoothed densities vary slowly. Pivots
would have to cover the tails at the spacing of the kernel's width.

Memory: the result (n, r), the densities of the predictions that choose the panels (200 bytes for each panel
of a density, about 30 panels for a prediction), and at most 30 MB for the blocks of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.embedding.bumps import project, smooth
from fastmcmd.embedding.densities import (
    REACH,
    PanelDensities,
    Parametric,
    has_panels,
    is_parametric,
    parts_of,
)
from fastmcmd.embedding.interpolation import InterpolatedMeans, integration_sites
from fastmcmd.kernels import RBF, Constant, Kernel, Product, Sum
from fastmcmd.kernels.base import UNIT
from fastmcmd.predictive import Predictive, ScipyPredictive, Truncated
from fastmcmd.predictive.family import Family

__all__ = [
    "LineFeatures",
    "RowMeans",
    "bumps_of",
    "common_line_features",
    "line_features",
    "line_means",
    "serves_on_line",
]

# Expected features (b, r) of rows, and their errors (b,).
RowMeans = Callable[[NDArray[np.intp]], tuple[Array, Array]]

Mixture: TypeAlias = list[tuple[Array, PanelDensities]]  # weights (n,), densities

_TERMS = 16
_SHORT = (
    3.0  # length of panels near outputs, in 1 / sqrt(2 gamma): 16 terms are exact to 1e-7 in norm
)
_PLACES, _SHARES = gauss_legendre(_TERMS)
_DEGREES = np.arange(_TERMS)
# Matrix from values at the nodes to coefficients of orthonormal polynomials on a panel of length 1.
_TO_FEATURES = (
    np.polynomial.legendre.legvander(_PLACES, _TERMS - 1)
    * np.sqrt(2 * _DEGREES + 1)
    * _SHARES[:, None]
    / 2
)
_SOME = 200  # predictions whose smoothed densities choose the panels
_MOST = 4000  # features
_MOST_PANELS = 2000  # panels of a kernel; most of them have negligible features
_PANELS = 4  # total error of a prediction, in units of the error allowed on a panel
_HALVINGS = 200
_ROUNDS = 4  # rounds that add rows with unresolved densities to those that choose the panels
_FLOOR = 1e-12
_LONGER = 8.0  # ratio to a density's panel up to which none fits between two of 16 nodes
_LOOKED_AT, _OF_PANEL = 4000, 8  # outputs at which features are looked for: of all, and of a panel
_LIGHT = 1e-2  # share of the goal: mass of a negligible panel
_DENSITY = 0.05  # share of the goal: error of a panel of a density
_ROWS = 500  # predictions whose densities are in memory at once
_BLOCK = 1 << 19  # features, on all panels, of a block of rows: about six such arrays at a time


@dataclass(frozen=True, eq=False)
class LineFeatures:
    """The map p from numbers, or distributions of numbers, to R^r.

    Attributes
    ----------
    kernel : Kernel
        The resolved kernel: a sum of multiples of RBF kernels and constants.
    panels : list of (ndarray (p,), ndarray (p,))
        Ends of the panels of each RBF kernel, ascending.
    selected : ndarray (r,)
        Indices of the features in use, among the constant and the coefficients on all panels.
    """

    kernel: Kernel
    panels: list[tuple[Array, Array]]
    selected: NDArray[np.intp]

    @staticmethod
    def on(kernel: Kernel, panels: list[tuple[Array, Array]]) -> LineFeatures:
        """Return all features on panels, of each RBF kernel in the sum.

        Raises
        ------
        ValueError
            The kernel is of another kind, or the panels are for another number of RBF kernels.
        """
        bumps = bumps_of(kernel)
        if bumps is None or len(bumps[1]) != len(panels):
            raise ValueError(f"panels for {len(panels)} RBF kernels do not serve {kernel!r}")
        count = 1 + _TERMS * sum(len(low) for low, _ in panels)
        return LineFeatures(kernel, panels, np.arange(count))

    @property
    def rank(self) -> int:
        """Number of features r."""
        return len(self.selected)

    @property
    def narrowest(self) -> float:
        """Width of the narrowest bump: ``exp(-(y / width)^2)``."""
        parts = _checked_features(bumps_of(self.kernel))[1]
        return float(1.0 / np.sqrt(2.0 * max(gamma for _, gamma in parts)))

    def transform(self, y: HostArray) -> Array:
        """Return p(y) (n, r) for outputs (n, 1): projections of bumps."""
        constant, parts = _checked_features(bumps_of(self.kernel))
        numbers = np.ascontiguousarray(y[:, 0], dtype=np.float64)
        out = np.empty((len(y), self.rank))
        for rows in self._blocks(len(y)):
            all_features = [np.full((len(numbers[rows]), 1), np.sqrt(constant))]
            for (weight, gamma), (low, high) in zip(parts, self.panels, strict=True):
                features = project(numbers[rows], low, high, float(np.sqrt(2 * gamma)), _TERMS)
                features *= np.sqrt(weight) * _unit(gamma)
                all_features.append(features.reshape(len(features), -1))
            out[rows] = np.concatenate(all_features, axis=1)[:, self.selected]
        return out

    def residuals(self, y: HostArray, p: Array) -> Array:
        """Return ``k(y, y) - |p(y)|^2`` (n,), not below zero, plus a bound on rounding."""
        diagonal = np.asarray(self.kernel.diagonal(y), dtype=np.float64)
        gap = np.maximum(diagonal - np.einsum("ij,ij->i", p, p), 0.0)
        return np.asarray(gap + 64 * UNIT * diagonal)

    def expected(self, prediction: Predictive, goal: float) -> tuple[Array, Array]:
        """Return expected features (n, r), and estimates of their errors (n,).

        The error of the densities is far below ``goal``.
        """
        constant, parts = _checked_features(bumps_of(self.kernel))
        n = len(prediction)
        mean, error = np.empty((n, self.rank)), np.empty(n)
        for rows in self._blocks(n):
            mixture = _mixture(self.kernel, prediction.take(np.arange(rows.start, rows.stop)), goal)
            out, square = [np.full((rows.stop - rows.start, 1), np.sqrt(constant))], 0.0
            for (weight, gamma), (low, high) in zip(parts, self.panels, strict=True):
                features = _coefficients(mixture, gamma, low, high)
                unresolved = np.sqrt(_unresolved(features).sum(axis=1))
                square = square + weight * (unresolved + _miss(mixture, gamma)) ** 2
                out.append(np.sqrt(weight) * features.reshape(len(features), -1))
            features = np.concatenate(out, axis=1)
            mean[rows] = features[:, self.selected]
            features[:, self.selected] = 0.0
            left_out = np.einsum("ij,ij->i", features, features)
            light = sum(_light(share, densities, goal) for share, densities in mixture)
            error[rows] = np.sqrt(square) + np.sqrt(left_out) + light + _FLOOR
        return mean, error

    def without(
        self, goal: float, predictions: Sequence[Predictive], outputs: Array
    ) -> LineFeatures:
        """Return the features without those that are negligible in predictions and at outputs (u,).

        Of many outputs, which are ascending, some of each panel are looked at.
        """
        outputs = _representatives(outputs, self.panels)
        largest = np.zeros(self.rank)
        for prediction in predictions:
            for rows in self._blocks(len(prediction)):
                part = prediction.take(np.arange(rows.start, rows.stop))
                largest = np.maximum(largest, np.abs(self.expected(part, goal)[0]).max(axis=0))
        for rows in self._blocks(len(outputs)):
            p = self.transform(outputs[rows][:, None])
            largest = np.maximum(largest, np.abs(p).max(axis=0))
        order = np.argsort(largest, kind="stable")
        dropped = order[np.cumsum(largest[order] ** 2) <= goal**2]
        return replace(self, selected=np.setdiff1d(self.selected, self.selected[dropped]))

    def _blocks(self, n: int) -> list[slice]:
        count = 1 + _TERMS * sum(len(low) for low, _ in self.panels)
        return row_blocks(n, min(_ROWS, _BLOCK // count))


def bumps_of(kernel: Kernel) -> tuple[float, list[tuple[float, float]]] | None:
    """Return a kernel ``c + sum a exp(-gamma (y - z)^2)`` as c and the pairs (a, gamma), or None."""
    match kernel:
        case Constant(value=value):
            return value, []
        case RBF(gamma=float() as gamma):
            return 0.0, [(1.0, gamma)]
        case Sum(left=left, right=right):
            one, other = bumps_of(left), bumps_of(right)
            if one is None or other is None:
                return None
            return one[0] + other[0], one[1] + other[1]
        case (
            Product(left=part, right=Constant(value=value))
            | Product(left=Constant(value=value), right=part)
        ):
            inner = bumps_of(part)
            if inner is None:
                return None
            return value * inner[0], [(value * a, gamma) for a, gamma in inner[1]]
    return None


def serves_on_line(kernel: Kernel, prediction: Predictive) -> bool:
    """Tell whether the kernel is a sum of RBF kernels, and the predictions are densities of numbers."""
    bumps = bumps_of(kernel)
    return bumps is not None and bool(bumps[1]) and has_panels(prediction)


def line_features(
    kernel: Kernel, outputs: Array, prediction: Predictive, goal: float
) -> tuple[LineFeatures, Array, Array] | None:
    """Return features, the expected features of predictions (n, r), and their errors (n,).

    Returns None if there are too many features, or quantiles of predictions lie beyond float64.

    Parameters
    ----------
    kernel : Kernel
        Resolved output kernel for which `serves_on_line` is true.
    outputs : ndarray (u,)
        Drawn outputs of the other sample, ascending.
    prediction : Predictive
        All n predictions.
    goal : float
        Target error of an embedding.
    """
    common = common_line_features(kernel, outputs, [prediction], goal)
    if common is None:
        return None
    features, (mean,), (error,) = common
    return features, mean, error


def common_line_features(
    kernel: Kernel, outputs: Array, predictions: Sequence[Predictive], goal: float
) -> tuple[LineFeatures, list[Array], list[Array]] | None:
    """Return the results of `line_features` on panels that several models' predictions share."""
    on_panels = line_means(kernel, outputs, predictions, goal)
    if on_panels is None:
        return None
    features, means = on_panels
    expected = [mean(np.arange(len(one))) for mean, one in zip(means, predictions, strict=True)]
    return features, [mean for mean, _ in expected], [error for _, error in expected]


def line_means(
    kernel: Kernel, outputs: Array, predictions: Sequence[Predictive], goal: float
) -> tuple[LineFeatures, list[RowMeans]] | None:
    """Return features on panels, and for each model a function of rows, as `line_features` computes them.

    The functions return the expected features (b, r) of rows, and their errors (b,).
    """
    sites = [integration_sites(one, kernel, goal) for one in predictions]
    # Panels that serve the sites serve the predictions between them.
    parts: list[Sequence[Predictive]] = [
        [one] if some is None else some for one, some in zip(predictions, sites, strict=True)
    ]
    result = _features_of_all(kernel, outputs, [part for some in parts for part in some], goal)
    if result is None:
        return None
    features, expected = result
    means, start = list[RowMeans](), 0
    for one, some in zip(predictions, sites, strict=True):
        if some is None:
            means.append(_in_memory(*expected[start]))
            start += 1
            continue
        of_sites = expected[start : start + len(some)]
        means.append(_interpolated(features, one, goal, list(zip(some, of_sites, strict=True))))
        start += len(some)
    return features, means


def _in_memory(mean: Array, error: Array) -> RowMeans:
    """Return a function of rows that takes them from arrays, all of them without a copy."""

    def of(rows: NDArray[np.intp]) -> tuple[Array, Array]:
        return (mean, error) if _are_all(rows, len(mean)) else (mean[rows], error[rows])

    return of


def _are_all(rows: NDArray[np.intp], n: int) -> bool:
    """Tell whether rows are all n, in their order."""
    return len(rows) == n and bool((rows == np.arange(n)).all())


def _interpolated(
    features: LineFeatures,
    prediction: Predictive,
    goal: float,
    sites: list[tuple[Parametric, tuple[Array, Array]]],
) -> RowMeans:
    """Return the expected features of many predictions, and estimates of their errors, as of rows.

    ``sites`` holds predictions with their expected features and errors, which are not integrated again.
    """
    places = {
        key: (number, row)
        for number, (one, _) in enumerate(sites)
        for row, key in enumerate(_keys(one))
    }

    def integrals(some: Predictive) -> tuple[Array, Array, Array]:
        mean, error = np.empty((len(some), features.rank)), np.empty(len(some))
        unknown = []
        keys = _keys(some) if places and is_parametric(some) else [b""] * len(some)
        for row, key in enumerate(keys):
            if key not in places:
                unknown.append(row)
                continue
            number, place = places[key]
            of_site = sites[number][1]
            mean[row], error[row] = of_site[0][place], of_site[1][place]
        if unknown:
            mean[unknown], error[unknown] = features.expected(some.take(np.array(unknown)), goal)
        return mean, np.zeros(len(error)), error

    means = InterpolatedMeans.of_all(prediction, features.kernel, integrals, goal)
    places.clear()
    sites.clear()
    if means is None:
        return _in_memory(*features.expected(prediction, goal))

    def of(rows: NDArray[np.intp]) -> tuple[Array, Array]:
        is_whole = _are_all(rows, len(prediction))
        mean, _, error = means.of(prediction if is_whole else prediction.take(rows))
        return mean, error

    return of


def _keys(prediction: Parametric) -> list[bytes]:
    """Return bytes that are the same for equal distributions alone."""
    family = prediction.base if isinstance(prediction, Truncated) else prediction
    name = type(family).__name__
    if isinstance(family, ScipyPredictive) and not isinstance(family, Family):
        name = str(family.frozen.dist.name)
    return [name.encode() + row.tobytes() for row in prediction.coordinates]


def _features_of_all(
    kernel: Kernel, outputs: Array, predictions: Sequence[Predictive], goal: float
) -> tuple[LineFeatures, list[tuple[Array, Array]]] | None:
    """Return features, with the expected features of predictions and their errors; None if too many."""
    parts = _checked_features(bumps_of(kernel))[1]
    rows = [_spaced_rows(len(one)) for one in predictions]
    scales = [_scales(kernel, one, goal) for one in predictions]
    ends, lengths = (np.concatenate(values) for values in zip(*scales, strict=True))
    if not (np.isfinite(ends).all() and np.isfinite(lengths).all()):
        return None
    order = np.argsort(ends, kind="stable")
    ends, lengths = ends[order], lengths[order]
    panels: list[tuple[Array, Array]] = []
    for _ in range(_ROUNDS):
        some = [one.take(index) for one, index in zip(predictions, rows, strict=True)]
        mixtures = [_mixture(kernel, one, goal) for one in some]
        panels = panels or [_all(outputs, ends, part[1]) for part in parts]
        for number, (weight, gamma) in enumerate(parts):
            limit = goal / np.sqrt(weight)
            halved = _halved(*panels[number], outputs, mixtures, (ends, lengths), gamma, limit)
            if halved is None:
                return None
            panels[number] = halved
        features = LineFeatures.on(kernel, panels)
        features = features.without(goal, some, outputs)
        if features.rank > _MOST:
            return None
        expected = [features.expected(one, goal) for one in predictions]
        complete = True
        for model, (_, error) in enumerate(expected):
            short = np.flatnonzero(error > _PANELS * goal)
            short = np.setdiff1d(short[np.argsort(-error[short])][:_SOME], rows[model])
            complete = complete and not len(short)
            rows[model] = np.union1d(rows[model], short)
        if complete:
            break
    return features, expected


def _representatives(ascending: Array, panels: list[tuple[Array, Array]]) -> Array:
    """Return some numbers of many: evenly over their ranks, and over the ranks on each panel."""
    n = len(ascending)
    if n <= 2 * _LOOKED_AT:
        return ascending
    places = [np.linspace(0, n - 1, _LOOKED_AT)]
    for low, high in panels:
        first, last = (np.searchsorted(ascending, ends) for ends in (low, high))
        places.append(np.linspace(first - 1, last, _OF_PANEL).ravel())
    ranks = np.clip(np.concatenate(places).astype(np.intp), 0, n - 1)
    return np.asarray(ascending[np.unique(ranks)])


def _spaced_rows(n: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, n - 1, min(n, _SOME)).astype(np.intp))


def _mixture(kernel: Kernel, prediction: Predictive, goal: float) -> Mixture:
    """Return the components of the predictions, as exact as all RBF kernels need them."""
    limits = [
        (float(np.sqrt(2 * gamma)), _DENSITY * goal / float(np.sqrt(weight)))
        for weight, gamma in _checked_features(bumps_of(kernel))[1]
    ]
    return [(share, PanelDensities.of(part, limits)) for share, part in parts_of(prediction)]


def _scales(kernel: Kernel, prediction: Predictive, goal: float) -> tuple[Array, Array]:
    """Return the ends (m,) of the panels of all densities, ascending, and the lengths (m,) of these panels.

    A whole prediction might fit between two nodes of a longer panel of the line.
    """
    ends, lengths = [], []
    for start in range(0, len(prediction), _ROWS):
        rows = np.arange(start, min(len(prediction), start + _ROWS))
        for share, densities in _mixture(kernel, prediction.take(rows), goal):
            mass = share[:, None] * densities.weights.sum(axis=2)
            matter = ~(mass <= _LIGHT * goal)  # NaN where ends are infinite
            length = (densities.high - densities.low)[matter]
            ends += [densities.low[matter], densities.high[matter]]
            lengths += [length, length]
    place, length = np.concatenate(ends), np.concatenate(lengths)
    order = np.argsort(place)
    return place[order], length[order]


def _checked_features(
    parts: tuple[float, list[tuple[float, float]]] | None,
) -> tuple[float, list[tuple[float, float]]]:
    assert parts is not None
    return parts


def _unit(gamma: float) -> float:
    """Return the factor that normalises bumps to squared norm 1."""
    return float((4 * gamma / np.pi) ** 0.25)


def _coefficients(mixture: Mixture, gamma: float, low: Array, high: Array) -> Array:
    """Return the features (n, p, l) of smoothed densities on panels."""
    n, length = len(mixture[0][0]), high - low
    t = (low[:, None] + length[:, None] * (_PLACES + 1) / 2).ravel()
    out = np.zeros((n, len(t)))
    places = gauss_legendre(mixture[0][1].series.shape[2])[0]
    for share, d in mixture:
        out += share[:, None] * smooth(d, places, float(np.sqrt(2 * gamma)), t)
    features = out.reshape(n, len(low), _TERMS) @ _TO_FEATURES
    return np.asarray(features * np.sqrt(length)[:, None] * _unit(gamma))


def _too_long(low: Array, high: Array, ends: Array, lengths: Array) -> NDArray[np.bool_]:
    """Tell which panels, in ascending order, contain ends of much shorter panels."""
    first, last = np.searchsorted(ends, low), np.searchsorted(ends, high, side="right")
    longer = np.zeros(len(low), dtype=bool)
    for number, (start, stop) in enumerate(zip(first, last, strict=True)):
        if stop > start:
            shortest = lengths[start:stop].min()
            longer[number] = high[number] - low[number] > _LONGER * shortest
    return longer


def _unresolved(features: Array) -> Array:
    """Return the squared norm (n, p) of the last two terms, a bound on the error of a converging series."""
    return np.asarray(np.square(features[:, :, -2:]).sum(axis=2))


def _most_unresolved(mixture: Mixture, gamma: float, low: Array, high: Array) -> Array:
    """Return the largest squared norm (p,) of the last two terms among all predictions."""
    largest = np.zeros(len(low))
    for rows in row_blocks(len(mixture[0][0]), _BLOCK // (_TERMS * len(low))):
        part = [(share[rows], densities.block(rows)) for share, densities in mixture]
        features = _coefficients(part, gamma, low, high)
        np.maximum(largest, _unresolved(features).max(axis=0), out=largest)
    return largest


def _miss(mixture: Mixture, gamma: float) -> Array:
    """Return the norms (n,) of the truncation errors of the densities' series."""
    rate = float(np.sqrt(2 * gamma))
    total = np.zeros(len(mixture[0][0]))
    for share, d in mixture:
        total += share * d.norms(rate).sum(axis=1)
    return total


def _light(share: Array, densities: PanelDensities, goal: float) -> Array:
    """Return the mass (n,) that `_scales` neglects."""
    mass = share[:, None] * densities.weights.sum(axis=2)
    return np.asarray(np.where(mass > _LIGHT * goal, 0.0, mass).sum(axis=1))


def _all(outputs: Array, ends: Array, gamma: float) -> tuple[Array, Array]:
    """Return one panel around outputs and all relevant mass."""
    reach = REACH / np.sqrt(2 * gamma)
    low, high = min(outputs[0], ends[0]), max(outputs[-1], ends[-1])
    return np.array([low - reach]), np.array([high + reach])


def _halved(
    low: Array,
    high: Array,
    outputs: Array,
    mixtures: list[Mixture],
    scales: tuple[Array, Array],
    gamma: float,
    goal: float,
) -> tuple[Array, Array] | None:
    """Return panels halved until they resolve bumps around outputs and these densities.

    No panel is much longer than the panels of any row's densities (`_scales`).
    """
    rate = float(np.sqrt(2 * gamma))
    finished_panels: list[tuple[Array, Array]] = []
    count = 0
    for _ in range(_HALVINGS):
        inside = np.searchsorted(outputs, low - REACH / rate)
        beyond = np.searchsorted(outputs, high + REACH / rate)
        coarse = (high - low) * rate > _SHORT
        long = coarse & ((beyond > inside) | _too_long(low, high, *scales))
        if not long.all():
            short = np.flatnonzero(~long)
            unresolved = np.zeros(len(short), dtype=bool)
            for mixture in mixtures:
                unresolved |= _most_unresolved(mixture, gamma, low[short], high[short]) > goal**2
            unresolved &= (high - low)[short] * rate > _SHORT / 64
            long[short] = unresolved
        finished_panels.append((low[~long], high[~long]))
        count += int((~long).sum())
        if not long.any():
            low, high = (np.concatenate(part) for part in zip(*finished_panels, strict=True))
            order = np.argsort(low)
            return low[order], high[order]
        if count + long.sum() > _MOST_PANELS:
            return None
        middle = (low[long] + high[long]) / 2
        low, high = np.concatenate([low[long], middle]), np.concatenate([middle, high[long]])
        order = np.argsort(low)
        low, high = low[order], high[order]
    return None
