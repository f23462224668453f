"""Plots of values at points: their distribution, and where among the inputs they are high."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import InputsLike
from fastmcmd._base.checks import as_array, check_count, check_same_length, quote
from fastmcmd.plots.hexagons import Hexagons
from fastmcmd.plots.inputs import Inputs, some
from fastmcmd.plots.projection import Plane, Projection, line, project
from fastmcmd.plots.style import COLOURS, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection

__all__ = ["bins_of", "colour_limits", "cumulative", "histogram", "over_inputs", "over_plane"]

_BINS = 15
_GREY, _DARK_GREY = "0.65", "0.45"  # of points without support, and of lines on them
_BARS = 60  # of a histogram at most: no finer than a few pixels
_ROUNDING = 1e-9  # of their mean: values so near to each other are the same
_THIN = 0.02  # of a constant value: half the width of its bar
_STEPS = 500  # of a cumulative curve: no finer than a pixel
_TRIMMED = (0.01, 0.99)  # of the hexagons' means: colours are not spent on the rest
_HUGE = 1e290  # stands for infinity: sums of it do not overflow,
_HUGE_MEAN = 1e280  # and a mean with one such value among all rows is above this
_NEAR = 0.5  # of the range between these: extremes that are so near are shown after all


def histogram(
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    name: str = "value",
    supported: ArrayLike | None = None,
) -> Axes:
    """Plot the distribution of values, with a line at their mean.

    Parameters
    ----------
    values : array_like (n,)
        Values at n points. Values that are not finite are left out.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of bars and line.
    name : str
        Name of the values, for the axis.
    supported : array_like (n,) of bool, optional
        Whether values are supported by data. The others are the grey part of the bars.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> from fastmcmd import plots
    >>> plots.histogram([1.0, 2.0, 2.5], name="predicted std").get_xlabel()
    'predicted std'
    """
    numbers = _as_numbers(values)
    has_support = _support(supported, len(numbers))[np.isfinite(numbers)]
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        raise ValueError("values has no finite value; there is nothing to draw")
    ax = axes(ax)
    middle = finite.mean()
    count = min(_BARS, math.ceil(math.sqrt(len(finite))))
    ends = finite.min(), finite.max()
    if ends[1] - ends[0] <= _ROUNDING * abs(
        middle
    ):  # bins would be indistinguishable: one thin bar instead
        margin = _THIN * abs(middle) or 0.5
        count, ends = 1, (middle - margin, middle + margin)
    heights, edges = np.histogram(finite, count, ends)
    bare, _ = np.histogram(finite[~has_support], count, ends)
    ax.stairs(heights, edges, baseline=bare, fill=True, color=colour, alpha=0.35, label=label)
    if bare.any():
        ax.stairs(bare, edges, fill=True, color=_GREY, label="few rows near")
        label = label or "few rows near"
    ax.axvline(middle, color=colour, linewidth=1.5)
    ax.set(xlabel=name, ylabel="points")
    if finite.min() >= 0:
        ax.set_xlim(left=0, auto=None)
    return finish(ax, label)


def cumulative(
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    name: str = "value",
) -> Axes:
    """Plot the cumulative distribution of values, to compare models in one plot.

    Parameters
    ----------
    values, ax, label, colour, name
        As in `histogram`. Infinite values count as points that the curve does not reach.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> from fastmcmd import plots
    >>> ax = plots.cumulative([1.0, 2.0, 4.0, 8.0], name="CCE")
    >>> ax.lines[0].get_xdata().tolist(), ax.lines[0].get_ydata().tolist()
    ([1.0, 1.0, 2.0, 4.0, 8.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    numbers = np.sort(_as_numbers(values))
    ax = axes(ax)
    share = np.arange(1, len(numbers) + 1) / len(numbers)
    steps = np.unique(np.linspace(0, len(numbers) - 1, _STEPS).astype(int))
    height, share = numbers[steps], share[steps]
    finite = np.isfinite(height)
    height, share = height[finite], share[finite]
    if height.size:
        height, share = np.append(height[0], height), np.append(0.0, share)
    ax.plot(height, share, drawstyle="steps-post", color=colour, linewidth=1.8, label=label)
    ax.set(xlabel=name, ylabel="share of points", ylim=(0, 1.02))
    if height.size and height[0] >= 0:
        ax.set_xlim(left=0, auto=None)
    return finish(ax, label)


def over_inputs(
    x: InputsLike | Inputs,
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    points: int = 20_000,
    name: str = "value",
    supported: ArrayLike | None = None,
) -> Axes:
    """Plot values over one input: points, and the median with the middle 80 % in 15 bins of equal count.

    Parameters
    ----------
    x : array_like (n,) or (n, d), or rows on disk
        Inputs. Several columns are reduced to their first principal component. At most 100,000 rows are
        used, drawn at random with a fixed seed.
    values : array_like (n,)
        Values at the inputs, such as the CCE or a per-row score.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of points, line and band.
    points : int
        Largest number of points, drawn at random with a fixed seed. 0 draws only the median and the band.
    name : str
        Name of the values, for the axis.
    supported : array_like (n,) of bool, optional
        Whether values are supported by data. Other points are grey, and so are line and band in bins where
        they are the majority.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> from fastmcmd import plots
    >>> plots.over_inputs([0.0, 1.0, 2.0], [0.3, 0.1, 0.4], name="CRPS").get_ylabel()
    'CRPS'
    """
    numbers, points = _as_numbers(values), check_count(points, "points", least=0)
    inputs = Inputs.of(x)
    check_same_length(x=inputs, values=numbers)
    has_support = _support(supported, len(numbers))
    ax = axes(ax)
    rows, part = inputs.sample
    numbers, has_support = numbers[rows], has_support[rows]
    position, axis = line(part)
    sample = some(len(numbers), points)
    if points:
        for subset, tint in (
            (sample[~has_support[sample]], _GREY),
            (sample[has_support[sample]], colour),
        ):
            if subset.size:
                ax.plot(
                    position[subset],
                    numbers[subset],
                    ".",
                    color=tint,
                    alpha=0.15,
                    markersize=3,
                    zorder=1,
                )
    inside = bins_of(position)
    centres = [np.median(position[bin]) for bin in inside]
    low, middle, high = np.array([_middle(numbers[bin]) for bin in inside]).T
    bare = np.array([not has_support[bin].mean() >= 0.5 for bin in inside])
    if not bare.any():
        ax.fill_between(centres, low, high, color=colour, alpha=0.2, linewidth=0, zorder=2)
        ax.plot(centres, middle, "-o", color=colour, markersize=3.5, label=label, zorder=3)
    else:
        _draw_partly_grey(ax, centres, (low, middle, high), bare, colour, label)
    ax.set(xlabel=axis, ylabel=name)
    if (numbers >= 0).all():
        ax.set_ylim(bottom=0, auto=None)
    return finish(ax, label)


def _draw_partly_grey(
    ax: Axes,
    centres: list[np.float64],
    quantiles: tuple[NDArray[np.float64], ...],
    bare: NDArray[np.bool_],
    colour: str,
    label: str | None,
) -> None:
    """Draw bands and medians of bins, grey in those that are ``bare`` of support."""
    low, middle, high = quantiles
    for run, tint in _runs(bare, colour):
        ax.fill_between(
            centres[run], low[run], high[run], color=tint, alpha=0.2, linewidth=0, zorder=2
        )
        ax.plot(centres[run], middle[run], "-", color=tint, zorder=3)
    for mask, tint in ((bare, _DARK_GREY), (~bare, colour)):
        places = np.flatnonzero(mask)
        ax.plot(np.take(centres, places), middle[places], "o", color=tint, markersize=3.5, zorder=3)
    if label is not None:  # a line of the legend, for lines in two colours
        ax.plot([], [], "-o", color=colour, markersize=3.5, label=label)


def _runs(bare: NDArray[np.bool_], colour: str) -> list[tuple[slice, str]]:
    """Return runs of bins to join, with their colour: grey if one end of a piece has no support."""
    pieces = bare[:-1] | bare[1:]
    starts = np.flatnonzero(np.diff(pieces, prepend=~pieces[:1])).tolist()
    return [
        (slice(start, end + 1), _DARK_GREY if pieces[start] else colour)
        for start, end in itertools.pairwise([*starts, len(pieces)])
    ]


def bins_of(position: NDArray[np.float64]) -> list[NDArray[np.intp]]:
    """Return the rows of each of at most 15 bins of about equal count; equal positions stay together."""
    edges = np.unique(np.quantile(position, np.linspace(0, 1, _BINS + 1)))
    order = np.argsort(position, kind="stable")
    ends = np.searchsorted(position[order], edges[1:-1], side="left")
    return [part for part in np.split(order, ends) if part.size]


def _middle(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the 10, 50 and 90 % quantiles; values that are not finite are not drawn."""
    finite = np.isfinite(values)
    if finite.all():
        return np.quantile(values, [0.1, 0.5, 0.9])
    quantiles = np.quantile(
        values, [0.1, 0.5, 0.9], method="inverted_cdf"
    )  # never between infinities
    return np.where(np.isfinite(quantiles), quantiles, np.nan)


def over_plane(
    x: InputsLike | Inputs | Plane,
    values: ArrayLike,
    ax: Axes | None = None,
    projection: Projection = "pca",
    name: str = "value",
    limits: tuple[float, float] | None = None,
    supported: ArrayLike | None = None,
) -> Axes:
    """Plot the mean of values in hexagons over a plane of the inputs, with a colour bar.

    Parameters
    ----------
    x : array_like (n, d), rows on disk, or Plane
        Inputs, or the result of `project`.
    values : array_like (n,)
        Values at the inputs, such as the CCE, a per-row score, or outcomes.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    projection
        As in `project`. A `Plane` already has a projection.
    name : str
        Name of the values, for the colour bar.
    limits : (float, float), optional
        Ends of the colour bar. Default: the smallest and largest mean of a hexagon, or their 1 and 99 %
        quantiles if a few extreme means would use up the colours. Means beyond the limits, and infinite
        means, have the colour of the end.
    supported : array_like (n,) of bool, optional
        Whether values are supported by data. Hexagons in which most values are not supported are grey.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> from fastmcmd import plots
    >>> x = np.random.default_rng(0).normal(size=(300, 4))
    >>> plots.over_plane(x, x[:, 0] ** 2, name="CRPS").get_xlabel()
    'first principal component'
    """
    if isinstance(x, Plane) and not (isinstance(projection, str) and projection == "pca"):
        raise ValueError("x is a Plane, which has its projection; give inputs, or no projection")
    plane = x if isinstance(x, Plane) else project(x, projection)
    numbers = _as_numbers(values)
    if len(numbers) != plane.n:
        raise ValueError(f"rows must match: x has {plane.n}, values has {len(numbers)}")
    has_support = _support(supported, plane.n)
    ax = axes(ax)
    means = _means(plane, numbers)
    cells = _draw_hexagons(ax, plane.hexagons, means)
    low, high = _limits(means) if limits is None else check_limits(limits)
    cells.set_clim(low, high)
    below, above = bool((means < low).any()), bool((means > high).any())
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[below, above]
    if not has_support.all():
        share = _means(plane, has_support.astype(np.float64))
        cells.set_array(np.ma.masked_where(share < 0.5, means))
        cells.set_cmap(cells.get_cmap().with_extremes(bad=_GREY))
    ax.figure.colorbar(cells, ax=ax, label=f"mean {name}", extend=extend)
    ax.set(xlabel=plane.names[0], ylabel=plane.names[1])
    return finish(ax)


def _support(supported: ArrayLike | None, n: int) -> NDArray[np.bool_]:
    """Return a mask (n,) of supported values; all True without an argument."""
    if supported is None:
        return np.ones(n, dtype=np.bool_)
    try:
        mask = np.asarray(supported)
    except Exception as error:  # ragged lists; __array__ of other libraries can raise anything
        raise ValueError(f"supported cannot be made an array: {error}") from None
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise ValueError(
            f"supported has shape {mask.shape} and dtype {mask.dtype}; booleans ({n},) are needed"
        )
    return mask


def check_limits(limits: ArrayLike) -> tuple[float, float]:
    """Return the checked ends of a colour bar."""
    ends = as_array(limits, "limits")
    if ends.shape != (2,) or not np.isfinite(ends).all() or ends[0] > ends[1]:
        raise ValueError(f"limits is {quote(limits)}; two finite numbers, low <= high, are needed")
    return float(ends[0]), float(ends[1])


def colour_limits(plots: Sequence[tuple[Plane, ArrayLike]]) -> tuple[float, float]:
    """Return the ends of a colour bar for several plots: planes with values (n,)."""
    means = [_means(plane, _as_numbers(values)) for plane, values in plots]
    return _limits(np.concatenate(means))


def _means(plane: Plane, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return means in hexagons; a hexagon with an infinite value gets a huge mean."""
    return plane.hexagons.means(np.clip(values[plane.rows], -_HUGE, _HUGE))


def _draw_hexagons(ax: Axes, hexagons: Hexagons, means: NDArray[np.float64]) -> PolyCollection:
    """Draw hexagons in colours that show means."""
    from matplotlib.collections import PolyCollection
    from matplotlib.transforms import AffineDeltaTransform

    to_pixels: Any = ax.transData  # affine, as the scales are linear
    cells = PolyCollection(
        [hexagons.polygon], offsets=hexagons.centres, array=means, cmap="cividis", linewidths=0.1,
        edgecolors="face", offset_transform=AffineDeltaTransform(to_pixels),
    )  # fmt: skip
    ax.update_datalim(hexagons.ends)
    ax.add_collection(cells, autolim=False)
    ax.autoscale_view(tight=True)
    return cells


def _limits(means: NDArray[np.float64]) -> tuple[float, float]:
    finite = means[np.abs(means) < _HUGE_MEAN]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.quantile(finite, _TRIMMED)
    margin = _NEAR * (high - low)
    if finite.min() >= low - margin:
        low = finite.min()
    if finite.max() <= high + margin:
        high = finite.max()
    return float(low), float(high)


def _as_numbers(values: ArrayLike) -> NDArray[np.float64]:
    """Return checked values; they may be infinite but not NaN."""
    numbers = as_array(values, "values").astype(np.float64, copy=False)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"values has shape {numbers.shape}; (n,) is needed: one value per point")
    if np.isnan(numbers).any():
        raise ValueError(
            f"values holds NaN (first in row {int(np.argmax(np.isnan(numbers)))}); leave such rows out"
        )
    return numbers
