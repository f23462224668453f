"""Plots of probabilities of events: isotonic reliability, and Murphy diagrams of any point forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.checks import check_flag, quote
from fastmcmd.plots.style import COLOURS, GREY, axes, finish, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.metrics import IsotonicReliability, MurphyCurve, MurphyDifference

__all__ = ["isotonic_reliability", "murphy"]

_BINS = 40  # of the histogram of predicted probabilities
_SHARE = 0.14  # of the height, for that histogram


def isotonic_reliability(
    curve: IsotonicReliability,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    terms: bool = True,
) -> Axes:
    """Plot the frequency of an event over its predicted probability, with the band of a calibrated model.

    The band holds the whole curve of a calibrated model. Bars at the bottom show where predicted
    probabilities lie. If the axes already have a curve, they keep the band of the first.

    Parameters
    ----------
    curve : IsotonicReliability
        Result of `fastmcmd.classification.isotonic_reliability` or
        `fastmcmd.metrics.exceedance_reliability`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of the curve.
    terms : bool
        Whether to write the terms of the score, for the first curve.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> p = np.random.default_rng(0).uniform(size=300)
    >>> curve = fm.classification.isotonic_reliability(p > 0.5, p, resamples=100)
    >>> fm.plots.isotonic_reliability(curve).get_ylabel()
    'frequency of class 1'
    """
    from fastmcmd.metrics import IsotonicReliability

    if not isinstance(curve, IsotonicReliability):
        raise TypeError(
            f"curve is {quote(curve)}; what classification.isotonic_reliability or "
            "metrics.exceedance_reliability returns is needed"
        )
    terms = check_flag(terms, "terms")
    ax = axes(ax)
    first = not ax.lines
    if first:
        ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.9, zorder=1)
        if len(curve.grid):
            ax.fill_between(curve.grid, curve.low, curve.high, color=GREY, alpha=0.25, linewidth=0,
                            zorder=0, label=f"{curve.level:.0%} band" if label else None)  # fmt: skip
        height, edges = np.histogram(curve.probability, _BINS, (0, 1), weights=curve.weight)
        ax.stairs(_SHARE * height / height.max(), edges, fill=True, color=colour, alpha=0.25,
                  linewidth=0, zorder=1)  # fmt: skip
    ax.plot(curve.probability, curve.frequency, color=colour, linewidth=1.8, label=label, zorder=3)
    if terms and first:
        names = ("score", "miscalibration", "discrimination", "uncertainty")
        text = "\n".join(f"{name} {getattr(curve, name):.3f}" for name in names)
        ax.text(0.97, 0.2, text, transform=ax.transAxes, ha="right", va="bottom", fontsize="small",
                color="0.25", linespacing=1.3)  # fmt: skip
    ax.set(
        xlabel="predicted probability", ylabel=f"frequency of {curve.event}", xlim=(0, 1),
        ylim=(0, 1), aspect="equal",
    )  # fmt: skip
    return finish(ax, label, "upper left")


def murphy(
    curve: MurphyCurve | MurphyDifference,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    names: Sequence[str] = ("first", "second"),
) -> Axes:
    """Plot mean elementary scores over their thresholds, or a difference of two models with its band.

    A model whose curve is nowhere above that of another is better in every consistent score. Of a
    difference, colours mark thresholds at which one model is better by the band for all of them, and
    thresholds with too few rows for a band are grey.

    Parameters
    ----------
    curve : MurphyCurve or MurphyDifference
        Result of `murphy_curve` or `murphy_difference` in `fastmcmd.metrics` or `fastmcmd.classification`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of a curve.
    names : (str, str)
        Names of the models of a difference.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> y = np.random.default_rng(0).normal(size=300)
    >>> fm.plots.murphy(fm.metrics.murphy_curve(y, (np.zeros(300), 1.0))).get_xlabel()
    'threshold of the mean'
    """
    from fastmcmd.metrics import MurphyCurve, MurphyDifference

    value: object = names
    pair = list(value) if isinstance(value, (list, tuple)) else []
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise ValueError(f"names is {quote(names)}; a list of the names of two models is needed")
    if isinstance(curve, MurphyDifference):
        return _difference(curve, axes(ax), label, *map(plain, pair))
    if not isinstance(curve, MurphyCurve):
        raise TypeError(
            f"curve is {quote(curve)}; what murphy_curve or murphy_difference returns is needed"
        )
    ax = axes(ax)
    ax.plot(curve.theta, curve.score, color=colour, linewidth=1.8, label=label)
    ax.set(xlabel=f"threshold of the {curve.forecast}", ylabel="mean elementary score")
    ax.set_ylim(bottom=0, auto=None)
    return finish(ax, label)


def _difference(
    curve: MurphyDifference, ax: Axes, label: str | None, first: str, second: str
) -> Axes:
    theta, difference = curve.theta, curve.difference
    ax.axhline(0, color=GREY, linestyle="--", linewidth=0.9, zorder=1)
    better = curve.better
    for sign, colour, name in (
        (0, GREY, None),
        (-1, COLOURS[0], f"{first} is better"),
        (1, COLOURS[1], f"{second} is better"),
    ):
        # A stretch begins and ends between thresholds: at the middle of the step to its neighbours.
        where = curve.supported & (better == sign)
        if where.any():
            ax.fill_between(*_stretches(theta, curve.low, curve.high, where), color=colour, alpha=0.3,
                            linewidth=0, label=name, zorder=0)  # fmt: skip
    ax.plot(theta, difference, color="0.7", linewidth=1.2, zorder=2)
    ax.plot(theta, np.where(curve.supported, difference, np.nan), color="0.15", linewidth=1.6,
            label=label, zorder=3)  # fmt: skip
    ax.set(
        xlabel=f"threshold of the {curve.forecast}",
        ylabel=f"elementary score: {first}\nless {second}",
    )
    ax.set_title(f"{curve.level:.0%} band for all thresholds together", fontsize="medium")
    return finish(ax, label or (first if (better != 0).any() else None))


def _stretches(
    theta: np.ndarray, low: np.ndarray, high: np.ndarray, where: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a band over the cells around thresholds; NaN outside the selected ones."""
    middles = (theta[1:] + theta[:-1]) / 2
    place = np.sort(np.concatenate([theta, np.repeat(middles, 2)]), kind="stable")
    cell = np.sort(np.concatenate([np.arange(len(theta)), np.arange(len(theta) - 1),
                                   np.arange(1, len(theta))]))  # fmt: skip
    has_band = np.isfinite(low)
    bottom = np.interp(place, theta[has_band], low[has_band])
    top = np.interp(place, theta[has_band], high[has_band])
    return place, np.where(where[cell], bottom, np.nan), np.where(where[cell], top, np.nan)
