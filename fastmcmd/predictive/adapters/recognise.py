"""Arrays that are no draws, as far as that can be recognised: summaries by name, class probabilities."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_column_names", "check_order", "check_probabilities", "row_hint"]

# Names of columns that summarise a distribution, lower case without signs between words.
_MEANS = frozenset({"mean", "mu", "loc", "location", "median", "yhat", "ypred", "prediction"})
_SPREADS = frozenset(
    {"std", "sd", "stddev", "stdev", "standarddeviation", "sigma", "scale", "var", "variance",
     "stderr", "se"}
)  # fmt: skip
_ENDS = frozenset({"lower", "upper", "yhatlower", "yhatupper", "lo", "hi", "cilower", "ciupper"})
_QUANTILE = re.compile(r"(q|quantile|p|percentile)?[ _]?(0?\.\d+)")
_SUM_OFF = 1e-3  # of probabilities that were rounded or computed in single precision
_LEAST_ROWS = 3  # of fewer, draws may sum to 1 by accident


def check_column_names(value: Any, name: str) -> None:
    """Refuse a data frame whose columns are named as parameters or quantiles: it would be read as draws."""
    columns = getattr(value, "columns", None)
    if columns is None or not hasattr(value, "shape"):
        return
    names = [str(one) for one in columns]
    plain = [re.sub(r"[\W_]+", "", one.lower()) for one in names]
    listed = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
    draws = "an array is read as draws, a column each"
    if len(names) > 1 and _MEANS.intersection(plain) and _SPREADS.intersection(plain):
        mean = names[next(i for i, one in enumerate(plain) if one in _MEANS)]
        spread = names[next(i for i, one in enumerate(plain) if one in _SPREADS)]
        raise ValueError(
            f"{name} is a frame with the columns {listed}; {draws}. Pass the pair (mean, std): "
            f"({name}[{mean!r}], {name}[{spread!r}]), where the second is a standard deviation"
        )
    if len(names) > 1 and _ENDS.intersection(plain):
        raise ValueError(
            f"{name} is a frame with the columns {listed}; {draws}. The ends of intervals are quantiles: "
            "pass fastmcmd.predictive.Quantiles(levels, values)"
        )
    if len(names) > 1 and all(_QUANTILE.fullmatch(one.lower().strip()) for one in names):
        raise ValueError(
            f"{name} is a frame with the columns {listed}; {draws}. Pass quantiles as "
            "fastmcmd.predictive.Quantiles(levels, values)"
        )


def check_probabilities(draws: NDArray[Any], y: Any, name: str) -> None:
    """Refuse class probabilities (n, C) of labels y: they would be read as C draws.

    Numbers in [0, 1] of which each row sums to 1, not all alike and not all whole (draws of 0 and 1 may sum
    to 1), and labels from 0 to C - 1 or from 1 to C.
    """
    if y is None or draws.ndim != 2 or draws.shape[1] < 2 or len(draws) < _LEAST_ROWS:
        return
    labels = np.asarray(y)
    if labels.size != len(draws) or labels.dtype.kind not in "iubf":
        return
    first = draws[: 2 * _LEAST_ROWS]  # nearly all arrays are told from these
    if not _is_simplex(first) or not _is_simplex(draws):
        return
    labels = labels.ravel()
    if not (labels == np.floor(labels)).all():
        return
    low, high = labels.min(), labels.max()
    classes = draws.shape[1]
    if not ((low >= 0 and high <= classes - 1) or (low >= 1 and high <= classes)):
        return
    if (draws == np.floor(draws)).all() or (draws == draws.flat[0]).all():
        return
    raise ValueError(
        f"{name} looks like the probabilities of {classes} classes: each row sums to 1 and y holds labels "
        f"from {low:g} to {high:g}. An array is read as draws; use fastmcmd.classification.evaluate(y, p) "
        f"for classes, fastmcmd.Categorical for probabilities of counts, or fastmcmd.Draws({name}) if "
        "these are draws"
    )


def _is_simplex(rows: NDArray[Any]) -> bool:
    return bool(
        (rows >= 0).all() and (rows <= 1).all() and (np.abs(rows.sum(axis=1) - 1) <= _SUM_OFF).all()
    )


def check_order(y: Any, what: str = "(y, prediction)") -> None:
    """Refuse a prediction in the place of the outcomes."""
    from fastmcmd.predictive.base import Predictive

    pair = isinstance(y, tuple) and len(y) == 2 and any(np.ndim(part) for part in y)
    if pair or isinstance(y, Predictive):
        given = "a pair of arrays" if pair else f"a predicted distribution, {type(y).__name__}"
        raise TypeError(f"y is {given}; outcomes are needed: the order of arguments is {what}")


def row_hint(value: Any, rows: int, n: int) -> str:
    """Return what may be wrong with a prediction that has another number of rows than y."""
    shape = tuple(getattr(value, "shape", ()) or ())
    if (isinstance(value, list) or len(shape) == 2) and rows == 2:
        return "; means and standard deviations are given as a tuple, (mean, std)"
    if len(shape) == 2 and shape[1] == n:
        return f"; draws have a row for each outcome, ({n}, l): transpose them"
    return ""
