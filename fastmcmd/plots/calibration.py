"""Plots of calibration: reliability, PIT histograms, errors against predicted variances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.checks import check_instance
from fastmcmd.plots.style import COLOURS, GREY, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.classification import ReliabilityCurve as ClassReliability
    from fastmcmd.metrics.pit import PITHistogram
    from fastmcmd.metrics.reliability_sums import ReliabilityCurve
    from fastmcmd.metrics.variance_curve import VarianceCurve

__all__ = ["pit_histogram", "reliability", "variance"]

_Z = 1.96  # standard deviations on either side that hold 95 %


def reliability(
    curve: ReliabilityCurve | ClassReliability,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot observed against expected shares, with the 95 % band of a calibrated model.

    If the axes already have a curve, they keep the band of the first curve. The curve of a classification
    shows the frequency of an event against its mean probability in each bin; bars show how far the
    frequency of a calibrated model scatters.

    Parameters
    ----------
    curve : ReliabilityCurve
        The curve of `fastmcmd.metrics.reliability_curve` or `fastmcmd.classification.reliability_curve`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of the line.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> y = np.random.default_rng(0).normal(size=300)
    >>> curve = fm.metrics.reliability_curve(y, (np.zeros(300), 2.0))  # too wide
    >>> fm.plots.reliability(curve, label="model").get_xlabel()
    'expected share'
    """
    from fastmcmd.classification import ReliabilityCurve as ClassReliability
    from fastmcmd.metrics import ReliabilityCurve

    if isinstance(curve, ClassReliability):
        return _of_classes(curve, axes(ax), label, colour)
    check_instance(curve, "curve", ReliabilityCurve, "what metrics.reliability_curve returns")
    ax = axes(ax)
    expected, scatter = curve.expected, _Z * curve.scatter
    if not ax.lines:  # overlapping bands of several models would look like a single wider band
        ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.9, zorder=1)
        low, high = np.clip(expected - scatter, 0, 1), np.clip(expected + scatter, 0, 1)
        ax.fill_between(expected, low, high, color=GREY, alpha=0.25, linewidth=0, zorder=0)
    ax.plot(expected, curve.observed, color=colour, linewidth=1.8, label=label, zorder=3)
    where = "below the quantile" if curve.kind == "quantile" else "in the central interval"
    ax.set(
        xlabel="expected share",
        ylabel=f"share {where}",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    return finish(ax, label, "upper left")


def _of_classes(curve: ClassReliability, ax: Axes, label: str | None, colour: str) -> Axes:
    if not ax.lines:
        ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.9, zorder=1)
    filled = curve.weight > 0
    confidence, accuracy = curve.confidence[filled], curve.accuracy[filled]
    scatter = _Z * np.sqrt(confidence * (1 - confidence) / curve.count[filled])
    low, high = np.clip(confidence - scatter, 0, 1), np.clip(confidence + scatter, 0, 1)
    ax.vlines(confidence, low, high, color=GREY, alpha=0.5, linewidth=5, zorder=0)
    ax.plot(
        confidence, accuracy, "o-", color=colour, linewidth=1.5, markersize=4, label=label, zorder=3
    )
    ax.set(
        xlabel="mean probability in the bin", ylabel="frequency", xlim=(0, 1), ylim=(0, 1), aspect="equal",
    )  # fmt: skip
    return finish(ax, label, "upper left")


def pit_histogram(
    histogram: PITHistogram,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot the density of the PIT, with the 95 % band of a calibrated model for all bins together.

    A flat histogram means calibrated predictions, a hump too wide ones, a valley too narrow ones, and a
    slope biased ones.

    Parameters
    ----------
    histogram : PITHistogram
        The histogram to plot.
    ax, label, colour
        As in `reliability`.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> y = np.random.default_rng(0).normal(size=300)
    >>> histogram = fm.metrics.pit_histogram(y, (np.zeros(300), 2.0))  # a hump: too wide
    >>> fm.plots.pit_histogram(histogram).get_xlabel()
    'PIT'
    """
    from fastmcmd.metrics import PITHistogram

    check_instance(histogram, "histogram", PITHistogram, "what metrics.pit_histogram returns")
    ax = axes(ax)
    band = histogram.band()
    if band is not None:
        ax.axhspan(*band[:, 0], color=GREY, alpha=0.25, linewidth=0, zorder=0)
    ax.axhline(1, color=GREY, linestyle="--", linewidth=0.9, zorder=1)
    ax.stairs(histogram.heights, histogram.edges, fill=True, color=colour, alpha=0.35, zorder=2)
    ax.stairs(
        histogram.heights, histogram.edges, color=colour, linewidth=1.5, label=label, zorder=3
    )
    ax.set(xlabel="PIT", ylabel="density", xlim=(0, 1))
    ax.set_ylim(bottom=0, auto=None)
    return finish(ax, label)


def variance(
    curve: VarianceCurve, ax: Axes | None = None, label: str | None = None, colour: str = COLOURS[0]
) -> Axes:
    """Plot the root mean squared error against the root mean predicted variance of each bin.

    On the diagonal, predicted spreads are right. Bars are 95 % intervals of a calibrated model.

    Parameters
    ----------
    curve : VarianceCurve
        The curve to plot.
    ax, label, colour
        As in `reliability`.

    Returns
    -------
    matplotlib axes
    """
    from fastmcmd.metrics import VarianceCurve

    check_instance(curve, "curve", VarianceCurve, "what metrics.ence_curve returns")
    ax = axes(ax)
    rmv, rmse = curve.rmv, curve.rmse
    bars = np.minimum(_Z * curve.null_std * rmv, rmse)
    # Both axes cover the range of both quantities, so that the dashed line is visible.
    least, most = min(rmv.min(), (rmse - bars).min()), max(rmv.max(), (rmse + bars).max())
    ax.update_datalim([(least, least), (most, most)])
    if not ax.lines:  # one for all models
        ax.axline((least, least), slope=1, linestyle="--", color=GREY, linewidth=0.9, zorder=1)
    ax.errorbar(
        rmv, rmse, yerr=bars, fmt="o", markersize=5, color=colour, elinewidth=1, label=label, zorder=3
    )  # fmt: skip
    ax.set(xlabel="root mean predicted variance", ylabel="root mean squared error")
    return finish(ax, label)
