"""Plots of Gaussian predictions, as in ``uncertainty_toolbox.viz``, with the colours of this package.

`fastmcmd.plots` has pictures of any prediction, with bands of what is chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.checks import as_array, check_positive, quote
from fastmcmd.compat.uncertainty_toolbox.figures import (
    filter_subset,
    save_figure,
    set_style,
    update_rc,
)
from fastmcmd.compat.uncertainty_toolbox.inputs import Vector, documented, vectors
from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import (
    adversarial_group_calibration,
    get_proportion_lists_vectorized,
    miscalibration_area_from_proportions,
)
from fastmcmd.compat.uncertainty_toolbox.metrics_calibration import sharpness as root_mean_square
from fastmcmd.plots.style import COLOURS, check_axes, matplotlib, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "filter_subset",
    "plot_adversarial_group_calibration",
    "plot_calibration",
    "plot_intervals",
    "plot_intervals_ordered",
    "plot_residuals_vs_stds",
    "plot_sharpness",
    "plot_xy",
    "save_figure",
    "set_style",
    "update_rc",
]

_BLUE, _ORANGE = COLOURS[:2]
_NARROW = 1e-6  # so small a range has no bins in float64


@documented
def plot_xy(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    x: ArrayLike,
    n_subset: int | None = None,
    ylims: tuple[float, float] | None = None,
    xlims: tuple[float, float] | None = None,
    num_stds_confidence_bound: int = 2,
    leg_loc: Any = 3,
    ax: Axes | None = None,
) -> Axes:
    """Plot outcomes, predicted means and a band of standard deviations over one input.

    Parameters
    ----------
    x : array_like (n,)
        Values of the input.
    n_subset : int, optional
        Number of rows to draw, at random (``numpy.random``).
    ylims, xlims : (float, float), optional
        Limits of the axes.
    num_stds_confidence_bound : float
        Half the width of the band in standard deviations.
    leg_loc : int, str or (float, float)
        Place of the legend: its number, its name, or its lower left corner in shares of the axes.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.

    Returns
    -------
    matplotlib axes
    """
    mean, std, y, place = _subset(n_subset, y_pred=y_pred, y_std=y_std, y_true=y_true, x=x)
    order = np.argsort(place, kind="stable")
    mean, std, y, place = mean[order], std[order], y[order], place[order]
    half = _half(num_stds_confidence_bound) * std
    ylims, xlims = _limits(ylims, "ylims"), _limits(xlims, "xlims")
    ax = _axes(ax)
    _check_place(leg_loc)
    ax.plot(place, y, ".", color="0.3", label="Observations")
    ax.plot(place, mean, "-", color=_BLUE, linewidth=2, label="Predictions")
    ax.fill_between(place, mean - half, mean + half, color=_BLUE, alpha=0.2, linewidth=0,
                    label=f"± {num_stds_confidence_bound:g} std")  # fmt: skip
    ax.legend(frameon=False, loc=leg_loc)
    ax.set(xlabel="x", ylabel="y", title="Confidence Band", xlim=xlims, ylim=ylims)
    return _square(ax)


@documented
def plot_intervals(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    n_subset: int | None = None,
    ylims: tuple[float, float] | None = None,
    num_stds_confidence_bound: int = 2,
    ax: Axes | None = None,
) -> Axes:
    """Plot predicted means with intervals over the observed values.

    Parameters
    ----------
    n_subset, ylims, ax
        As in `plot_xy`; ``ylims`` are the limits of both axes.
    num_stds_confidence_bound : float
        Half the width of the intervals in standard deviations.

    Returns
    -------
    matplotlib axes
    """
    mean, std, y = _subset(n_subset, y_pred=y_pred, y_std=y_std, y_true=y_true)
    half = _half(num_stds_confidence_bound) * std
    ends = _ends(ylims, mean - half, mean + half, y)
    ax = _axes(ax)
    _bars(ax, y, mean, half, "Predictions")
    ax.plot(ends, ends, "--", linewidth=1.5, color=_ORANGE, label="f(x) = x")
    ax.legend(frameon=False, loc=4)
    ax.set(
        xlabel="Observed Values", ylabel="Predicted Values and Intervals", xlim=ends, ylim=ends,
        title="Prediction Intervals",
    )  # fmt: skip
    return _square(ax)


@documented
def plot_intervals_ordered(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    n_subset: int | None = None,
    ylims: tuple[float, float] | None = None,
    num_stds_confidence_bound: int = 2,
    ax: Axes | None = None,
) -> Axes:
    """Plot predicted means with intervals, in order of the observed values.

    Parameters
    ----------
    n_subset, ylims, ax
        As in `plot_xy`.
    num_stds_confidence_bound : float
        Half the width of the intervals in standard deviations.

    Returns
    -------
    matplotlib axes
    """
    mean, std, y = _subset(n_subset, y_pred=y_pred, y_std=y_std, y_true=y_true)
    order = np.argsort(y, kind="stable")
    mean, y, half = mean[order], y[order], _half(num_stds_confidence_bound) * std[order]
    ax, place = _axes(ax), np.arange(len(y))
    _bars(ax, place, mean, half, "Predicted Values")
    ax.plot(place, y, "--", linewidth=2.0, color=_ORANGE, label="Observed Values")
    ax.legend(frameon=False, loc=4)
    ax.set(
        xlabel="Index (Ordered by Observed Value)", ylabel="Predicted Values and Intervals",
        title="Ordered Prediction Intervals", ylim=_ends(ylims, mean - half, mean + half, y),
    )  # fmt: skip
    return _square(ax)


@documented
def plot_calibration(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    n_subset: int | None = None,
    curve_label: str | None = None,
    vectorized: bool = True,
    exp_props: ArrayLike | None = None,
    obs_props: ArrayLike | None = None,
    ax: Axes | None = None,
    prop_type: str = "interval",
) -> Axes:
    """Plot observed over predicted proportions, with the miscalibration area.

    Parameters
    ----------
    n_subset, ax
        As in `plot_xy`.
    curve_label : str, optional
        Label of the curve.
    vectorized : bool
        Has no effect.
    exp_props, obs_props : array_like (j,), optional
        Proportions to plot in place of those of the predictions.

    Returns
    -------
    matplotlib axes
    """
    mean, std, y = _subset(n_subset, y_pred=y_pred, y_std=y_std, y_true=y_true)
    curve_label = _label(curve_label)
    _check_given(exp_props=exp_props, obs_props=obs_props)
    if exp_props is None or obs_props is None:
        expected, observed = get_proportion_lists_vectorized(mean, std, y, prop_type=prop_type)
    else:
        expected, observed = _flat(exp_props=exp_props, obs_props=obs_props)
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], "--", label="Ideal", color=_ORANGE)
    ax.plot(expected, observed, label=curve_label or "Predictor", color=_BLUE)
    ax.fill_between(expected, expected, observed, color=_BLUE, alpha=0.2, linewidth=0)
    area = miscalibration_area_from_proportions(expected, observed)
    ax.text(
        0.95, 0.05, f"Miscalibration area = {area:.2f}", ha="right", va="bottom", fontsize="small"
    )
    where = "Below Quantile" if prop_type == "quantile" else "in Interval"
    ax.set(
        xlabel=f"Predicted Proportion {where}", ylabel=f"Observed Proportion {where}", aspect="equal",
        xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), title="Average Calibration",
    )  # fmt: skip
    tidy(ax)
    return ax


@documented
def plot_adversarial_group_calibration(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    n_subset: int | None = None,
    cali_type: str = "mean_abs",
    curve_label: str | None = None,
    group_size: ArrayLike | None = None,
    score_mean: ArrayLike | None = None,
    score_stderr: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the calibration error of the worst of several random groups over the size of the groups.

    Parameters
    ----------
    n_subset, ax
        As in `plot_xy`.
    cali_type : {"mean_abs", "root_mean_sq"}
        Mean absolute or root mean square calibration error.
    curve_label : str, optional
        Label of the curve.
    group_size, score_mean, score_stderr : array_like (s,), optional
        Shares of the rows, and errors with their standard deviations, to plot in place of those of the
        predictions.

    Returns
    -------
    matplotlib axes
    """
    mean, std, y = _subset(n_subset, y_pred=y_pred, y_std=y_std, y_true=y_true)
    curve_label = _label(curve_label)
    _check_given(group_size=group_size, score_mean=score_mean, score_stderr=score_stderr)
    if group_size is None or score_mean is None:
        groups = adversarial_group_calibration(mean, std, y, cali_type=cali_type)
        size, error, spread = groups.group_size, groups.score_mean, groups.score_stderr
    else:
        stderr = np.zeros(np.size(score_mean)) if score_stderr is None else score_stderr
        size, error, spread = _flat(
            group_size=group_size, score_mean=score_mean, score_stderr=stderr
        )
    ax = _axes(ax, (7, 5))
    ax.plot(size, error, "-o", label=curve_label or "Predictor", color=_BLUE)
    ax.fill_between(size, error - spread, error + spread, color=_BLUE, alpha=0.2, linewidth=0)
    ax.set(
        xlabel="Group size", ylabel="Calibration Error of Worst Group", xlim=(-0.02, 1.02),
        ylim=(-0.02, 0.52), title="Adversarial Group Calibration",
    )  # fmt: skip
    tidy(ax)
    return ax


def plot_sharpness(y_std: ArrayLike, n_subset: int | None = None, ax: Axes | None = None) -> Axes:
    """Plot the distribution of predicted standard deviations, with a line at their root mean square.

    Parameters
    ----------
    y_std : array_like (n,)
        Predicted standard deviations.
    n_subset, ax
        As in `plot_xy`.

    Returns
    -------
    matplotlib axes
    """
    (std,) = _subset(n_subset, y_std=y_std)
    ax = _axes(ax)
    # Equal deviations get one bar of nonzero width.
    low, high = float(std.min()), float(std.max())
    ends = (low, high) if high - low > _NARROW * high else (0.95 * high, high)
    ax.hist(std, range=ends, color=_BLUE, alpha=0.35, density=True)
    size = root_mean_square(std)
    left = size < low / 2 + high / 2
    ax.axvline(size, label="sharpness", color="0.2", linewidth=2, linestyle="--")
    ax.text(
        size, ax.get_ylim()[1], f"  Sharpness = {size:.2f}  ", va="top", fontsize="small",
        ha="left" if left else "right",
    )  # fmt: skip
    ax.set(
        xlabel="Predicted Standard Deviation", ylabel="Normalized Frequency", yticks=[],
        title="Sharpness",
    )  # fmt: skip
    tidy(ax)
    return ax


@documented
def plot_residuals_vs_stds(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    n_subset: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot absolute residuals against predicted standard deviations, scaled to the same sum.

    Parameters
    ----------
    n_subset, ax
        As in `plot_xy`.

    Returns
    -------
    matplotlib axes
    """
    mean, std, y = _subset(n_subset, y_pred=y_pred, y_std=y_std, y_true=y_true)
    residuals = np.abs(y - mean)
    scaled = std / std.sum() * residuals.sum()
    ax = _axes(ax)
    ax.plot(scaled, residuals, "o", color=_BLUE, alpha=0.6, label="Predictions")
    ends = _ends(None, scaled, residuals)
    ax.plot(ends, ends, "--", color=_ORANGE, label="f(x) = x")
    ax.legend(frameon=False, loc=4)
    ax.set(
        xlabel="Standard Deviations (Scaled)", ylabel="Residuals (Absolute Value)", xlim=ends,
        ylim=ends, aspect="equal", title="Residuals vs. Predictive Standard Deviations",
    )  # fmt: skip
    tidy(ax)
    return ax


def _axes(ax: Axes | None, size: tuple[float, float] = (5, 5)) -> Any:
    if ax is None:
        return matplotlib().subplots(figsize=size)[1]
    matplotlib()
    check_axes(ax, "ax")
    return ax


def _square(ax: Axes) -> Axes:
    ax.set_box_aspect(1)
    tidy(ax)
    return ax


def _subset(n_subset: int | None, **values: ArrayLike) -> tuple[Vector, ...]:
    """Return checked vectors, or the same random rows of them."""
    checked_vectors = vectors(**values)
    return checked_vectors if n_subset is None else tuple(filter_subset(checked_vectors, n_subset))


def _flat(**values: ArrayLike) -> tuple[Vector, ...]:
    """Return vectors of equal length; arrays (1, n) or (n, 1) are read as vectors too."""
    arrays = {name: as_array(one, name) for name, one in values.items()}
    return vectors(
        **{
            name: one.ravel() if one.ndim == 2 and 1 in one.shape else one
            for name, one in arrays.items()
        }
    )


def _check_given(**values: ArrayLike | None) -> None:
    """Check arrays one by one, including those that others make superfluous."""
    for name, one in values.items():
        if one is not None:
            _flat(**{name: one})


def _half(value: float) -> float:
    return check_positive(value, "num_stds_confidence_bound")


def _check_place(value: Any) -> None:
    """Raise an error unless matplotlib puts a legend there."""
    from matplotlib.legend import Legend

    places: dict[str, int] = Legend.codes
    if isinstance(value, str) or np.ndim(value) == 0:
        codes = [*places, *places.values()]
        if isinstance(value, (bool, np.bool_)) or not any(value == one for one in codes):
            raise ValueError(f"leg_loc is {quote(value)}; one of {', '.join(places)} is needed")
    elif len(_flat(leg_loc=value)[0]) != 2:
        raise ValueError(f"leg_loc is {quote(value)}; two numbers are needed")


def _label(value: str | None) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"curve_label is {quote(value)}; text is needed")
    return value


def _limits(value: tuple[float, float] | None, name: str) -> tuple[float, float] | None:
    """Return two checked numbers, or None."""
    if value is None:
        return None
    (ends,) = _flat(**{name: value})
    if len(ends) != 2 or not ends[0] != ends[1]:
        raise ValueError(f"{name} are {quote(value)}; two different numbers are needed")
    return float(ends[0]), float(ends[1])


def _ends(limits: tuple[float, float] | None, *values: Vector) -> tuple[float, float]:
    """Return the given limits, or those of the values with a margin."""
    ends = _limits(limits, "ylims")
    if ends is not None:
        return ends
    low, high = min(map(np.min, values)), max(map(np.max, values))
    if not np.isfinite(high - low):
        raise ValueError("y_pred, y_std and y_true reach too far for a picture; scale them")
    margin = 0.04 * (high - low) or 0.5
    return float(low - margin), float(high + margin)


def _bars(ax: Axes, place: Any, mean: Vector, half: Vector, label: str) -> None:
    ax.errorbar(place, mean, half, fmt="o", markersize=4, linewidth=1.5, color=_BLUE, alpha=0.5)
    ax.plot(place, mean, "o", markersize=4, color=_BLUE, label=label)
