"""The pictures of an evaluation side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastmcmd._base.checks import shown
from fastmcmd.plots.panels import inputs_of, panels, panels_over_plane
from fastmcmd.plots.projection import Projection
from fastmcmd.plots.style import matplotlib, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastmcmd.evaluation.comparison import Comparison
    from fastmcmd.evaluation.result import Evaluation

__all__ = ["evaluation"]


def evaluation(
    found: Evaluation | Mapping[str, Evaluation] | Comparison,
    figure: Figure | None = None,
    projection: Projection = "pca",
) -> Figure:
    """Draw all pictures of an evaluation: calibration, sharpness, CCE, and where it is high.

    Parameters
    ----------
    found : Evaluation, dict of Evaluation by the name of the model, or Comparison
        What is drawn; models share a picture if they remain distinguishable in it.
    figure : matplotlib figure, optional
        Where to draw; a new one by default.
    projection
        How inputs of several columns are laid on a plane; as in `project`.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> from fastmcmd import plots
    >>> y = np.random.default_rng(0).normal(size=100)
    >>> models = {"right": (np.zeros(100), 1.0), "wide": (np.zeros(100), 3.0)}
    >>> figure = plots.evaluation({name: fm.evaluate(y, model) for name, model in models.items()})
    >>> [ax.get_title() for ax in figure.axes][1:3]
    ['Errors and predicted spread', 'Probability integral transform: right']
    """
    from fastmcmd.evaluation.comparison import Comparison, compare
    from fastmcmd.evaluation.result import Evaluation

    plt = matplotlib()
    models = list(found.values()) if isinstance(found, Mapping) else [found]
    if not models or not all(isinstance(one, (Comparison, Evaluation)) for one in models):
        raise TypeError(
            f"found is {shown(found)}; an Evaluation, a dict of at least one Evaluation by the name of "
            "its model, or a Comparison is needed"
        )
    if not isinstance(found, Comparison):
        found = compare({"model": found} if isinstance(found, Evaluation) else found)
    evaluations = found.evaluations
    inputs = inputs_of(evaluations)
    available = panels(evaluations, inputs=inputs) + panels_over_plane(
        evaluations, projection, inputs
    )
    if not available:
        raise ValueError("there is nothing to draw: outputs are vectors and no inputs were given")
    columns = min(3, len(available))
    lines = -(-len(available) // columns)
    figure = figure or plt.figure(figsize=(5 * columns, 4.2 * lines), layout="constrained")
    for place, panel in enumerate(available, start=1):
        ax = figure.add_subplot(lines, columns, place)
        panel.draw(ax)
        ax.set_title(f"{panel.title}: {plain(panel.model)}" if panel.model else panel.title)
    return figure
