"""Regions in which a model is wrong, in words: a tree proposes them on one half, a test uses the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import ColumnsLike, HostArray, InputsLike, Json, RandomState
from fastmcmd._base.checks import as_rows, check_count, check_positive, check_same_length
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator, seed_sequence
from fastmcmd._base.tables import Notebook, aligned, data_frame
from fastmcmd.backends.tall_skinny import inner, times
from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.estimate.arguments import resolved_kernels
from fastmcmd.frames import check_row_order
from fastmcmd.inference import dispersion
from fastmcmd.inference.columns import numbers_of_columns
from fastmcmd.inference.combination import direction_of, rank_p_value, scores_of, squared_norms
from fastmcmd.inference.comparison import holm
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.inputs import check_simulations
from fastmcmd.inference.outcome_features import LandmarkFeatures, OutcomeFeatures, landmark_features
from fastmcmd.inference.regression_tree import leaves
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.inference.statistics import project
from fastmcmd.kernels import RBF, Kernel
from fastmcmd.kernels.base import power_of_two
from fastmcmd.predictive import Categorical, Predictive, as_predictive
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered
from fastmcmd.rows import Rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["LEAST_ROWS", "WeakRegion", "WeakRegions", "weak_regions"]

Array = NDArray[np.float64]

_Path = tuple[tuple[int, bool, float], ...]  # (column, above, threshold) from the root to a leaf

_LANDMARKS = 200  # landmarks of the smoothers that propose regions
_TEST_LANDMARKS = 100  # a test with the same landmarks for all data sets is exact for any landmarks
_COLUMN_LAM = 0.01  # regulariser of the smoother over the columns, which only proposes regions
LEAST_ROWS = 40  # rows of both halves together: fewer cannot be split and tested
_DRAWS = 64  # draws of each prediction; their mean replaces the expectation while the tree grows
_FEATURE_VALUES = 1 << 22  # feature values in memory at once
_DIGITS = 4  # digits of thresholds, unless more are needed to separate neighbouring values
_WRITTEN_OUT = 1e9  # smaller integers are written without an exponent
_SUBSAMPLE = 500  # rows that give the median distance and landmarks of outcomes


@dataclass(frozen=True)
class WeakRegion:
    """A region of rows, and whether the model is wrong there.

    Attributes
    ----------
    description : str
        Conditions on the columns, such as "age > 61 and chronic > 12".
    cce, null_cce : float
        Root mean square CCE of the test rows in the region, and of a right model.
    spread : str
        "too wide" or "too narrow" if the mean ``|e_i|^2`` alone is beyond chance (p <= 0.05), else "". A
        shift of the location also increases the scatter of outcomes around the prediction: it looks too
        narrow.
    p_value, p_adjusted : float
        P-value of the exact test in the region, alone and adjusted for all regions (Holm).
    rows : int
        Number of rows in the region, in both halves.
    tested : int
        Number of these rows on which the test was done.
    of_classes : bool
        Whether the predictions are probabilities of classes.
    outliers : bool
        Whether a few outcomes lie far away although ``spread`` is "too wide", as in `CongruenceTest`.
    """

    description: str
    cce: float
    null_cce: float
    spread: str
    p_value: float
    p_adjusted: float
    rows: int
    tested: int
    of_classes: bool = False
    outliers: bool = False

    def __str__(self) -> str:
        scatter = dispersion.in_words(
            self.spread, "predictions", "these",
            of_classes=self.of_classes, outliers=self.outliers, model="predictions are",
        )  # fmt: skip
        return (
            f"{self.description}: CCE {self.cce:.3g}, a right model {self.null_cce:.3g}"
            f"{scatter and ', '}{scatter}, "
            f"p = {self.p_adjusted:.3g}, {self.rows:,} rows"
        )


@dataclass(frozen=True, eq=False, repr=False)
class WeakRegions(Sequence[WeakRegion], Notebook):
    """Regions, the most significant first.

    Attributes
    ----------
    regions : tuple of WeakRegion
    level : float
        Level of the test of each region after adjustment.
    conditions : tuple of tuple
        ``(column, above, threshold)`` of each region, by the index of the column in ``names``.
    names : tuple of str
        Names of the columns; text columns have one name for each label.
    """

    regions: tuple[WeakRegion, ...]
    level: float
    conditions: tuple[tuple[tuple[int, bool, float], ...], ...]
    names: tuple[str, ...]

    def __getitem__(self, index: Any) -> Any:
        return self.regions[index]

    def __len__(self) -> int:
        return len(self.regions)

    @property
    def significant(self) -> tuple[WeakRegion, ...]:
        """Regions where the model is wrong beyond chance: adjusted p-values of at most ``level``."""
        return tuple(one for one in self.regions if one.p_adjusted <= self.level)

    def contains(self, columns: ColumnsLike) -> NDArray[np.intp]:
        """Return the index (n,) of the region that contains each row of ``columns``."""
        table, names = numbers_of_columns(columns, self.names)
        if names != self.names:
            raise ValueError(f"columns are {', '.join(names)}; {', '.join(self.names)} are needed")
        out = np.full(len(table), -1)
        for number, conditions in enumerate(self.conditions):
            out[_inside(table, conditions)] = number
        return out

    def table(self) -> str:
        """Return one line for each region as text."""
        rows = [["region", "CCE", "if right", "spread", "p", "p (Holm)", "rows", "tested"]]
        for one in self.regions:
            rows.append(
                [one.description, f"{one.cce:.4g}", f"{one.null_cce:.4g}", one.spread,
                 f"{one.p_value:.3g}", f"{one.p_adjusted:.3g}", f"{one.rows:,}", f"{one.tested:,}"]
            )  # fmt: skip
        return aligned(rows, left=(0, 3))

    def to_dict(self) -> list[Json]:
        """Return JSON-safe records, one for each region."""
        return [asdict(one) for one in self.regions]

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row for each region.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        return data_frame(self.to_dict())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the CCE in each region beside that of a right model; returns the matplotlib axes."""
        from fastmcmd import plots

        return plots.weak_regions(self, ax=ax)

    def __repr__(self) -> str:
        wrong = self.significant
        if not wrong:
            best = self.regions[0]
            return (
                f"No region of {len(self)} is wrong beyond chance (level {self.level:.3g}, Holm); "
                f"the least p-value is {best.p_adjusted:.3g}: {best.description}"
            )
        noun = "region" if len(self) == 1 else "regions"
        verb = "is" if len(wrong) == 1 else "are"
        head = (
            f"{len(wrong)} of {len(self)} {noun} {verb} wrong beyond chance "
            f"(level {self.level:.3g}, Holm)"
        )
        return "\n".join([head, *(f"  {one}" for one in wrong)])


def weak_regions(
    columns: ColumnsLike,
    x: InputsLike,
    y: ArrayLike,
    prediction: PredictionLike,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    *,
    max_depth: int = 2,
    simulations: int = 199,
    level: float = 0.05,
    random_state: RandomState = 0,
) -> WeakRegions:
    """Return regions of the columns in which a model is wrong, each tested on rows that did not choose it.

    Parameters
    ----------
    columns : data frame, dict of array_like (n,), or array_like (n, c)
        Columns that describe regions; they may include columns that the input kernel does not use. Numbers,
        booleans, or text with few different values.
        Draws are exchanged with the outcomes, so columns must not be computed from draws.
    x, y, prediction, x_kernel, y_kernel, lam
        As in `cce`. The prediction must not depend on these outcomes, and rows must be independent.
    max_depth : int
        Depth of the tree: at most ``2 ** max_depth`` regions, each with at most ``max_depth`` conditions.
    simulations : int
        Number of simulated data sets for each region, at least 19: with fewer no p-value reaches 0.05.
    level : float
        Level of the tests, in (0, 1).
    random_state : int, numpy.random.Generator or None
        Source of the halves, landmarks and simulations.

    Returns
    -------
    WeakRegions
        ``.significant``, ``.table()``, ``.to_frame()``, ``.contains(columns)``; its ``repr`` has one
        sentence for each region.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    On a random half of the rows a regression tree splits the columns by two quantities. One is the local
    excess of the squared CCE, each row's ``<e_i, sum_{j != i} h_ij e_j>`` with smoothers over x and over
    the columns. The other is ``|e_i|^2 - V_i``, with expectations by 64 draws. This half also determines
    kernels and output features. On the other half each region has a test of its own. Outcomes are drawn
    from the predictions. For the observed and all simulated data sets alike, two statistics are computed:
    the mean squared CCE of the region's rows and, two-sided, their mean ``|e_i|^2``. Each is standardised
    over all data sets, and the larger of both is ranked. The p-value is exact if the model is right in the
    region: ``P(p <= a) <= a``. For predictions by draws, the test exchanges the outcome with a draw of its
    row. The family of regions is adjusted as in Holm (1979).

    Examples
    --------
    The model is right for people below 60, and 0.5 too low for the others. Age is no input of the
    model.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x, age = rng.uniform(-1, 1, 600), rng.uniform(20, 80, 600)
    >>> y = x + np.where(age > 60, 0.5, 0.0) + 0.3 * rng.normal(size=600)
    >>> weak = fm.weak_regions({"age": age}, x, y, fm.Gaussian(x, 0.3), x_kernel=fm.RBF(1.0))
    >>> weak.significant[0].description.startswith("age > ")
    True
    """
    check_row_order(columns=columns, x=x, y=y, prediction=prediction)
    table, names = numbers_of_columns(columns)
    x, y = (
        as_rows(x, "x").astype(np.float64),
        as_rows(numbered(y, prediction), "y").astype(np.float64),
    )
    check_same_length(x=x, y=y, columns=table)
    n = len(x)
    if n < LEAST_ROWS:
        raise ValueError(
            f"there are {n} rows; at least {LEAST_ROWS} are needed to split and to test"
        )
    level = check_positive(level, "level")
    if level >= 1:
        raise ValueError(f"level is {level:g}; a number in (0, 1) is needed")
    max_depth, simulations = check_count(max_depth, "max_depth"), check_simulations(simulations)
    predictive = as_predictive(prediction, n, y.shape[1], y=y, x=x)
    rng = generator(seed_sequence(random_state), Purpose.GROUPS)
    order = rng.permutation(n)
    halves = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
    half = halves[0]
    part = predictive.take(half)
    input_kernel, output_kernel, lam = chosen_kernels(
        x[half], y[half], x_kernel, y_kernel, lam, classes=isinstance(part, Categorical)
    )
    kernels = resolved_kernels(input_kernel, output_kernel, x[half], y[half])
    some = predictive.take(half[:: -(-len(half) // _SUBSAMPLE)])
    kind = landmark_features(kernels[1], _draw_outcomes(some, rng), rng, "y")
    e, beyond = _residuals(kind, np.asarray(y[half], dtype=np.float64), part, rng)
    local = _local_excess(_basis(kernels[0], x[half], rng), e, lam)
    standard = _standardised(table)
    local += _local_excess(_basis(_over(standard, rng), standard[half], rng), e, _COLUMN_LAM)
    least = max(10, len(half) // 2 ** (max_depth + 2))
    targets = np.stack([_scaled(local), _scaled(beyond)], axis=1)
    tests = []
    for path in leaves(table[half], targets, max_depth, least):
        conditions = tuple((one.column, one.above, _between(one.low, one.high)) for one in path)
        inside = _inside(table, conditions)
        rows = halves[1][inside[halves[1]]]
        tested = predictive.take(rows)
        observed, null, spread, p = _test(
            x[rows], y[rows], tested, kernels[0], kind, lam, simulations, rng
        )
        outliers = spread == "too wide" and dispersion.has_outliers(y[rows], tested)
        tests.append(
            (conditions, int(inside.sum()), len(rows), observed, null, spread, outliers, p)
        )
    adjusted = holm(np.array([one[-1] for one in tests]))
    ranked = sorted(range(len(tests)), key=lambda k: (adjusted[k], tests[k][4] - tests[k][3]))
    regions = tuple(
        WeakRegion(_in_words(c, names), float(np.sqrt(max(t, 0.0))), float(np.sqrt(null)), spread, p,
                   float(adjusted[k]), rows, tested, isinstance(predictive, Categorical), outliers)
        for k in ranked
        for c, rows, tested, t, null, spread, outliers, p in [tests[k]]
    )  # fmt: skip
    return WeakRegions(regions, level, tuple(tests[k][0] for k in ranked), names)


# ---- tree ----


def _inside(table: Array, conditions: Sequence[tuple[int, bool, float]]) -> NDArray[np.bool_]:
    inside = np.ones(len(table), dtype=np.bool_)
    for column, above, threshold in conditions:
        values = table[:, column]
        inside &= (values > threshold) if above else (values <= threshold)
    return inside


def _between(low: float, high: float) -> float:
    """Return a number in [low, high): the middle, with as few digits as separate the two."""
    middle = low / 2 + high / 2
    candidates = (float(f"{middle:.{digits}g}") for digits in range(_DIGITS, 18))
    return next((one for one in candidates if low <= one < high), low)


def _threshold_text(threshold: float) -> str:
    """Return a threshold with all of its digits; `_between` chose few."""
    if threshold == round(threshold) and abs(threshold) < _WRITTEN_OUT:
        return f"{threshold:.0f}"
    texts = (f"{threshold:.{digits}g}" for digits in range(_DIGITS, 18))
    return next(text for text in texts if float(text) == threshold)


def _in_words(conditions: Sequence[tuple[int, bool, float]], names: Sequence[str]) -> str:
    """Return conditions in words; bounds of one column are merged."""
    if not conditions:
        return "all rows"
    parts = []
    for column in dict.fromkeys(column for column, _, _ in conditions):
        name = names[column]
        low = [t for c, above, t in conditions if c == column and above]
        high = [t for c, above, t in conditions if c == column and not above]
        if " is " in name and {*low, *high} == {0.5}:
            parts.append(name if low else name.replace(" is ", " is not ", 1))
        elif low and high:
            parts.append(f"{_threshold_text(max(low))} < {name} <= {_threshold_text(min(high))}")
        else:
            parts.append(
                f"{name} > {_threshold_text(max(low))}"
                if low
                else f"{name} <= {_threshold_text(min(high))}"
            )
    return " and ".join(parts)


def _scaled(values: Array) -> Array:
    scale = float(values.std())
    return values / scale if scale > 0 else values


def _standardised(table: Array) -> Array:
    table = table * [power_of_two(float(one)) for one in np.abs(table).max(axis=0)]
    scale = table.std(axis=0)
    return np.asarray((table - table.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def _over(standard: Array, rng: np.random.Generator) -> Kernel:
    """Return an RBF kernel whose length is half the median distance between some rows."""
    some = standard[rng.choice(len(standard), min(len(standard), _SUBSAMPLE), replace=False)]
    squares = np.zeros((len(some), len(some)))
    for column in some.T:
        squares += (column[:, None] - column) ** 2
    middle = float(np.median(squares[np.triu_indices(len(some), 1)]))
    return RBF(2.0 / middle if middle > 0 else 1.0)


# ---- excess and test ----


def _draw_outcomes(prediction: Predictive, rng: np.random.Generator) -> Array:
    """Return outcomes (m, l, k) drawn from the prediction of each row."""
    outcomes = np.asarray(prediction.sample(_DRAWS, rng), dtype=np.float64)
    return outcomes.reshape(len(prediction), _DRAWS, -1)


def _residuals(
    kind: LandmarkFeatures, y: Array, prediction: Predictive, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return ``e_i`` (m, r) from means over draws, and ``|e_i|^2`` (m,) minus its mean if right."""
    e, beyond = np.empty((len(y), kind.rank)), np.empty(len(y))
    step = max(1, _FEATURE_VALUES // (_DRAWS * kind.rank))
    for start in range(0, len(y), step):
        rows = np.arange(start, min(start + step, len(y)))
        outcomes = _draw_outcomes(prediction.take(rows), rng)
        p = kind.of_values(outcomes.reshape(-1, outcomes.shape[2])).reshape(len(rows), _DRAWS, -1)
        mean = p.mean(axis=1)
        e[rows] = kind.of_values(y[rows]) - mean
        spread = ((p - mean[:, None]) ** 2).sum(axis=2).mean(axis=1)
        # With l draws the spread around their mean is 1 - 1/l of the variance,
        # and the spread of an outcome is 1 + 1/l of it.
        beyond[rows] = (e[rows] ** 2).sum(axis=1) - spread * (_DRAWS + 1) / (_DRAWS - 1)
    return e, beyond


def _basis(kernel: Kernel, x: HostArray | Rows, rng: np.random.Generator) -> tuple[Basis, Array]:
    basis = Smoother.of(kernel, np.asarray(x), _LANDMARKS, rng).basis(np.asarray(x))
    return basis, basis.coordinates(np.asarray(x))


def _local_excess(fitted: tuple[Basis, Array], e: Array, lam: float) -> Array:
    """Return ``<e_i, sum_{j != i} h_ij e_j>`` (n,) with the smoother H."""
    basis, g = fitted
    weighed = g * basis.shrinkage(lam)
    smoothed = times(weighed, inner(g, e))
    leverage = np.einsum("ip,ip->i", weighed, g)
    return np.asarray(np.einsum("ir,ir->i", e, smoothed) - leverage * np.einsum("ir,ir->i", e, e))


def _test(
    x: Array,
    y: Array,
    prediction: Predictive,
    kernel: Kernel,
    kind: OutcomeFeatures,
    lam: float,
    simulations: int,
    rng: np.random.Generator,
) -> tuple[float, float, str, float]:
    """Return the statistic, its mean over simulations, the spread's direction, and the exact p-value."""
    if len(x) < 2:
        return 0.0, 0.0, "", 1.0
    outcomes = exchangeable_outcomes(np.asarray(y, np.float64), prediction, simulations, rng)
    basis = Smoother.of(kernel, x, _TEST_LANDMARKS, rng).basis(x)
    energy = basis.energy(lam)
    projections = project(outcomes, [kind], basis, x, energy, Progress(False, 0.0))
    misfit = energy @ squared_norms(projections, 0)
    scores = scores_of(np.stack([misfit, np.abs(projections.dispersion[0])]))
    spread = direction_of(projections.dispersion)
    return float(misfit[0]), float(misfit[1:].mean()), spread, rank_p_value(scores.max(axis=0))
