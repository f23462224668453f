"""Metrics of this package for skpro, and distributions of skpro for this package.

skpro is imported when `Metric` is requested; `from_skpro` only calls methods of its argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import metrics
from fastmcmd._base.checks import (
    as_array,
    as_weights,
    check_choice,
    check_count,
    check_flag,
    quote,
)
from fastmcmd.compat.direction import best_values, of_classes
from fastmcmd.errors import require
from fastmcmd.predictive import Draws, Gaussian, Mixture, Predictive
from fastmcmd.predictive.adapters.by_methods import MethodsPredictive
from fastmcmd.predictive.base import Array

if TYPE_CHECKING:
    import pandas as pd
    from skpro.distributions.base import BaseDistribution

_LAZY = ("Metric",)  # needs skpro

__all__ = ["from_skpro", *_LAZY]

# Means over rows, and the scores that they average.
_BY_ROW: dict[Callable[..., float], Callable[..., Array]] = {
    metrics.nll: metrics.log_score,
    metrics.mean_crps: metrics.crps,
    metrics.mean_check_score: metrics.check_score,
    metrics.mean_interval_score: metrics.interval_score,
    metrics.mean_weighted_interval_score: metrics.weighted_interval_score,
    metrics.mean_dawid_sebastiani: metrics.dawid_sebastiani,
}


_LEVELS = (0.01, 0.25, 0.5, 0.75, 0.99)  # where discrete ones must have whole numbers


def from_skpro(distribution: BaseDistribution, n: int | None = None) -> Predictive:
    """Return predicted distributions of skpro as a `Predictive`.

    Parameters
    ----------
    distribution : skpro BaseDistribution
        A distribution with one column and one row per input, or a scalar distribution. Convert several
        columns one by one: ``distribution.loc[:, ["name"]]``.
    n : int, optional
        Number of inputs that share a scalar distribution.

    Raises
    ------
    TypeError
        If the argument is not a distribution of skpro, or is neither continuous nor discrete.
    ValueError
        Several columns, a number of rows other than ``n``, a scalar without ``n``, or a discrete
        distribution over values other than whole numbers, such as weighted samples.

    Notes
    -----
    ``Normal`` becomes `Gaussian`. ``Delta``, and ``Empirical`` without weights and with equally many
    samples in each row, become `Draws`. ``Mixture`` becomes a `Mixture` of its converted parts. Other
    distributions are called through their methods ``cdf``, ``ppf``, ``log_pdf`` or ``log_pmf``, ``mean``
    and ``var``. These take and return frames in the shape of the distribution, so each value per row takes
    one call for all rows.
    """
    tags = getattr(distribution, "get_tag", None)
    if tags is None or isinstance(distribution, type) or not hasattr(distribution, "ppf"):
        raise TypeError(
            f"distribution is {distribution!r}; a distribution of skpro, such as its predict_proba "
            "returns, is needed"
        )
    n = None if n is None else check_count(n, "n", 1)
    shape = tuple(distribution.shape)
    if len(shape) == 2 and shape[1] != 1:
        raise ValueError(
            f"distribution has shape {shape}; one column is needed: distribution.loc[:, [name]]"
        )
    if not shape and n is None:
        raise ValueError("distribution is a scalar one; n, the number of inputs, is needed")
    rows = shape[0] if shape else n or 0
    if n is not None and rows != n:
        raise ValueError(f"distribution has {rows} rows; n is {n}")
    convert = _FAMILIES.get(type(distribution).__name__)
    prediction = None if convert is None else convert(distribution, rows)
    if prediction is not None:
        return prediction
    measure = str(tags("distr:measuretype", "mixed", raise_error=False))
    if measure not in ("continuous", "discrete"):
        raise TypeError(
            f"distribution is a {type(distribution).__name__} of measure type {measure!r}; a continuous or "
            "discrete one is needed. Give draws of it, an array (n, l)"
        )
    shaped = _shaped(distribution, measure)
    if measure == "discrete":
        values = np.concatenate(
            [shaped.ppf(np.full((1, rows if shape else 1), p)) for p in _LEVELS]
        )
        if not np.array_equal(values, np.round(values)):
            raise ValueError(
                f"distribution is a discrete {type(distribution).__name__} over other values than whole "
                "numbers; give draws of it, an array (n, l)"
            )
    return MethodsPredictive(shaped, rows, discrete=measure == "discrete")


def _gaussian(distribution: BaseDistribution, rows: int) -> Predictive:
    shaped = _shaped(distribution, "continuous")
    std = np.sqrt(shaped.variance())
    return Gaussian(np.broadcast_to(shaped.mean(), rows), np.broadcast_to(std, rows))


def _draws(distribution: BaseDistribution, rows: int) -> Predictive | None:
    """Return the samples of an empirical distribution, or None if their number differs between rows."""
    samples, weights = distribution.spl, distribution.weights
    if weights is not None or not hasattr(samples, "index") or samples.index.nlevels != 2:
        return None
    # The levels are (sample, row): sorted by row, samples of a row follow each other.
    draws = [samples.xs(row, level=1).to_numpy(np.float64)[:, 0] for row in distribution.index]
    if len({len(one) for one in draws}) != 1 or len(draws) != rows:
        return None
    return Draws(np.stack(draws))


def _mixture(distribution: BaseDistribution, rows: int) -> Predictive:
    parts = distribution.get_params(deep=False)
    entries = parts["distributions"]
    components = [one[1] if isinstance(one, tuple) else one for one in entries]
    weights = parts["weights"]
    share = None if weights is None else np.divide(weights, np.sum(weights))
    return Mixture([from_skpro(one, rows) for one in components], share)


def _point(distribution: BaseDistribution, rows: int) -> Predictive:
    return Draws(np.broadcast_to(_shaped(distribution, "discrete").mean(), rows)[:, None])


_FAMILIES: dict[str, Callable[[BaseDistribution, int], Predictive | None]] = {
    "Delta": _point,
    "Empirical": _draws,
    "Mixture": _mixture,
    "Normal": _gaussian,
}


class _Shaped:
    """A distribution of skpro whose methods take values (c, n), c for each of the n inputs."""

    def __init__(self, distribution: BaseDistribution, measure: str) -> None:
        self._distribution, self._scalar = distribution, not tuple(distribution.shape)
        self._measure = measure
        self._density = distribution.log_pmf if measure == "discrete" else distribution.log_pdf

    def cdf(self, y: Array) -> Array:
        return self._call(self._distribution.cdf, y)

    def log_prob(self, y: Array) -> Array:
        return self._call(self._density, y)

    def ppf(self, level: Array) -> Array:
        return self._call(self._distribution.ppf, level)

    def mean(self) -> Array:
        return np.ravel(np.asarray(self._distribution.mean(), np.float64))

    def variance(self) -> Array:
        return np.ravel(np.asarray(self._distribution.var(), np.float64))

    def __reduce__(self) -> tuple[object, ...]:
        return _shaped, (self._distribution, self._measure)

    def _call(self, method: Callable[[float], float], values: Array) -> Array:
        if self._scalar:
            results = [method(float(one)) for one in values.ravel()]
            return np.asarray(results, np.float64).reshape(values.shape)
        n = self._distribution.shape[0]
        full = np.broadcast_to(values, (len(values), n))
        return np.stack([np.asarray(method(row[:, None]), np.float64)[:, 0] for row in full])


def _shaped(distribution: BaseDistribution, measure: str) -> _Shaped:
    """Return a `_Shaped` whose class has the name of the distribution, for messages."""
    kind = type(type(distribution).__name__, (_Shaped,), {"__module__": "skpro"})
    shaped: _Shaped = kind(distribution, measure)
    return shaped


def __getattr__(name: str) -> type:
    if name != "Metric":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _metric()


@functools.cache
def _metric() -> type:
    """Return the class `Metric`, which needs skpro."""
    advice = f"{__name__}.Metric needs skpro: pip install skpro"
    base: Any = require("skpro.metrics.base", advice).BaseDistrMetric
    import pandas as pd

    class Metric(base):  # type: ignore[misc,unused-ignore]
        """A metric of `fastmcmd.metrics` as an skpro metric.

        Parameters
        ----------
        metric : callable (y, prediction, **options) -> float
            A metric such as `fastmcmd.metrics.mean_crps`.
        options : dict, optional
            Further arguments of the metric.
        multioutput : {"uniform_average", "raw_values"} or array_like (k,)
            For several columns: return the mean over columns, all values, or their weighted mean.
        multivariate : bool
            Whether per-row values are a single column, the mean over columns, named "score".
        lower_is_better : bool, optional
            Not needed for metrics of this package that have a best value.

        Notes
        -----
        Columns are evaluated separately, because distributions of skpro do not describe their dependence.
        Like the metrics of skpro, this one ignores arguments such as ``y_train``, but censored outcomes are
        an error.

        Examples
        --------
        >>> from skpro.distributions import Normal
        >>> from fastmcmd.compat.skpro import Metric
        >>> round(Metric()([[0.0], [1.0]], Normal([[0.0], [1.0]], 1.0)), 6)
        0.233695
        """

        def __init__(
            self,
            metric: Callable[..., float] = metrics.mean_crps,
            options: dict[str, object] | None = None,
            multioutput: str | ArrayLike = "uniform_average",
            multivariate: bool = False,
            lower_is_better: bool | None = None,
        ) -> None:
            if options is not None and not isinstance(options, Mapping):
                raise TypeError(
                    f"options is {quote(options)}; a dict of arguments of the metric, or None, is needed"
                )
            self.metric = metric
            self.options = options
            self.multivariate = check_flag(multivariate, "multivariate")
            self.lower_is_better = lower_is_better
            _check_columns(multioutput)
            super().__init__(multioutput=multioutput)
            self.set_tags(lower_is_better=_lower_is_better(metric, lower_is_better))

        def evaluate(self, y_true: object, y_pred: object, **kwargs: object) -> Any:
            """Return the metric: a float, or with "raw_values" a frame (1, k)."""
            y = _frame(y_true, y_pred, kwargs.get("C_true"))
            values = np.array([self._value(*column) for column in _columns(y, y_pred)])
            raw = isinstance(self.multioutput, str) and self.multioutput == "raw_values"
            if raw and not self.multivariate:
                return pd.DataFrame([values], columns=y.columns)
            return float(np.average(values, weights=self._weights(len(values))))

        def evaluate_by_index(self, y_true: object, y_pred: object, **kwargs: object) -> Any:
            """Return a frame (n, k) of the score of each row and column.

            For metrics that are not means of scores, such as `ence`, these are jackknife pseudo-values, as
            in skpro: n values of the metric without one row, in O(n^2).
            """
            y = _frame(y_true, y_pred, kwargs.get("C_true"))
            values = np.stack([self._rows(*column) for column in _columns(y, y_pred)], axis=1)
            if not self.multivariate:
                return pd.DataFrame(values, index=y.index, columns=y.columns)
            mean = np.average(values, axis=1, weights=self._weights(values.shape[1]))
            return pd.DataFrame({"score": mean}, index=y.index)

        def _value(self, y: Array, prediction: Predictive) -> float:
            return float(self.metric(y, prediction, **(self.options or {})))

        def _rows(self, y: Array, prediction: Predictive) -> Array:
            score = _BY_ROW.get(self.metric)
            if score is not None:
                return np.asarray(score(y, prediction, **(self.options or {})))
            mean_loss, n = self._value(y, prediction), len(y)
            rows = np.arange(n)
            without = [self._value(y[rows != i], prediction.take(rows[rows != i])) for i in rows]
            return n * mean_loss - (n - 1) * np.array(without)

        def _weights(self, columns: int) -> Array | None:
            if isinstance(self.multioutput, str):
                return None
            return as_weights(self.multioutput, "multioutput", columns)

        @classmethod
        def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
            """Return arguments for skpro's tests of metrics."""
            del parameter_set
            return [{}, {"metric": metrics.regression_ece}]

    Metric.__module__, Metric.__qualname__ = __name__, "Metric"
    return Metric


def _check_columns(multioutput: str | ArrayLike) -> None:
    """Raise an error unless ``multioutput`` is valid."""
    if isinstance(multioutput, str):
        check_choice(multioutput, "multioutput", ("uniform_average", "raw_values"))
    else:
        weights = as_array(multioutput, "multioutput")
        as_weights(weights, "multioutput", weights.size)


def _columns(y: pd.DataFrame, y_pred: BaseDistribution) -> list[tuple[Array, Predictive]]:
    """Return outcomes and predictions of each column."""
    return [
        (
            as_array(y.iloc[:, j], "y_true").astype(np.float64),
            from_skpro(y_pred.iloc[:, [j]], len(y)),
        )
        for j in range(y.shape[1])
    ]


def _frame(y_true: Any, y_pred: Any, censored: Any) -> Any:
    """Return outcomes as a frame with the rows and columns of the prediction."""
    import pandas as pd

    if censored is not None and np.any(np.asarray(censored)):
        raise ValueError(
            "C_true says that outcomes are censored; metrics of fastmcmd need observed ones"
        )
    y = y_true.to_frame() if isinstance(y_true, pd.Series) else y_true
    shape = tuple(y_pred.shape)
    if len(shape) != 2:
        raise ValueError(
            f"y_pred has shape {shape}; (n, k) is needed: one distribution per row and column"
        )
    if not isinstance(y, pd.DataFrame):
        array = as_array(y, "y_true")
        if array.ndim not in (1, 2):
            raise ValueError(f"y_true has shape {array.shape}; (n,) or (n, k) is needed")
        y = pd.DataFrame(array[:, None] if array.ndim == 1 else array)
        y.index = y_pred.index if len(y) == shape[0] else y.index
        y.columns = y_pred.columns if y.shape == shape else y.columns
    if y.shape != shape:
        raise ValueError(f"y_true has shape {y.shape}; y_pred has {shape}: they must agree")
    if not y.index.equals(y_pred.index):
        raise ValueError(
            "y_true and y_pred have other indices; rows must be the same, in one order"
        )
    if shape[1] > 1 and list(y.columns) != list(y_pred.columns):
        raise ValueError(
            f"y_true has columns {list(y.columns)}; y_pred has {list(y_pred.columns)}: they must agree"
        )
    return y


def _lower_is_better(metric: Callable[..., float], declared: bool | None) -> bool:
    if not callable(metric):
        raise TypeError(f"metric is {metric!r}; a function such as metrics.mean_crps is needed")
    if of_classes(metric):
        raise TypeError(f"{metric.__name__} is of classes; a metric of distributions is needed")
    if declared is not None:
        return check_flag(declared, "lower_is_better")
    try:
        best = best_values(metric)
    except LookupError:
        best = None
    if best not in ("low", "high"):
        raise ValueError(
            f"metric {getattr(metric, '__name__', metric)} does not declare which values are better; give "
            "lower_is_better=True or False"
        )
    return best == "low"
