"""Pictures of the experiments."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastmcmd.io import write_atomically
from fastmcmd.plots.style import matplotlib, tidy

__all__ = ["axes_of", "save"]

_WIDTH, _HEIGHT = 4.0, 3.2  # inches of one panel


def axes_of(columns: int, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels, row by row."""
    figure, panels = matplotlib().subplots(
        rows,
        columns,
        figsize=(_WIDTH * columns, _HEIGHT * rows),
        layout="constrained",
        squeeze=False,
    )
    return figure, list(panels.flat)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG file."""
    for panel in figure.axes:
        tidy(panel)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(frameon=False, fontsize="small")
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=100))
    matplotlib().close(figure)
