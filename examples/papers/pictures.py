"""Pictures of the experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastmcmd.io import write_atomically
from fastmcmd.plots.style import COLOURS, matplotlib, tidy

__all__ = ["STYLES", "axes_of", "diagonal", "plain_logarithms", "save"]

_WIDTH, _HEIGHT = 4.0, 3.2  # inches of one panel
# Lines that differ in colour and dash: some lie on each other.
STYLES: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "linestyle": dash}
    for colour, dash in zip(COLOURS, ("-", "--", "-.", ":", "-", "--"), strict=True)
)


def axes_of(columns: int, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels, row by row."""
    plt = matplotlib()
    with plt.rc_context({"axes.prop_cycle": plt.cycler(color=COLOURS)}):
        figure, panels = plt.subplots(
            rows,
            columns,
            figsize=(_WIDTH * columns, _HEIGHT * rows),
            layout="constrained",
            squeeze=False,
        )
    return figure, list(panels.flat)


def plain_logarithms(panel: Axes) -> None:
    """Make both axes logarithmic, with few ticks that are decimal numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set(xscale="log", yscale="log")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def diagonal(panel: Axes) -> None:
    """Draw the line on which predicted and observed frequencies agree."""
    panel.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=0)


def save(figure: Figure, path: Path, legends: Mapping[int, str] | None = None) -> None:
    """Write a figure as a PNG file; ``legends`` has places of legends by panel, if not all have one."""
    for number, panel in enumerate(figure.axes):
        tidy(panel)
        if panel.get_legend_handles_labels()[0] and (legends is None or number in legends):
            place = "best" if legends is None else legends[number]
            panel.legend(frameon=False, fontsize="small", loc=place)
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=100))
    matplotlib().close(figure)
