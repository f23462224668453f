"""Plots that compare ranks and PIT values with uniform ones, with bands for all bins or levels together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.checks import check_flag, check_instance
from fastmcmd.plots.style import COLOURS, GREY, axes, finish, matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.metrics import PITEcdf, RankHistogram

__all__ = ["pit_ecdf", "rank_histogram"]


def rank_histogram(
    histogram: RankHistogram,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot the ranks of outcomes among draws, with the band of uniform ranks for all bins together.

    A flat histogram means calibrated draws, a hump too wide ones, a valley too narrow ones, and a slope
    biased ones. Bins beyond the band are filled darker.

    Parameters
    ----------
    histogram : RankHistogram
        The histogram of `fastmcmd.metrics.rank_histogram`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of the bars.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> rng = np.random.default_rng(0)
    >>> ranks = fm.metrics.rank_histogram(rng.normal(size=300), rng.normal(size=(300, 9)))
    >>> fm.plots.rank_histogram(ranks).get_xlabel()
    'rank of the outcome among 9 draws'
    """
    from fastmcmd.metrics import RankHistogram

    check_instance(histogram, "histogram", RankHistogram, "what metrics.rank_histogram returns")
    ax = axes(ax)
    edges, heights, expected = histogram.edges - 0.5, histogram.heights, histogram.expected
    low, high = histogram.low / expected, histogram.high / expected
    ax.stairs(high, edges, baseline=low, fill=True, color=GREY, alpha=0.25, linewidth=0, zorder=0,
              label=f"{histogram.level:.0%} band" if label else None)  # fmt: skip
    ax.axhline(1, color=GREY, linestyle="--", linewidth=0.9, zorder=1)
    outside = (heights < low) | (heights > high)
    width = np.diff(edges)
    for part, alpha in ((~outside, 0.3), (outside, 0.65)):
        ax.bar(edges[:-1][part], heights[part], width[part], align="edge", color=colour, alpha=alpha,
               linewidth=0, zorder=2)  # fmt: skip
    ax.stairs(heights, edges, color=colour, linewidth=1.5, label=label, zorder=3)
    ax.set(
        xlabel=f"rank of the outcome among {histogram.draws:,} draws",
        ylabel="count / expected count",
        xlim=(edges[0], edges[-1]),
    )
    ax.xaxis.set_major_locator(matplotlib("ticker").MaxNLocator(integer=True))
    ax.set_ylim(0, max(1.15 * high.max(), 1.08 * heights.max()))
    return finish(ax, label)


def pit_ecdf(
    curve: PITEcdf,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    difference: bool = True,
) -> Axes:
    """Plot the cumulative PIT less the levels, with the band of a calibrated model for all levels.

    A calibrated model stays in the band. An S through the middle means a wrong spread: first above, then
    below for too narrow predictions, the reverse for too wide ones. A curve on one side means bias. If the
    axes already have a curve, they keep the band of the first.

    Parameters
    ----------
    curve : PITEcdf
        The curve of `fastmcmd.metrics.pit_ecdf`.
    ax, label, colour
        As in `rank_histogram`.
    difference : bool
        Whether to subtract the levels, which shows small deviations.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> y = np.random.default_rng(0).normal(size=300)
    >>> fm.plots.pit_ecdf(fm.metrics.pit_ecdf(y, (np.zeros(300), 1.0))).get_xlabel()
    'PIT'
    """
    from fastmcmd.metrics import PITEcdf

    check_instance(curve, "curve", PITEcdf, "what metrics.pit_ecdf returns")
    difference = check_flag(difference, "difference")
    ax = axes(ax)
    level = np.concatenate([[0.0], curve.expected, [1.0]])
    less = level if difference else 0.0
    observed, low, high = (
        np.concatenate([[0.0], part, [1.0]]) - less
        for part in (curve.observed, curve.low, curve.high)
    )
    if not ax.lines:
        ax.plot(level, level - less, "--", color=GREY, linewidth=0.9, zorder=1)
        ax.fill_between(level, low, high, color=GREY, alpha=0.25, linewidth=0, zorder=0,
                        label=f"{curve.level:.0%} band" if label else None)  # fmt: skip
    ax.plot(level, observed, color=colour, linewidth=1.8, label=label, zorder=3)
    ax.set(xlabel="PIT", xlim=(0, 1), ylabel="share of outcomes" + " less PIT" * difference)
    return finish(ax, label, "best" if difference else "upper left")
