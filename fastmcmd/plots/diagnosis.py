"""Plot of the shift and the factor of spread that predictions need, over the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.checks import as_rows, check_instance, check_same_length, quote
from fastmcmd.plots.projection import line
from fastmcmd.plots.style import COLOURS, check_axes, mark_bottom, matplotlib, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.inference.diagnosis import Diagnosis

__all__ = ["diagnosis"]

_LOG_RATIO = 5.0  # ratio of the ends of an axis of factors from which it is logarithmic
_WIDE_RATIO = 300.0  # ratio of the ends from which only powers of ten have labels
_BANDS = 400  # inputs up to which every band is drawn along one input


def diagnosis(
    diagnosed: Diagnosis, x: ArrayLike | None = None, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Plot shift and factor of spread with their bands, one above the other.

    For one input they are lines with bands. For several inputs they are points along the first principal
    component, with bars for bands, dark where the band excludes a right prediction. Grey marks at the
    bottom are inputs without support.

    Parameters
    ----------
    diagnosed : Diagnosis
        Result of `fastmcmd.diagnose`.
    x : array_like (q,) or (q, d), optional
        Inputs for the horizontal axis. Default: the diagnosed inputs.
    axes : pair of matplotlib axes, optional
        Axes to draw in. Default: new axes.

    Returns
    -------
    array of two matplotlib axes

    Raises
    ------
    ValueError
        If there is no diagnosis to plot.

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> import fastmcmd as fm
    >>> x = np.linspace(-1, 1, 200)
    >>> y = x + np.random.default_rng(0).normal(size=200)
    >>> fm.diagnose(x, y, fm.Gaussian(x, 1.0)).plot()[1].get_ylabel()
    'factor of spread'
    """
    from fastmcmd.inference.diagnosis import Diagnosis

    check_instance(diagnosed, "diagnosed", Diagnosis, "what diagnose returns")
    if diagnosed.reason:
        raise ValueError(f"there is no diagnosis to draw: {diagnosed.reason}")
    rows = diagnosed.x if x is None else as_rows(x, "x")
    check_same_length(x=rows, diagnosis=diagnosed)
    place, name = line(rows)
    one_input = rows.shape[1] == 1
    if axes is None:
        axes = matplotlib().subplots(2, 1, figsize=(6, 5), sharex=True, layout="constrained")[1]
    elif not isinstance(axes, (list, tuple, np.ndarray)) or np.shape(axes) != (2,):
        raise ValueError(f"axes is {quote(axes)}; a pair of matplotlib axes is needed")
    for ax in axes:
        check_axes(ax, "axes")
    counts = diagnosed.scale == "log mean"
    turn = np.exp if counts else np.asarray
    names = "factor of the mean" if counts else "shift, units of y", "factor of spread"
    right = 1.0 if counts else 0.0, 1.0
    panels = (
        (turn(diagnosed.shift), turn(diagnosed.shift_band)),
        (diagnosed.factor, diagnosed.factor_band),
    )
    for ax, (values, band), neutral, label in zip(axes, panels, right, names, strict=True):
        ax.axhline(neutral, color="0.6", linewidth=0.8, zorder=0)
        wrong = (band[:, 0] > neutral) | (band[:, 1] < neutral)
        has_value = diagnosed.supported & np.isfinite(values)
        if one_input:
            _draw_line(ax, place, values, band, has_value)
        else:
            _draw_points(ax, place, values, band, has_value, wrong)
        if (~has_value).any():
            mark_bottom(ax, place[~has_value])
        if not has_value.any():
            text = "no input has enough rows near it"
            ax.text(0.5, 0.75, text, color="0.4", ha="center", transform=ax.transAxes)
        ends = band[has_value]
        if neutral == 1 and len(ends) and ends.max() > _LOG_RATIO * ends.min() > 0:
            _log_scale(ax, ends.max() / ends.min())
        ax.set_ylabel(label)
        tidy(ax)
    has_name = one_input and len(diagnosed.column_names) == 1
    axes[1].set_xlabel(plain(diagnosed.column_names[0]) if has_name else name)
    is_marked = not (diagnosed.supported & np.isfinite(diagnosed.shift)).all()
    marks = " (grey marks: few rows near)" if is_marked else ""
    axes[0].set_title(
        f"What predictions need, with {diagnosed.level:.0%} bands{marks}", fontsize="medium"
    )
    return axes


def _log_scale(ax: Axes, ratio: float) -> None:
    """Let factors of 2 and 1 / 2 lie equally far from 1, with labels that do not overlap."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ratio < _WIDE_RATIO else (1.0,)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _draw_line(ax: Axes, place: Any, values: Any, band: Any, has_value: Any) -> None:
    """Draw a line with a band, interrupted where there is no support."""
    order = np.argsort(place, kind="stable")
    place, values, band = place[order], values[order].copy(), band[order].copy()
    values[~has_value[order]] = np.nan
    band[~has_value[order]] = np.nan
    ax.fill_between(place, band[:, 0], band[:, 1], color=COLOURS[0], alpha=0.25, linewidth=0)
    ax.plot(place, values, color=COLOURS[0], linewidth=1.6)


def _draw_points(ax: Axes, place: Any, values: Any, band: Any, has_value: Any, wrong: Any) -> None:
    """Draw points with bars; if there are many, of evenly spaced rows."""
    some = np.flatnonzero(has_value)
    some = some[np.unique(np.linspace(0, len(some) - 1, min(len(some), _BANDS)).astype(np.intp))]
    for mask, colour, width in ((~wrong, "0.75", 0.6), (wrong, COLOURS[0], 0.9)):
        rows = some[mask[some]]
        if len(rows):
            ax.vlines(place[rows], band[rows, 0], band[rows, 1], color=colour, linewidth=width)
            ax.plot(place[rows], values[rows], ".", color=colour, markersize=4)
