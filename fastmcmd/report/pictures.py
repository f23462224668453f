"""Matplotlib figures as SVG whose colours follow the page, light or dark."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastmcmd.plots.style import COLOURS, matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["svg"]

# Colours as matplotlib writes them, and the page's own.
_COLOURS = {colour.lower(): f"var(--c{i})" for i, colour in enumerate(COLOURS)}
_INK, _SOFT = "#000001", "#666667"  # different from colours that data might have
_COLOURS |= {_INK: "var(--ink)", _SOFT: "var(--soft)"}
_COLOURS |= {"#999999": "var(--soft)", "#666666": "var(--soft)"}  # greys of the plots
_SIZE = (5.2, 3.6)
_numbers = itertools.count(1)


def svg(draw: Callable[[Axes], object], label: str, size: tuple[float, float] | None = None) -> str:
    """Return what ``draw(ax)`` draws as an SVG element.

    Parameters
    ----------
    draw : callable (matplotlib axes)
    label : str
        What it shows, for people who do not see it.
    size : (float, float), optional
        Inches; only the shape, and how large text is in it, are seen in the page.
    """
    plt = matplotlib()
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "fastmcmd",
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _SOFT,
        "axes.titlecolor": _INK,
        "xtick.color": _SOFT,
        "ytick.color": _SOFT,
        "font.size": 10,
        "legend.labelcolor": _INK,
    }
    with plt.rc_context(settings), warnings.catch_warnings():
        # Letters of names that matplotlib's font lacks: the page has its own fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure, ax = plt.subplots(figsize=size or _SIZE, layout="constrained")
        try:
            draw(ax)
            stream = io.StringIO()
            figure.savefig(
                stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        finally:
            plt.close(figure)
    return _inline(stream.getvalue(), label)


def _inline(text: str, label: str) -> str:
    """Return a file of SVG as an element of a page: with unique names, and the colours of the page."""
    from html import escape

    from fastmcmd._base.tables import printable

    text = "".join(c for c in text[text.index("<svg") :] if c >= " " or c in "\n\t")
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
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
