"""Rejection curves: the gain by rejecting the rows that a score marks as least trustworthy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Json, RandomState
from fastmcmd._base.checks import (
    as_array,
    as_weights,
    check_positive,
    check_same_length,
)
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import Notebook, aligned
from fastmcmd.errors import RowError
from fastmcmd.inference.inputs import check_simulations
from fastmcmd.kernels.base import power_of_two

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["RejectionCurve", "rejection_curve"]

Array = NDArray[np.float64]

_ROUNDING = 1e-12  # of areas, relative to the largest loss: smaller differences are ties
_POINTS = 101  # shares of rejected rows at which the curve is stored
_TABLE_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)  # shares with a line in the table


@dataclass(frozen=True, eq=False, repr=False)
class RejectionCurve(Notebook):
    """Mean loss of the remaining rows when those with the highest scores are rejected.

    Attributes
    ----------
    rejected : ndarray (m,)
        Shares of rejected rows, ascending from 0.
    loss : ndarray (m,)
        Mean loss of the remaining rows.
    std_loss : ndarray (m,) or None
        The same when rows are rejected by their predicted standard deviation.
    random_band : ndarray (m, 2)
        Band that contains the curve of random rejection, at each share with probability ``level``.
    best_loss : ndarray (m,)
        The same when rows are rejected by the loss itself: no score does better.
    area, std_area, random_area, best_area : float
        Means of the curves over all numbers of rejected rows (from none to all but one).
    p_value, std_p_value : float
        Share of orders, random ones and the observed one, whose area is at most the observed area. A small
        p-value means that the score identifies rows with high losses better than chance.
    level : float
        Level of the band.
    n : int
        Number of rows.
    """

    rejected: Array
    loss: Array
    std_loss: Array | None
    random_band: Array
    best_loss: Array
    area: float
    std_area: float | None
    random_area: float
    best_area: float
    p_value: float
    std_p_value: float | None
    level: float
    n: int

    @property
    def gain(self) -> float:
        """Share of the possible gain over random rejection: 1 is best, 0 chance."""
        return _gain(self.area, self.random_area, self.best_area)

    @property
    def std_gain(self) -> float | None:
        """The same for the predicted standard deviation; None without it."""
        if self.std_area is None:
            return None
        return _gain(self.std_area, self.random_area, self.best_area)

    def table(self) -> str:
        """Return the losses at some shares of rejected rows as text."""
        beside = self.std_loss is not None
        head = [
            "rejected",
            "loss",
            *(["by predicted std"] if beside else []),
            "at random",
            "at best",
        ]
        rows = [head]
        for share in _TABLE_SHARES:
            place = int(np.argmin(np.abs(self.rejected - share)))
            low, high = self.random_band[place]
            cells = [f"{100 * self.rejected[place]:.0f} %", f"{self.loss[place]:.4g}"]
            if self.std_loss is not None:
                cells.append(f"{self.std_loss[place]:.4g}")
            rows.append([*cells, f"{low:.4g} to {high:.4g}", f"{self.best_loss[place]:.4g}"])
        return aligned(rows)

    def to_dict(self) -> Json:
        """Return a JSON-safe summary; numbers that are not finite become text."""
        fields = {**asdict(self), "gain": self.gain, "std_gain": self.std_gain}
        return {name: _json(value) for name, value in fields.items()}

    def to_frame(self) -> pd.DataFrame:
        """Return the curves as a pandas frame.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        from fastmcmd.frames import to_frame

        columns = {"rejected": self.rejected, "loss": self.loss}
        if self.std_loss is not None:
            columns["std_loss"] = self.std_loss
        low, high = self.random_band.T
        return to_frame(
            {**columns, "random_low": low, "random_high": high, "best_loss": self.best_loss}, None
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the curves with the band of random rejection; return the matplotlib axes."""
        from fastmcmd import plots

        return plots.rejection(self, ax=ax)

    def __repr__(self) -> str:
        share = f"{100 * self.gain:.0f} % of what is to be gained over random rejection"
        lines = [f"Rejection by the score gains {share} (p = {self.p_value:.3g}, {self.n:,} rows)"]
        if self.std_gain is not None:
            lines.append(
                f"Rejection by the predicted std gains {100 * self.std_gain:.0f} % "
                f"(p = {self.std_p_value:.3g})"
            )
        return "\n".join([*lines, self.table()])


def rejection_curve(
    score: ArrayLike,
    loss: ArrayLike,
    std: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    level: float = 0.95,
    simulations: int = 199,
    random_state: RandomState = 0,
) -> RejectionCurve:
    """Return the mean loss of the remaining rows when rows of high scores are rejected.

    Parameters
    ----------
    score : array_like (n,) or Result
        Score that is high where the model is not trustworthy, such as the CCE or its ``excess``. Rows with
        equal scores are rejected in random order: the curve is the expectation.
    loss : array_like (n,)
        Loss of each row, such as its CRPS, squared error or log score; infinity is allowed, NaN is not.
    std : array_like (n,), optional
        Predicted standard deviations as a second score for comparison.
    weights : array_like (n,), optional
        Nonnegative weights of the rows in mean losses.
    level : float
        Level of the band of random rejection at each share, in (0, 1).
    simulations : int
        Number of random orders for the band and the p-values, at least 19: with fewer no p-value reaches
        0.05.
    random_state : int, numpy.random.Generator or None
        Source of the random orders.

    Returns
    -------
    RejectionCurve
        ``loss``, ``random_band``, ``area``, ``gain``, ``p_value``, ``.plot()``, ``.table()``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    ``area`` is the area under the risk-coverage curve: Geifman, Uziel, El-Yaniv, *Bias-reduced uncertainty
    estimation for deep neural classifiers* (ICLR 2019). The p-value ranks the observed area among all
    ``simulations + 1`` orders, which have as many equal scores as the observed one. It is exact if scores
    do not depend on losses.

    Examples
    --------
    Four rows with a loss each; the score is highest where the loss is. Rejecting no row leaves a mean
    loss of 2, and rejecting the row with the highest score leaves 1.

    >>> import fastmcmd as fm
    >>> curve = fm.rejection_curve([0.1, 0.2, 0.3, 0.4], [1.0, 1.0, 1.0, 5.0])
    >>> curve.loss.tolist()
    [2.0, 1.0, 1.0, 1.0]

    The gain is 1 for the best order, and 0 on average for random orders:

    >>> curve.gain
    1.0
    """
    losses = _column(loss, "loss", infinite=True)
    scores = {"score": _column(score, "score", infinite=True)}
    if std is not None:
        scores["std"] = _column(std, "std", infinite=True)
        if (scores["std"] < 0).any():
            row = int(np.argmax(scores["std"] < 0))
            raise RowError(f"std[{row}] is {scores['std'][row]:g}; numbers >= 0 are needed", row)
    check_same_length(loss=losses, **scores)
    n = len(losses)
    level = check_positive(level, "level")
    if level >= 1:
        raise ValueError(f"level is {level:g}; a number in (0, 1) is needed")
    simulations = check_simulations(simulations)
    checked_weights = as_weights(weights, "weights", n)
    w = np.ones(n) if checked_weights is None else np.asarray(checked_weights, dtype=np.float64)
    has_weight = w > 0
    losses, w, n = losses[has_weight], w[has_weight], int(has_weight.sum())
    infinite = np.unique(losses[np.isinf(losses)])
    if len(infinite) > 1:
        raise ValueError(
            "loss holds infinity of both signs, which have no mean; leave such rows out"
        )
    unit = power_of_two(float(np.abs(losses).max()))  # sums of losses may leave float64
    losses = losses * unit
    sizes = np.unique(np.maximum(1, np.rint(n * np.linspace(1, 0, _POINTS)).astype(np.intp)))[::-1]
    orders = {name: _order_of(values[has_weight]) for name, values in scores.items()}
    curves = {name: _curve(*values, losses, w) for name, values in orders.items()}
    best = _curve(*_order_of(losses), losses, w)
    rng = generator(random_state, Purpose.NULL)
    random = np.empty((simulations, len(sizes)))
    areas = {name: np.empty(simulations) for name in orders}
    untied = np.arange(n)
    for place in range(simulations):
        order = rng.permutation(n)
        curve = _curve(order, untied, losses, w)
        random[place] = curve[sizes - 1]
        for name, (_, starts) in orders.items():  # with as many equal scores as observed
            tied = len(starts) < n
            areas[name][place] = (_curve(order, starts, losses, w) if tied else curve).mean()
    tail = (1 - level) / 2
    band = np.quantile(random, [tail, 1 - tail], axis=0, method="inverted_cdf").T
    mean = float(w @ losses / w.sum()) / unit
    area = {name: float(values.mean()) for name, values in curves.items()}
    tie = _ROUNDING * float(np.abs(losses[np.isfinite(losses)]).max(initial=0.0))
    p = {
        name: float((1 + np.count_nonzero(areas[name] <= values + tie)) / (1 + simulations))
        for name, values in area.items()
    }
    return RejectionCurve(
        rejected=1 - sizes / n,
        loss=curves["score"][sizes - 1] / unit,
        std_loss=curves["std"][sizes - 1] / unit if "std" in curves else None,
        random_band=band / unit,
        best_loss=best[sizes - 1] / unit,
        area=area["score"] / unit,
        std_area=area["std"] / unit if "std" in area else None,
        random_area=mean,
        best_area=float(best.mean()) / unit,
        p_value=p["score"],
        std_p_value=p.get("std"),
        level=level,
        n=n,
    )


def _column(value: object, name: str, *, infinite: bool) -> Array:
    """Return numbers (n,) in float64 after a check for NaN."""
    numbers = as_array(value, name).astype(np.float64)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"{name} has shape {numbers.shape}; (n,) is needed: a number a row")
    if np.isnan(numbers).any():
        raise RowError(
            f"{name} holds NaN (first in row {int(np.argmax(np.isnan(numbers)))}); leave such rows out",
            int(np.argmax(np.isnan(numbers))),
        )
    if not infinite and np.isinf(numbers).any():
        raise ValueError(f"{name} holds infinity; finite numbers are needed")
    return numbers


def _order_of(score: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows (n,) in ascending order of their scores, and the start of each distinct score."""
    order = np.argsort(score, kind="stable")
    sorted_scores = score[order]
    return order, np.flatnonzero(np.concatenate([[True], sorted_scores[1:] != sorted_scores[:-1]]))


def _curve(order: NDArray[np.intp], starts: NDArray[np.intp], losses: Array, w: Array) -> Array:
    """Return mean losses (n,) of the first 1, 2, ... n rows; rows between starts count in random order."""
    size, total = w[order], w[order] * losses[order]
    if len(starts) < len(order):
        counts = np.diff(starts, append=len(order))
        size = np.repeat(np.add.reduceat(size, starts) / counts, counts)
        total = np.repeat(np.add.reduceat(total, starts) / counts, counts)
    return np.asarray(np.cumsum(total) / np.cumsum(size))


def _gain(area: float, random: float, best: float) -> float:
    with np.errstate(invalid="ignore", divide="ignore"):
        return (
            float(np.float64(random - area) / np.float64(random - best)) if random > best else 0.0
        )


def _json(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return [_json(one) for one in value.tolist()]
    if isinstance(value, list):
        return [_json(one) for one in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
