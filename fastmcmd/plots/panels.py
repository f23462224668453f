"""The plots of one or several evaluations. To add a plot, write a function in this module."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import as_array, quote
from fastmcmd.metrics import PITHistogram
from fastmcmd.plots.calibration import pit_histogram, reliability, variance
from fastmcmd.plots.congruence import cce_histogram
from fastmcmd.plots.inputs import Inputs
from fastmcmd.plots.projection import Plane, Projection, project
from fastmcmd.plots.style import COLOURS, matplotlib, plain
from fastmcmd.plots.values import colour_limits, cumulative, histogram, over_inputs, over_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastmcmd.evaluation.comparison import Comparison
    from fastmcmd.evaluation.result import Evaluation

    Evaluations = Mapping[str, Evaluation]

__all__ = [
    "Panel", "evaluation", "inputs_of", "panels", "panels_over_plane", "planes_of", "used_rows",
]  # fmt: skip

_STD = "predicted standard deviation"
_SCORES = {"log_score": "negative log-likelihood", "crps": "CRPS"}  # the first that exists
_HEADROOM = 1.06  # above the highest bar
_POINTS = 20_000
_TITLE = 42  # letters of a title that fit above a panel
_HANDLE = 6  # letters that the line or marker beside a name in a legend takes


@dataclass(frozen=True)
class Panel:
    """One plot.

    Attributes
    ----------
    title : str
        Title of the plot.
    draw : callable (matplotlib axes)
        Draws the plot.
    model : str
        The model shown, if there are several; "" if the plot shows all models.
    point_count, n : int
        Number of rows used for the plot, and of all rows.
    """

    title: str
    draw: Callable[[Axes], object]
    model: str = ""
    point_count: int = 0
    n: int = 0


def used_rows(evaluation: Evaluation) -> NDArray[np.intp]:
    """Return the rows that were used: all rows except those left out for NaN."""
    return np.flatnonzero(np.isfinite(evaluation.rows["cce"]))


def inputs_of(evaluations: Evaluations) -> dict[str, Inputs]:
    """Return the inputs of every evaluation that has any; equal inputs share one object.

    The evaluation has consumed inputs that were an iterator, so these are missing.
    """
    by_array: dict[tuple[int, int], Inputs] = {}
    by_name = {}
    for name, one in evaluations.items():
        if one.congruence is None or one.cce is None or hasattr(one.x, "__next__"):
            continue
        encoder = one.congruence.encoder
        key = (id(one.x), id(encoder))
        if key not in by_array:
            by_array[key] = Inputs(one.x, len(one.cce), encoder)
        by_name[name] = by_array[key]
    return by_name


def panels(
    evaluations: Evaluations, points: int = _POINTS, inputs: Mapping[str, Inputs] | None = None
) -> list[Panel]:
    """Return the plots of calibration, sharpness and CCE that apply; models share a plot.

    Parameters
    ----------
    evaluations : dict of Evaluation
        Evaluations by the names of their models.
    points : int
        Largest number of points, over all models.
    inputs : dict of Inputs, optional
        The result of `inputs_of`, if it is already available.
    """
    inputs = inputs_of(evaluations) if inputs is None else inputs
    several = len(evaluations) > 1
    points //= len(evaluations)
    plots = [*_models_together(
        "Reliability", evaluations, lambda one: "reliability" in one.curves,
        lambda ax, one, **how: reliability(one.curves["reliability"], ax, **how),
    )]  # fmt: skip
    plots += _models_together(
        "Frequency and probability", evaluations, lambda one: "reliability_of_classes" in one.curves,
        lambda ax, one, **how: reliability(one.curves["reliability_of_classes"], ax, **how),
    )  # fmt: skip
    plots += _models_together(
        "Errors and predicted spread", evaluations, lambda one: "variance" in one.curves,
        lambda ax, one, **how: variance(one.curves["variance"], ax, **how),
    )  # fmt: skip
    plots += _pit(evaluations)
    distribution = cumulative if several else histogram
    plots += _models_together(
        "Sharpness", evaluations, _has_spread,
        lambda ax, one, **how: distribution(one.prediction.std, ax, name=_STD, **how),
    )  # fmt: skip
    plots += _models_together(
        "CCE of all points", evaluations, lambda one: one.cce is not None and one.in_memory,
        lambda ax, one, **how: cumulative(one.cce, ax, name="CCE", **how)
        if several else cce_histogram(one.cce, ax, supported=one.supported, **how),
    )  # fmt: skip
    known_inputs = {id(one): inputs[name] for name, one in evaluations.items() if name in inputs}
    plots += _models_together(
        "CCE over inputs", evaluations, lambda one: id(one) in known_inputs,
        lambda ax, one, **how: _with_name(one, over_inputs(
            known_inputs[id(one)], one.cce, ax, points=points, name="CCE", supported=one.supported, **how
        )),
        known_inputs,
    )  # fmt: skip
    for score, name in _SCORES.items():
        plots += _score_over_inputs(score, name, evaluations, known_inputs)
    return plots


def _score_over_inputs(
    score: str, name: str, evaluations: Evaluations, label: Mapping[int, Inputs]
) -> Iterable[Panel]:
    """Return the plot of a score over inputs of one column, for the models with this score."""
    return _models_together(
        f"{_title(name)} over inputs", evaluations,
        lambda one: id(one) in label and _on_a_line(one) and _score(one) == score,
        lambda ax, one, **how: _with_name(one, over_inputs(
            label[id(one)], one.rows[score][used_rows(one)], ax, points=0, name=name, **how
        )),
        label,
    )  # fmt: skip


def _with_name(evaluation: Evaluation, ax: Axes) -> Axes:
    """Name the horizontal axis after the only column of the inputs, if it has a name."""
    if _on_a_line(evaluation) and len(evaluation.column_names) == 1:
        ax.set_xlabel(plain(evaluation.column_names[0]))
    return ax


def planes_of(
    evaluations: Evaluations,
    projection: Projection = "pca",
    inputs: Mapping[str, Inputs] | None = None,
) -> dict[str, Plane]:
    """Return the positions of the inputs of each evaluation on a plane; equal inputs share one plane.

    Parameters
    ----------
    evaluations, inputs
        As in `panels`.
    projection
        As in `project`. An array has one row per row of `evaluate`, or per row that was used. With "pca",
        inputs of one column have no plane.

    Raises
    ------
    ValueError
        If the projection is not "pca" and no evaluation has inputs to project.
    """
    inputs = inputs_of(evaluations) if inputs is None else inputs
    default = isinstance(projection, str) and projection == "pca"
    if not inputs and not default:
        raise ValueError(
            "projection needs the inputs: fastmcmd.evaluate(y, prediction, x), x not an iterator"
        )
    by_inputs: dict[int, Plane] = {}
    planes = {}
    for name, one in inputs.items():
        if default and _on_a_line(evaluations[name]):
            continue
        if id(one) not in by_inputs:
            plane = project(one, _of_used(projection, evaluations[name]))
            names = evaluations[name].column_names
            if default and len(names) == 2 and one.encoder is None:  # the columns themselves
                plane = replace(plane, names=(plain(names[0]), plain(names[1])))
            by_inputs[id(one)] = plane
        planes[name] = by_inputs[id(one)]
    return planes


def panels_over_plane(evaluations: Evaluations, planes: Mapping[str, Plane]) -> list[Panel]:
    """Return plots of the CCE, a score, and the outcomes over a plane of the inputs.

    Plots of one measure follow each other, in the order of the models, with one scale of colours. The
    score is the first that all models have, so that their plots show the same measure.

    Parameters
    ----------
    evaluations
        As in `panels`.
    planes : dict of Plane
        The result of `planes_of`.
    """
    in_plane = {name: evaluations[name] for name in planes}
    several = len(evaluations) > 1
    score = _common_score(in_plane)
    values = {name: _values(one, score) for name, one in in_plane.items()}
    pictures = []
    for title in dict.fromkeys(title for v in values.values() for title in v):
        parts = {name: v[title] for name, v in values.items() if title in v}
        limits = None  # of a single plot: its own
        if len(parts) > 1:
            limits = colour_limits([(planes[name], part) for name, part in parts.items()])
        for name, part in parts.items():
            supported = in_plane[name].supported if title == "CCE" else None
            pictures.append(
                _over(planes[name], part, title, name if several else "", limits, supported)
            )
    outcomes: set[int] = set()
    for name, one in in_plane.items():
        if one.y.ndim == 1 and one.classes is None and id(planes[name]) not in outcomes:
            outcomes.add(id(planes[name]))
            pictures.append(_over(planes[name], one.y, "outcome y"))
    return pictures


def _title(name: str) -> str:
    return f"{name[:1].upper()}{name[1:]}"


def _over(
    plane: Plane,
    values: ArrayLike,
    name: str,
    model: str = "",
    limits: tuple[float, float] | None = None,
    supported: ArrayLike | None = None,
) -> Panel:
    def draw(ax: Axes) -> Axes:
        return over_plane(plane, values, ax, name=name, limits=limits, supported=supported)

    return Panel(f"{_title(name)} over the plane", draw, model, len(plane.rows), plane.n)


def _common_score(evaluations: Evaluations) -> str | None:
    """Return the first score that all models have; None if they share none."""
    return next(
        (name for name in _SCORES if all(name in one.rows for one in evaluations.values())), None
    )


def _values(evaluation: Evaluation, common_score: str | None) -> dict[str, ArrayLike]:
    """Return the values to plot over the plane for a model: the CCE, and its per-row score."""
    assert evaluation.cce is not None
    score = common_score or _score(evaluation)
    values: dict[str, ArrayLike] = {"CCE": evaluation.cce.values}
    if score is not None:
        values[_SCORES[score]] = evaluation.rows[score][used_rows(evaluation)]
    return values


def _of_used(projection: Projection, evaluation: Evaluation) -> Projection:
    """Return the projection; if it is an array of positions, those of the rows that were used."""
    if isinstance(projection, str) or callable(projection):
        return projection
    places = as_array(projection, "projection")
    all_rows = evaluation.n != len(evaluation.y) and len(places) == evaluation.n
    return places[used_rows(evaluation)] if all_rows else places


def _score(evaluation: Evaluation) -> str | None:
    return next((name for name in _SCORES if name in evaluation.rows), None)


def _on_a_line(evaluation: Evaluation) -> bool:
    return evaluation.congruence is not None and evaluation.congruence.n_features_in_ == 1


def _has_spread(evaluation: Evaluation) -> bool:
    if not evaluation.in_memory:
        return False
    numbers = evaluation.y.ndim == 1 and evaluation.classes is None
    return numbers and bool(np.isfinite(evaluation.prediction.std).all())


def _models_together(
    title: str,
    evaluations: Evaluations,
    applies: Callable[[Any], bool],
    draw: Callable[..., object],
    inputs: Mapping[int, Inputs] | None = None,
) -> Iterable[Panel]:
    """Yield one plot of all models to which it applies, or several if there are more models than colours.

    ``inputs`` are the inputs for the horizontal axis, by the id of the evaluation.
    """
    names = list(evaluations)
    for start in range(0, len(names), len(COLOURS)):
        part = {
            name: (evaluations[name], colour)
            for name, colour in zip(names[start:], COLOURS, strict=False)
            if applies(evaluations[name])
        }
        if not part:
            continue
        over = [] if inputs is None else [inputs[id(one)] for one, _ in part.values()]
        n = max(map(len, over), default=0)
        point_count = min((min(len(one), one.most) for one in over), default=0)
        yield Panel(title, _draw_models(part, draw, len(names) > 1), point_count=point_count, n=n)


def _draw_models(
    part: Mapping[str, tuple[Evaluation, str]], draw: Callable[..., object], several: bool
) -> Callable[[Axes], object]:
    def every(ax: Axes) -> Axes:
        for name, (evaluation, colour) in part.items():
            draw(ax, evaluation, label=plain(name) if several else None, colour=colour)
        return ax

    return every


def _pit(evaluations: Evaluations) -> Iterable[Panel]:
    """Yield a PIT histogram for each model, with equal heights; overlaid bars would be illegible."""
    curves = {name: one.curves["pit"] for name, one in evaluations.items() if "pit" in one.curves}
    top = _HEADROOM * max((curve.heights.max() for curve in curves.values()), default=1.0)
    for place, name in enumerate(evaluations):
        if name in curves:
            colour = COLOURS[place % len(COLOURS)]
            model = name if len(evaluations) > 1 else ""
            yield Panel(
                "Probability integral transform", _one_pit(curves[name], colour, top), model
            )


def _one_pit(curve: PITHistogram, colour: str, top: float) -> Callable[[Axes], object]:
    def draw(ax: Axes) -> Axes:
        pit_histogram(curve, ax, colour=colour)
        ax.set_ylim(0, max(top, ax.get_ylim()[1]))
        return ax

    return draw


def evaluation(
    evaluations: Evaluation | Mapping[str, Evaluation] | Comparison,
    figure: Figure | None = None,
    projection: Projection = "pca",
) -> Figure:
    """Plot everything about an evaluation: calibration, sharpness, the CCE, and where it is high.

    Parameters
    ----------
    evaluations : Evaluation, dict of Evaluation by the name of the model, or Comparison
        What to plot. Models share a plot if they remain distinguishable in it.
    figure : matplotlib figure, optional
        Figure to draw in. Default: a new figure.
    projection
        Projection of inputs with several columns onto a plane, as in `project`.

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

    matplotlib("figure")
    models = list(evaluations.values()) if isinstance(evaluations, Mapping) else [evaluations]
    if not models or not all(isinstance(one, (Comparison, Evaluation)) for one in models):
        raise TypeError(
            f"evaluations is {quote(evaluations)}; an Evaluation, a dict of at least one Evaluation by "
            "the name of its model, or a Comparison is needed"
        )
    if isinstance(evaluations, Evaluation):
        evaluations = {"model": evaluations}
    if not isinstance(evaluations, Comparison):
        evaluations = compare(evaluations)
    evaluations = evaluations.evaluations
    inputs = inputs_of(evaluations)
    planes = planes_of(evaluations, projection, inputs)
    available = panels(evaluations, inputs=inputs) + panels_over_plane(evaluations, planes)
    if not available:
        inputs_missing = "no inputs were given"
        if not all(one.in_memory for one in evaluations.values()):
            inputs_missing = "rows are not in memory"
        raise ValueError(f"there is nothing to draw: outputs are vectors and {inputs_missing}")
    columns = min(3, len(available))
    lines = -(-len(available) // columns)
    size = 5 * columns, 4.2 * lines
    figure = figure or matplotlib().figure(figsize=size, layout="constrained")
    for place, panel in enumerate(available, start=1):
        ax = figure.add_subplot(lines, columns, place)
        panel.draw(ax)
        title = f"{panel.title}: {plain(panel.model)}" if panel.model else panel.title
        ax.set_title(textwrap.fill(title, _TITLE))
    if len(evaluations) > 1:
        _share_legend(figure, [plain(name) for name in evaluations])
    return figure


def _share_legend(figure: Figure, names: list[str]) -> None:
    """Draw one legend of the models above the plots, in place of those that would cover curves."""
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        legend = ax.get_legend()
        labels = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        if legend is not None and set(labels) <= set(names):
            legend.remove()
            handles = {**labels, **handles}
    shown_names = [name for name in names if name in handles]
    if shown_names:
        letters = max(map(len, shown_names)) + _HANDLE
        figure.legend(
            [handles[name] for name in shown_names], shown_names, frameon=False,
            loc="outside upper center", ncols=max(1, min(len(shown_names), 3 * _TITLE // letters)),
        )  # fmt: skip
