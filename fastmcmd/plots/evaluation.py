"""The pictures of an evaluation side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmcmd.plots.calibration import pit_histogram, reliability, variance
from fastmcmd.plots.congruence import cce_histogram, cce_over_inputs, cce_projection
from fastmcmd.plots.style import COLOURS, matplotlib

if TYPE_CHECKING:
    from fastmcmd.evaluation.result import Evaluation

__all__ = ["evaluation", "panels"]


def panels(
    found: Evaluation, points: int = 20_000, colour: str = COLOURS[0]
) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return title and drawing function (of axes) of every picture that applies.

    Of more than ``points`` points some are drawn.
    """
    curves = found.curves
    known: list[tuple[str, Callable[[Any], Any]]] = []
    if "reliability" in curves:
        known.append(
            ("Reliability", lambda ax: reliability(curves["reliability"], ax, colour=colour))
        )
    if "pit" in curves:
        known.append(
            (
                "Probability integral transform",
                lambda ax: pit_histogram(curves["pit"], ax, colour=colour),
            )
        )
    if "variance" in curves:
        known.append(
            (
                "Errors and predicted spread",
                lambda ax: variance(curves["variance"], ax, colour=colour),
            )
        )
    if found.cce is not None:
        cce = found.cce
        known.append(("CCE of all points", lambda ax: cce_histogram(cce.values, ax, colour=colour)))
        if drawable(found.x):
            x = found.x
            known.append(
                (
                    "CCE over inputs",
                    lambda ax: cce_over_inputs(x, cce.values, ax, colour=colour, points=points),
                )
            )
            if np.ndim(x) == 2 and np.shape(x)[1] > 1:
                known.append(("Where CCE is high", lambda ax: cce_projection(x, cce.values, ax)))
    return known


def drawable(x: Any) -> bool:
    """Tell whether inputs are an array in memory, which pictures can show."""
    return getattr(x, "ndim", 0) in (1, 2) or isinstance(x, list)


def evaluation(found: Evaluation, figure: Any = None) -> Any:
    """Draw what there is of an evaluation: reliability, PIT, errors against spread, CCE.

    Parameters
    ----------
    found : Evaluation
        What is drawn.
    figure : matplotlib figure, optional
        Where to draw; a new one by default.

    Returns
    -------
    matplotlib figure
    """
    known = panels(found)
    if not known:
        raise ValueError("there is nothing to draw: outputs are vectors and no inputs were given")
    plt = matplotlib()
    columns = min(3, len(known))
    lines = -(-len(known) // columns)
    figure = figure or plt.figure(figsize=(5 * columns, 4.2 * lines), layout="constrained")
    for place, (title, draw) in enumerate(known, start=1):
        ax = figure.add_subplot(lines, columns, place)
        draw(ax)
        ax.set_title(title)
    return figure
