"""Ticks and labels of a plot as a few artists, and the margins that they need.

matplotlib makes six artists for each tick and measures its label several times, so that ticks follow limits
and sizes that change. That takes longer than to draw everything else in a plot. In a page nothing changes:
one line of markers draws all ticks of an axis, and the lengths of labels determine the margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

__all__ = ["INK", "SOFT", "fix_axes"]

INK, SOFT = (
    "#000001",
    "#666667",
)  # of text and of ticks; different from colours that data might have
# Pixels, which are points at the resolution of SVG; widths are those of letters of 10 points.
_LINE = 17.0  # a line of text with the space around it
_DIGIT, _POINT, _MINUS = 6.4, 3.2, 8.4
_TICK, _PAD = 3.0, 3.5  # length of a tick, and space between it and its label
_TEXT, _GAP = 11.0, 4.0  # height of a label, and space between it and the name of the axis
_FACTOR = 3.0  # space between an axis and its factor
_MARGIN = 8.0  # ticks and space around them
_INCH = 72.0
_NEAR = 0.5  # outside the limits at most, of ticks that are drawn


@dataclass(frozen=True, eq=False)
class _Ticks:
    """The ticks of an axis within its limits: their places and labels, and a factor such as 1e-6."""

    places: NDArray[np.float64]
    labels: list[str]
    factor: str

    @staticmethod
    def of(axis: Axis, length: float) -> _Ticks:
        """Return the ticks of a linear axis of a length in pixels."""
        places = np.asarray(axis.get_majorticklocs(), dtype=np.float64)
        formatter = axis.get_major_formatter()
        labels = formatter.format_ticks(places.tolist())
        low, high = sorted(axis.get_view_interval())
        beyond = _NEAR * (high - low) / max(length, 1.0)
        inside = np.flatnonzero((places >= low - beyond) & (places <= high + beyond)).tolist()
        return _Ticks(places[inside], [labels[place] for place in inside], formatter.get_offset())

    @property
    def width(self) -> float:
        """Width of the longest label in pixels."""
        return max(map(_width, self.labels), default=0.0)


def _width(number: str) -> float:
    """Return the width of a number in pixels."""
    points, signs = number.count("."), number.count("\N{MINUS SIGN}")
    return _POINT * points + _MINUS * signs + _DIGIT * (len(number) - points - signs)


def fix_axes(figure: Figure) -> None:
    """Draw the ticks and labels of all axes of a figure, and let the axes fill it.

    A layout engine measures every text, which takes longer than to draw the figure.
    """
    width, height = figure.bbox.size
    main, *bars = figure.axes
    upright = {axes: _Ticks.of(axes.yaxis, axes.bbox.height) for axes in figure.axes}
    # The labels of an axis determine the factor above it.
    lines = 1 + (bool(main.get_title()) or any(one.factor for one in upright.values()))
    right = max((_beside(bar, upright[bar]) for bar in bars), default=2 * _DIGIT)
    figure.subplots_adjust(
        left=_beside(main, upright[main]) / width,
        bottom=(_MARGIN + _LINE * (1 + bool(main.get_xlabel()))) / height,
        right=1 - right / width,
        top=1 - (lines * _LINE - _DIGIT) / height,
    )
    for axes in figure.axes:
        axes.apply_aspect()  # decides on the width
        _draw_below(axes, _Ticks.of(axes.xaxis, axes.bbox.width))
        _draw_beside(axes, upright[axes])


def _beside(axes: Axes, ticks: _Ticks) -> float:
    """Return the width of the labels of the vertical axis in pixels."""
    return _MARGIN + ticks.width + _LINE * bool(axes.get_ylabel())


def _draw_below(axes: Axes, ticks: _Ticks) -> None:
    """Draw the horizontal axis."""
    axes.xaxis.set_visible(False)
    at, pad = axes.get_xaxis_transform(), -(_TICK + _PAD)
    _marks(axes, "TICKDOWN", ticks.places, np.zeros(len(ticks.places)), at)
    lower = _shifted(axes, at, 0.0, pad)
    for place, label in zip(ticks.places, ticks.labels, strict=True):
        _text(axes, place, 0.0, label, lower, ha="center", va="top", color=SOFT)
    below = _shifted(axes, axes.transAxes, 0.0, pad - _TEXT - _GAP)
    _text(axes, 0.5, 0.0, axes.get_xlabel(), below, ha="center", va="top", color=INK)
    _text(axes, 1.0, 0.0, ticks.factor, below, ha="right", va="top", color=SOFT)


def _draw_beside(axes: Axes, ticks: _Ticks) -> None:
    """Draw the vertical axis: on the right of the axes for a colour bar."""
    axes.yaxis.set_visible(False)
    is_right = axes.yaxis.get_ticks_position() == "right"
    edge, sign = (1.0, 1.0) if is_right else (0.0, -1.0)
    at, pad = axes.get_yaxis_transform(), sign * (_TICK + _PAD)
    mark = "TICKRIGHT" if is_right else "TICKLEFT"
    _marks(axes, mark, np.full(len(ticks.places), edge), ticks.places, at)
    outer, side = _shifted(axes, at, pad, 0.0), "left" if is_right else "right"
    for place, label in zip(ticks.places, ticks.labels, strict=True):
        _text(axes, edge, place, label, outer, ha=side, va="center_baseline", color=SOFT)
    _text(
        axes, edge, 0.5, axes.get_ylabel(),
        _shifted(axes, axes.transAxes, pad + sign * (ticks.width + _GAP), 0.0),
        ha="center", va="top" if is_right else "bottom", rotation="vertical", rotation_mode="anchor",
        color=INK,
    )  # fmt: skip
    above = _shifted(axes, axes.transAxes, 0.0, _FACTOR)
    _text(axes, edge, 1.0, ticks.factor, above, ha="right" if is_right else "left", color=SOFT)


def _shifted(axes: Axes, transform: Transform, right: float, up: float) -> Transform:
    """Return a transform followed by a shift in points."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure()
    assert figure is not None
    return transform + ScaledTranslation(right / _INCH, up / _INCH, figure.dpi_scale_trans)


def _marks(
    axes: Axes, marker: str, x: NDArray[np.float64], y: NDArray[np.float64], transform: Transform
) -> None:
    """Draw ticks at some places."""
    from matplotlib import markers
    from matplotlib.lines import Line2D

    if len(x):
        options: dict[str, Any] = {"linestyle": "none", "markersize": _TICK, "color": SOFT}
        mark = Line2D(
            x,
            y,
            marker=getattr(markers, marker),
            markeredgewidth=0.8,
            transform=transform,
            **options,
        )
        axes.figure.add_artist(mark)


def _text(axes: Axes, x: float, y: float, text: str, transform: Transform, **options: Any) -> None:
    """Draw a text, unless it is empty."""
    from matplotlib.text import Text

    if text:  # of the figure: a legend need not avoid it
        axes.figure.add_artist(Text(x, y, text, transform=transform, **options))
