"""Checked rows and cached results that all measures of one evaluation share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import metrics
from fastmcmd._base.annotations import AnyArray, RandomState
from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import seed_sequence
from fastmcmd.classification.inputs import SUM_TOLERANCES, LabelledRows
from fastmcmd.classification.labels import as_labels
from fastmcmd.classification.scores import brier_of, halved
from fastmcmd.classification.summary import summarize
from fastmcmd.evaluation.presorted import Presorted, running_weights
from fastmcmd.kernels import Kernel
from fastmcmd.metrics.inputs import ERRORS_OUT_OF_RANGE, OUT_OF_RANGE, Outcomes, weighted_mean
from fastmcmd.metrics.interval_scores import HUB, interval_terms, weighted_terms
from fastmcmd.metrics.pit import (
    PITHistogram,
    SortedPIT,
    conclude_histogram,
    histogram_sums,
    pit_of_rows,
)
from fastmcmd.metrics.quantile_scores import PERCENTS, check_terms, losses_together
from fastmcmd.metrics.reliability_sums import (
    TOOLBOX_LEVELS,
    ReliabilityCurve,
    conclude_reliability,
    reliability_sums,
)
from fastmcmd.metrics.variance import LEAST_VARIANCE, MOST_VARIANCE
from fastmcmd.predictive import Categorical, Draws, Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.predictive.categorical import classes_of
from fastmcmd.predictive.wrapped import Wrapped

__all__ = ["Context", "Memo", "Settings"]


class Memo(Wrapped):
    """A prediction that caches its moments, and its results for one array of outcomes.

    Parameters
    ----------
    base : Predictive
        The prediction.
    y : ndarray
        The outcomes. Results are cached for this array object only, not for other arrays or views.
    """

    def __init__(self, base: Predictive, y: Array) -> None:
        super().__init__(base)
        self.y = y
        self._cached: dict[str, Array] = {}

    def _once(self, name: str, compute: Callable[[], Array]) -> Array:
        if name not in self._cached:
            self._cached[name] = compute()
        return self._cached[name]

    def _at(self, name: str, y: ArrayLike) -> Array:
        compute = getattr(self.base, name)
        return self._once(name, lambda: compute(y)) if y is self.y else compute(y)

    def store(self, level: float, quantiles: Array) -> None:
        """Cache quantiles (n,) that were computed elsewhere."""
        self._cached[_quantile(level)] = quantiles

    def subset(self, rows: NDArray[np.intp]) -> Memo:
        """Return the prediction of some rows, with the cached results of these rows."""
        part = Memo(self.base.take(rows), self.y[rows])
        part._cached = {name: values[rows] for name, values in self._cached.items()}
        return part

    @property
    def mean(self) -> Array:
        """Means."""
        return self._once("mean", lambda: self.base.mean)

    @property
    def variance(self) -> Array:
        """Variances."""
        return self._once("variance", lambda: self.base.variance)

    @property
    def std(self) -> Array:
        """Standard deviations."""
        return self._once("std", lambda: self.base.std)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y)."""
        return self._at("cdf", y)

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y)."""
        if not self.discrete and type(self.base).cdf_below is Predictive.cdf_below:
            return self.cdf(y)  # equal without atoms
        return self._at("cdf_below", y)

    def cdf_bounds(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return P(Y < y) and P(Y <= y), in one pass unless one of them is cached."""
        if y is not self.y:
            return self.base.cdf_bounds(y)
        if "cdf" not in self._cached and "cdf_below" not in self._cached:
            self._cached["cdf_below"], self._cached["cdf"] = self.base.cdf_bounds(y)
        return self.cdf_below(y), self.cdf(y)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y), as accurate as that of the base."""
        return self._at("sf", y)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return log densities or log probabilities."""
        return self._at("log_prob", y)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability scores."""
        return self._at("crps", y)

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles; those of single levels are cached."""
        if np.ndim(level):
            return self.base.quantile(level)
        return self._once(_quantile(level), lambda: self.base.quantile(level))

    def closed_form_rows(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return ``E k(Y_i, Y'_i)`` (n,) of independent Y and Y'."""
        other = other.base if isinstance(other, Memo) else other
        return self.base.closed_form_rows(kernel, other)


def _quantile(level: ArrayLike) -> str:
    return f"quantile {float(np.asarray(level))!r}"


@dataclass(frozen=True)
class Settings:
    """Conventions of an evaluation; see `fastmcmd.evaluate`."""

    level: float = 0.9
    bins: int = 10
    binning: str = "mass"
    pit: str = "randomized"
    random_state: RandomState = 0

    @property
    def stream(self) -> tuple[object, ...]:
        """Identity of the random numbers: equal seeds have equal identities."""
        root = seed_sequence(self.random_state)
        entropy = root.entropy
        return (entropy if isinstance(entropy, int) else tuple(entropy or ()), root.spawn_key)


class _RowValues:
    """Results that do not depend on weights."""

    presorted: Presorted | None = None

    def __init__(self, y: Array, base: Predictive, settings: Settings) -> None:
        self.y, self.base, self.settings = y, base, settings
        self.prediction = Memo(base, y)
        self.scores: dict[str, Array] = {}

    def subset(self, rows: NDArray[np.intp]) -> _RowValues:
        """Return the results of some rows, keeping all that remain valid."""
        prediction = self.prediction.subset(rows)
        part = _RowValues(prediction.y, prediction.base, self.settings)
        part.prediction = prediction
        part.scores = {name: values[rows] for name, values in self.scores.items()}
        if "pit" in self.__dict__:
            part.__dict__["pit"] = self.pit[rows]
        return part

    @cached_property
    def pit(self) -> Array:
        return pit_of_rows(self.y, self.prediction, self.settings.pit, self.settings.random_state)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        return np.argsort(self.pit)

    @cached_property
    def sorted(self) -> Array:
        return np.sort(self.pit)  # several times faster than indexing with `order`


class Context:
    """Rows, weights and shared results of an evaluation.

    Attributes
    ----------
    y : ndarray (m,) or (m, k)
        Outcomes, without NaN.
    base : Predictive
        Predictions of these rows.
    prediction : Memo
        The same prediction, with cached moments and cached results for y.
    weights : ndarray (m,) or None
        Weights of the rows.
    rows : Outcomes
        Outcomes, prediction and weights in the form that metrics accept without checking again.
    cce : ndarray (m,) or None
        CCE at each row.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        settings: Settings,
        cce: Array | None = None,
        row_values: _RowValues | None = None,
        weights: Array | None = None,
    ) -> None:
        self.outcomes, self.settings, self.cce = outcomes, settings, cce
        self.y, self.base = outcomes.y, outcomes.prediction
        self.weights = outcomes.weights if row_values is None else weights
        self._row_values = row_values or _RowValues(self.y, self.base, settings)
        self.prediction: Predictive = self._row_values.prediction
        self.rows = Outcomes(self.y, self.prediction, self.weights, None, len(self.y), False)
        self._reliability: dict[tuple[str, int], ReliabilityCurve] = {}
        self.nulls: dict[str, float] = {}  # cached expectations under a right model

    def subset(self, rows: NDArray[np.intp]) -> Context:
        """Return the context of some rows, without recomputing per-row results such as PIT values."""
        row_values = self._row_values.subset(rows)
        outcomes = Outcomes(row_values.y, row_values.base, None, None, len(rows), False)
        return Context(
            outcomes,
            self.settings,
            None if self.cce is None else self.cce[rows],
            row_values,
            None if self.weights is None else self.weights[rows],
        )

    def presort(self) -> None:
        """Sort rows once for all `reweighted` contexts, and compute the other values they share."""
        if self.y.ndim == 1:  # vectors have no PIT
            _ = self._row_values.order, self._row_values.sorted
        if self.numbers:
            self._row_values.presorted = Presorted.of(self.rows, self.settings)

    def median_error(self) -> float:
        """Return the median absolute error."""
        presorted = self._row_values.presorted
        if presorted is None or self.weights is None:
            return float(metrics.median_absolute_error(cast(Any, self.rows), cast(Any, None)))
        return presorted.median_error(self.weights)

    def reweighted(self, weights: Array) -> Context:
        """Return the same rows with other weights, without recomputing per-row results."""
        return Context(self.outcomes, self.settings, self.cce, self._row_values, weights)

    @property
    def numbers(self) -> bool:
        """Whether outputs are numbers, not vectors and not classes without an order."""
        return self.y.ndim == 1 and not self.nominal

    @cached_property
    def nominal(self) -> bool:
        """Whether outputs are classes without an order."""
        return classes_of(self.base) is not None

    @cached_property
    def labelled(self) -> LabelledRows:
        """Labels, probabilities and weights, where outputs are classes without an order.

        Functions of `fastmcmd.classification` take them as they are, without checking again.
        """
        assert isinstance(self.base, Categorical)
        labels = as_labels(self.y, len(self.base.values), None)
        return LabelledRows(
            self.base.probs, labels, self.weights, None, len(self.base.values),
            SUM_TOLERANCES[8], False, "prediction",
        )  # fmt: skip

    @property
    def has_draws(self) -> bool:
        """Whether the prediction consists of draws."""
        return isinstance(self.base, Draws)

    @cached_property
    def finite_means(self) -> bool:
        """Whether all predicted means are finite."""
        return bool(np.isfinite(self.prediction.mean).all())

    @cached_property
    def finite_deviations(self) -> bool:
        """Whether all predicted standard deviations are finite."""
        return bool(np.isfinite(self.prediction.std).all())

    @cached_property
    def width(self) -> str | None:
        """Why division by predicted standard deviations is impossible, or None."""
        std = self.prediction.std
        if not self.finite_deviations:
            return "a predicted variance is not finite"
        return None if (std > 0).all() else "a predicted variance is zero"

    @cached_property
    def spread(self) -> str | None:
        """Why division by predicted variances is impossible, or None."""
        if self.width is not None:
            return self.width
        variance, mean = self.prediction.variance, self.prediction.mean
        if not LEAST_VARIANCE <= variance.min() <= variance.max() <= MOST_VARIANCE:
            return OUT_OF_RANGE
        with np.errstate(over="ignore", invalid="ignore"):
            # At most the square of an error; squares themselves only where that is not finite.
            if np.isfinite(np.square(max(self.y.max() - mean.min(), mean.max() - self.y.min()))):
                return None
            squares = (self.y - mean) ** 2
        return None if np.isfinite(squares).all() else ERRORS_OUT_OF_RANGE

    def mean(self, values: Array) -> float:
        """Return the weighted mean of per-row values."""
        return float(weighted_mean(values, self.weights))

    def score(self, name: str, compute: Callable[..., Array]) -> Array:
        """Return a per-row score, computed once.

        ``compute`` receives the prediction itself, not the cache, because scores have fast paths for some
        families.
        """
        scores = self._row_values.scores
        if name not in scores:
            plain = Outcomes(self.y, self.base, None, None, len(self.y), False)
            scores[name] = compute(plain, None)
        return scores[name]

    def crps(self) -> Array:
        """Return the CRPS of each row: together with quantiles, where that takes less time."""
        if self.base.shares_panels:
            return self.quantile_scores()["crps"]
        return self.score("crps", metrics.crps)

    def of_classes(self, name: str) -> Array:
        """Return "hit", "brier_score", "confidence" or "entropy" by row, all from one pass."""
        scores = self._row_values.scores
        if name not in scores:
            rows = self.labelled
            summary, _ = summarize(rows, entropy=True)
            assert summary.entropy is not None
            scores["hit"] = (summary.predicted == rows.known_labels).astype(np.float64)
            scores["brier_score"] = brier_of(summary, halved("auto", rows.classes))
            scores["confidence"], scores["entropy"] = summary.confidence, summary.entropy
        return scores[name]

    def quantile_scores(self) -> dict[str, Array]:
        """Return all per-row scores of quantiles from one pass, and cache the ends of intervals."""
        scores, level = self._row_values.scores, self.settings.level
        if "check_score" not in scores:
            terms = {
                "check_score": check_terms(PERCENTS),
                "interval_score": interval_terms(np.array([level])),
                "weighted_interval_score": weighted_terms(HUB),
            }
            ends = (1 - level) / 2, (1 + level) / 2
            crps = np.empty(len(self.y)) if self.base.shares_panels else None
            losses, quantiles = losses_together(
                self.y, self.base, list(terms.values()), np.array(ends), crps
            )
            if crps is not None:
                scores["crps"] = crps
            scores.update(zip(terms, losses, strict=True))
            for end, column in zip(ends, quantiles, strict=True):
                self._row_values.prediction.store(end, column)
        return scores

    @property
    def pit(self) -> Array:
        """Probability integral transform of each row."""
        return self._row_values.pit

    @cached_property
    def sorted_pit(self) -> SortedPIT:
        """PIT values in ascending order, with their weights."""
        if self.weights is None:
            return SortedPIT(self._row_values.sorted, None, float(len(self.y)))
        return SortedPIT(
            self._row_values.sorted, *running_weights(self.weights, self._row_values.order)
        )

    def reliability(self, kind: str, levels: Array = TOOLBOX_LEVELS) -> ReliabilityCurve:
        """Return the reliability curve, computed once for each kind and number of levels."""
        key = kind, len(levels)
        if key not in self._reliability:
            sums = reliability_sums(self.sorted_pit, levels, kind)
            self._reliability[key] = conclude_reliability(sums, kind)
        return self._reliability[key]

    @cached_property
    def histogram(self) -> PITHistogram:
        """Histogram of the PIT."""
        sums = histogram_sums(self.sorted_pit, self.settings.bins)
        return conclude_histogram(sums, self.settings.pit)

    @cached_property
    def variance_curve(self) -> metrics.VarianceCurve:
        """Errors against predicted variances, in bins."""
        presorted = self._row_values.presorted
        if presorted is not None and presorted.variance is not None and self.weights is not None:
            return presorted.variance_curve(self.weights)
        return metrics.ence_curve(
            cast(AnyArray, self.rows),  # already checked
            self.prediction,
            bins=min(self.settings.bins, len(self.y)),
            binning=self.settings.binning,
        )
