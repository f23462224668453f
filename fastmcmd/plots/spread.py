"""Plots of predicted spread: its distribution, errors against it, and calibration in groups of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.checks import check_count, check_instance
from fastmcmd.metrics.inputs import read
from fastmcmd.plots.inputs import some
from fastmcmd.plots.style import COLOURS, GREY, axes, finish
from fastmcmd.plots.values import histogram
from fastmcmd.predictive.base import PredictionLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.metrics import GroupCalibration

__all__ = ["group_calibration", "residuals", "sharpness"]

_SCALES = 10.0  # ratio of the largest to the smallest spread from which axes are logarithmic
_BINS = 12
_TOP = 1.08


def sharpness(
    y: ArrayLike,
    prediction: PredictionLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot the distribution of predicted standard deviations, with a line at the sharpness.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs. Only their number matters.
    prediction : Predictive, draws (n, m), (mean, std), scipy.stats or torch.distributions object
        Predicted distributions.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of bars and line.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> fm.plots.sharpness([0.0, 0.0], ([0.0, 0.0], [1.0, 7.0])).texts[0].get_text()
    ' sharpness 5'
    """
    from fastmcmd.metrics import sharpness as root_mean_variance

    rows = read(y, prediction)
    size = root_mean_variance(rows.y, rows.prediction)
    ax = histogram(rows.prediction.std, ax, label, colour, "predicted standard deviation")
    ax.lines[-1].set_xdata([size, size])
    ax.text(size, 1.0, f" sharpness {size:.3g}", transform=ax.get_xaxis_transform(), va="top",
            fontsize="small", color="0.25")  # fmt: skip
    ax.set_ylim(0, _TOP * ax.get_ylim()[1])
    return ax


def residuals(
    y: ArrayLike,
    prediction: PredictionLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    points: int = 3000,
) -> Axes:
    """Plot absolute errors of predicted means against predicted standard deviations.

    The line is the root mean squared error in bins of equal count; on the diagonal, predicted spreads are
    right.

    Parameters
    ----------
    y, prediction, ax, label
        As in `sharpness`; the label is that of the line.
    colour : str
        Colour of points and line.
    points : int
        Largest number of points, drawn at random with a fixed seed; 0 for none.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> y = np.random.default_rng(0).normal(size=100)
    >>> fm.plots.residuals(y, (np.zeros(100), np.linspace(0.5, 1.5, 100))).get_ylabel()
    '|y - predicted mean|'
    """
    from fastmcmd.metrics import ence_curve

    points = check_count(points, "points", least=0)
    rows = read(y, prediction)
    error, std = np.abs(rows.y - rows.prediction.mean), rows.prediction.std
    curve = ence_curve(rows.y, rows.prediction, bins=_BINS)
    ax = axes(ax)
    plotted = some(len(error), points) if points else np.empty(0, dtype=np.intp)
    if not ax.lines:
        ends = std.min(), std.max()
        ax.plot(ends, ends, "--", color="0.2", linewidth=1.2, zorder=2, label="calibrated")
    alpha = 0.25 if len(plotted) > 500 else 0.5
    ax.plot(std[plotted], error[plotted], ".", color=colour, alpha=alpha, markersize=3, zorder=1,
            rasterized=True)  # fmt: skip
    ax.plot(curve.rmv, curve.rmse, "o-", color=colour, markersize=4, linewidth=1.6, zorder=3,
            markeredgecolor="white", markeredgewidth=0.6, label=label or "root mean square")  # fmt: skip
    if std.min() > 0 and std.max() > _SCALES * std.min():
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(bottom=std.min() / _SCALES, auto=None)
    else:
        ax.set_ylim(bottom=0, auto=None)
    ax.set(xlabel="predicted standard deviation", ylabel="|y - predicted mean|")
    return finish(ax, "line", "upper left")


def group_calibration(
    groups: GroupCalibration,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot the calibration error of the worst of several random groups over the size of the groups.

    Small groups of a calibrated model have large errors by chance: with ``null``, the grey band holds the
    middle 90 % of simulated ones, size by size. The other band is one standard deviation over trials to
    each side.

    Parameters
    ----------
    groups : GroupCalibration
        Result of `fastmcmd.metrics.adversarial_group_calibration`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of the curve.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> groups = fm.metrics.adversarial_group_calibration(y, (np.zeros(500), 1.0))
    >>> fm.plots.group_calibration(groups).get_xlabel()
    'rows in a group'
    """
    from fastmcmd.metrics import GroupCalibration

    requirement = "what metrics.adversarial_group_calibration returns"
    check_instance(groups, "groups", GroupCalibration, requirement)
    ax = axes(ax)
    sizes, mean = groups.sizes, groups.mean
    spread = np.nan_to_num(groups.std)
    if groups.null is not None and not ax.lines:
        low, middle, high = np.quantile(groups.null, [0.05, 0.5, 0.95], axis=1)
        ax.fill_between(sizes, low, high, color=GREY, alpha=0.35, linewidth=0)
        ax.plot(sizes, middle, "--", color=GREY, linewidth=1.2, label="if right")
        label = label or "observed"
    ax.fill_between(sizes, np.maximum(mean - spread, 0), mean + spread, color=colour, alpha=0.2,
                    linewidth=0)  # fmt: skip
    ax.plot(sizes, mean, "o-", color=colour, linewidth=1.6, markersize=4, label=label)
    ax.set_xscale("log")
    norm_label = "mean absolute" if groups.norm == "mean_absolute" else "root mean square"
    ax.set(xlabel="rows in a group", ylabel=f"{norm_label} calibration error\nof the worst group")
    ax.set_ylim(bottom=0, auto=None)
    return finish(ax, label)
