"""Plots of a report: matplotlib figures as SVG in the colours of the page."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastmcmd.errors import require
from fastmcmd.plots.panels import Panel, panels, panels_over_plane
from fastmcmd.plots.style import ADVICE, COLOURS, matplotlib
from fastmcmd.report.material import Material
from fastmcmd.report.page import Section, figure, heading, paragraph, pictures
from fastmcmd.report.ticks import INK, SOFT, fix_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["over_plane", "picture_section", "svg"]

# Colours as matplotlib writes them, and the page's own.
_COLOURS = {colour.lower(): f"var(--c{i})" for i, colour in enumerate(COLOURS)}
_COLOURS |= {INK: "var(--ink)", SOFT: "var(--soft)"}
_COLOURS |= {"#999999": "var(--soft)", "#666666": "var(--soft)"}  # greys of the plots
_SIZE = (5.2, 3.6)
_DPI = 72  # of SVG
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")  # not tab and newline
_numbers = itertools.count(1)


def svg(draw: Callable[[Axes], object], label: str, size: tuple[float, float] | None = None) -> str:
    """Return the plot of ``draw(ax)`` as an SVG element.

    Parameters
    ----------
    draw : callable (matplotlib axes)
    label : str
        Description of the plot for readers who cannot see it.
    size : (float, float), optional
        Inches; they set only the aspect ratio and the relative size of text.
    """
    library = require("matplotlib", ADVICE)
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "fastmcmd",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": SOFT,
        "axes.titlecolor": INK,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "font.family": ["DejaVu Sans"],  # of matplotlib, to measure; the page has its own fonts
        "font.size": 10,
        "legend.labelcolor": INK,
    }
    with library.rc_context(settings), warnings.catch_warnings():
        # Letters of names that matplotlib's font lacks: the page has its own fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        # Without pyplot, which takes as long to load as all that is used here.
        figure = matplotlib("figure").Figure(figsize=size or _SIZE, dpi=_DPI)
        draw(figure.subplots())
        fix_axes(figure)
        stream = io.StringIO()
        figure.savefig(
            stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    return _inline(stream.getvalue(), label)


def _inline(text: str, label: str) -> str:
    """Return an SVG file as an element of a page, with unique names and the colours of the page."""
    from html import escape

    from fastmcmd._base.tables import printable

    text = _CONTROL.sub("", text[text.index("<svg") :])
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\n\s*(?=[<\"/])", " ", text)  # indents, which no tag needs
    text = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", text)  # the page's own font
    prefix = f"p{next(_numbers)}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r"url\(#", f"url(#{prefix}", text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    for colour, variable in _COLOURS.items():
        text = text.replace(colour, variable)
    # The size follows the page; the view box that matplotlib wrote fixes the aspect ratio.
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(printable(label))}"', 1)


_POINTS = 2_000  # drawn in a picture: each is an element of the page
_SMALL = (4.0, 3.4)  # inches: three fit side by side

# What a picture shows and how it is read, by its title.
_CAPTIONS = {
    "Reliability": "Share of outcomes below each predicted quantile. On the dashed line stated and "
    "observed shares agree; the grey band is the scatter of a calibrated model (95 %).",
    "Frequency and probability": "How often the most likely class is right, against its mean probability, "
    "in bins. Below the dashed line the model is overconfident; bars are the scatter of a calibrated model "
    "(95 %).",
    "Probability integral transform": "Where outcomes fall in their predicted distributions. Flat: "
    "calibrated. Hump: too wide. Valley: too narrow. Slope: biased. Grey: the scatter of a calibrated "
    "model (95 %).",
    "Errors and predicted spread": "The curve behind ENCE: bins of predicted variance. On the dashed "
    "line errors are as large as predicted, above it larger; bars are the scatter of a calibrated "
    "model (95 %).",
    "Sharpness": "Predicted standard deviations, in units of y. Small is good only if calibration is, too.",
    "CCE of all points": "Distance between predicted and true distribution at each input. 0 is perfect. "
    "Grey: few rows near.",
    "CCE over inputs": "Points (a sample if there are many), median and middle 80 % in bins of the input. "
    "Grey: few rows near.",
    "Negative log-likelihood over inputs": "Median and middle 80 % in bins of the input. Also high where "
    "y is hard to predict, even if the model is right.",
    "CRPS over inputs": "Median and middle 80 % in bins of the input. Also high where y is hard to "
    "predict, even if the model is right.",
    "CCE over the plane": "Where predicted and true distribution differ: mean in each hexagon. "
    "Grey: few rows near.",
    "Negative log-likelihood over the plane": "Where outcomes are surprising: mean in each hexagon. "
    "Also high where y is hard to predict.",
    "CRPS over the plane": "Where predictions are far from outcomes: mean in each hexagon. Also high where "
    "y is hard to predict.",
    "Outcome y over the plane": "Mean outcome in each hexagon.",
}
_PLANES = {
    "pca": "Inputs on their first two principal components, unscaled; if there are just two columns, "
    "these are the axes.",
    "tsne": "Inputs under t-SNE: neighbours in the plot are similar; distances between groups mean little.",
    "umap": "Inputs under UMAP: neighbours in the plot are similar; distances between groups mean little.",
}
_CUSTOM = "Inputs under the projection passed as an argument."
_ONE = {
    "Sharpness": " The line is their mean.",
    "CCE of all points": " The line is their mean.",
}
_SEVERAL = {
    "Sharpness": " Share of points with at most this value: a curve further left is sharper.",
    "CCE of all points": " Share of points with at most this value: a curve further left is better.",
}


def picture_section(material: Material) -> Section | None:
    """Return the plots of calibration, sharpness and CCE."""
    available = panels(material.evaluations, _POINTS, material.inputs)
    if not available:
        return None
    return Section("pictures", "Pictures", _in_rows(available, material, None, ""))


def over_plane(material: Material) -> Section | None:
    """Return the plots of the CCE, a score and y over a plane of the inputs."""
    available = panels_over_plane(material.evaluations, material.planes)
    if not available:
        return None
    projection = material.projection
    how = _PLANES[projection] if isinstance(projection, str) else _CUSTOM
    if any(one.encoder is not None for one in material.inputs.values()):
        how += " Inputs are shown after encoding."
    if material.several:
        how += " The maps of a measure share their axes and their scale of colours."
    body = paragraph(how) + _in_rows(available, material, _SMALL, "three")
    return Section("inputs", "Over the inputs", body)


def _in_rows(
    available: list[Panel], material: Material, size: tuple[float, float] | None, kind: str
) -> str:
    """Return plots side by side; those of one measure, one per model, form a row."""
    body = ""
    ungrouped: list[str] = []
    for (title, has_model), group in itertools.groupby(
        available, lambda one: (one.title, bool(one.model))
    ):
        plots = list(group)
        if not has_model:
            ungrouped += [_figure(plot, material, size) for plot in plots]
            continue
        body += pictures(ungrouped, kind) if ungrouped else ""
        ungrouped = []
        caption = _caption(plots[0], material)
        row = [
            figure(svg(plot.draw, f"{title}: {plot.model}", _SMALL), plot.model, "")
            for plot in plots
        ]
        body += heading(title) + paragraph(caption, "how") + pictures(row, "three")
    return body + (pictures(ungrouped, kind) if ungrouped else "")


def _figure(panel: Panel, material: Material, size: tuple[float, float] | None = None) -> str:
    return figure(svg(panel.draw, panel.title, size), panel.title, _caption(panel, material))


def _caption(panel: Panel, material: Material) -> str:
    caption = _CAPTIONS[panel.title]
    if not panel.model:
        caption += (_SEVERAL if material.several else _ONE).get(panel.title, "")
    if panel.point_count < panel.n:
        caption += f" Shows {panel.point_count:,} of {panel.n:,} rows, chosen at random."
    return caption
