"""Pictures of the experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastmcmd.io import write_atomically
from fastmcmd.plots.style import COLOURS, matplotlib, tidy

__all__ = ["STYLES", "axes_of", "save"]

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


def save(figure: Figure, path: Path, legend: int | None = None) -> None:
    """Write a figure as a PNG file, with legends in all panels or in one, the number ``legend``."""
    for number, panel in enumerate(figure.axes):
        tidy(panel)
        if panel.get_legend_handles_labels()[0] and legend in (None, number):
            panel.legend(frameon=False, fontsize="small")
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=100))
    matplotlib().close(figure)
