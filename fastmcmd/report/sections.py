"""The parts of the page, in order: each takes the evaluations and returns a `Section`, or None."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from fastmcmd._version import __version__
from fastmcmd.plots.congruence import witness
from fastmcmd.plots.evaluation import panels
from fastmcmd.plots.style import COLOURS
from fastmcmd.report.page import Cell, Section, figure, note, paragraph, pictures, table
from fastmcmd.report.pictures import svg

if TYPE_CHECKING:
    from fastmcmd.evaluation.result import Evaluation

    Evaluations = Mapping[str, Evaluation]

__all__ = ["SECTIONS"]

_POINTS = 2_000  # drawn in a picture: each is an element of the page
_LISTED = 15  # best and worst points
_GRID = 200  # outputs at which a witness is drawn

# What a picture shows and how it is read, by its title.
_CAPTIONS = {
    "Reliability": "Share of outcomes below each predicted quantile. On the dashed line stated and "
    "observed shares agree; the grey band is what a calibrated model scatters (95 %).",
    "Probability integral transform": "Where outcomes fall in their predicted distributions. Flat: "
    "calibrated. Hump: too wide. Valley: too narrow. Slope: biased.",
    "Errors and predicted spread": "Bins of predicted variance. On the dashed line errors are as large "
    "as predicted; bars are what a calibrated model scatters (95 %).",
    "CCE of all points": "Distance between predicted and true distribution at each input, and its mean "
    "(line). 0 is perfect.",
    "CCE over inputs": "Median and middle 80 % of CCE in bins of the input.",
    "Where CCE is high": "Mean CCE over the plane of largest spread of the inputs.",
}

_NAMES = {"pit": "PIT", "crps": "CRPS", "log_score": "log score"}

_HOW = (
    "Scores (lower is better) say which model is better, not whether one is good. Calibration says "
    "whether stated uncertainty is right on average over all inputs: a model that ignores its inputs "
    "can be calibrated. The conditional congruence error (CCE) says how far the predicted "
    "distribution is from the true one at each input, and sees both.",
    "No number is exactly 0 for a finite sample of a perfect model: ENCE stands beside what a "
    "calibrated model would have, curves beside a band.",
)


def _summary(evaluations: Evaluations) -> Section:
    from fastmcmd.evaluation.comparison import Comparison
    from fastmcmd.evaluation.result import BEST

    several = len(evaluations) > 1
    compared = Comparison(evaluations)
    rows: list[Any] = []
    section = ""
    for one, values in compared.lines():
        if one.section != section:
            section = one.section
            rows.append(section)
        best = compared.best(one.best, values)
        cells = [Cell(one.label)]
        for place, (value, found) in enumerate(zip(values, evaluations.values(), strict=True)):
            told = "" if value is None else f"{value:.4g}"
            bounds = next((m for m in found.measured if m.name == one.name), None)
            if bounds is not None and bounds.low is not None:
                told += f" ({bounds.low:.3g} to {bounds.high:.3g})"
            cells.append(Cell(told, value, "best" if place in best else ""))
        rows.append([*cells, Cell(BEST[one.best], kind="word")])
    body = table(["", *(evaluations if several else ["value"]), ""], rows)
    first = next(iter(evaluations.values()))
    if any(one.low is not None for one in first.measured):
        share = 100 * first.settings["confidence"]
        body += paragraph(f"In brackets: bootstrap intervals of level {share:g} %.", "how")
    for name, found in evaluations.items():
        body += "".join(note(f"{name}: {told}" if several else told) for told in found.notes)
    return Section("summary", "Summary", body + "".join(paragraph(told, "how") for told in _HOW))


def _pictures(evaluations: Evaluations) -> Section | None:
    """Return all pictures, those of the same kind of several models beside each other."""
    drawn: dict[str, list[str]] = {}
    for place, (name, found) in enumerate(evaluations.items()):
        colour = COLOURS[place % len(COLOURS)]
        for title, draw in panels(found, _POINTS, colour):
            told = f"{name}. " if len(evaluations) > 1 else ""
            caption = f"{title}. {told}{_CAPTIONS[title]}"
            drawn.setdefault(title, []).append(figure(svg(draw, f"{title} {told}"), caption))
    every = [one for ones in drawn.values() for one in ones]
    return Section("pictures", "Pictures", pictures(every)) if every else None


def _groups(evaluations: Evaluations) -> Section | None:
    if not any(found.by for found in evaluations.values()):
        return None
    body = ""
    for name, found in evaluations.items():
        groups = dict(found.by or {})
        head = ["" if len(evaluations) == 1 else name]
        head += [f"{label} ({rows:,} rows)" for label, (rows, _) in groups.items()]
        rows: list[Any] = []
        for one in found.measured:
            values = [
                next((m.value for m in numbers if m.name == one.name), None)
                for _, numbers in groups.values()
            ]
            cells = [Cell("" if v is None else f"{v:.4g}", v) for v in values]
            rows.append([Cell(one.label), *cells])
        body += table(head, rows)
    return Section("groups", "Groups", body)


def _points(evaluations: Evaluations) -> Section | None:
    body = ""
    for name, found in evaluations.items():
        if found.cce is None:
            continue
        told = f"{name}: " if len(evaluations) > 1 else ""
        for what, rows in _extremes(found.rows["cce"]):
            body += paragraph(f"{told}Points of {what} CCE (a click on a heading sorts).")
            body += table(*_listed(found, rows), sortable=True)
        drawn = _witness_of_worst(found)
        if drawn:
            body += drawn
    return Section("points", "Best and worst points", body) if body else None


def _extremes(cce: Any) -> list[tuple[str, Any]]:
    order = np.argsort(cce)  # NaN, of rows left out, last
    order = order[: int(np.isfinite(cce).sum())]
    return [("largest", order[::-1][:_LISTED]), ("smallest", order[:_LISTED])]


def _listed(found: Evaluation, rows: Any) -> tuple[list[str], list[Any]]:
    """Return head and rows of a table of some points."""
    columns: dict[str, Any] = {"row": rows, "CCE": found.rows["cce"][rows]}
    where = _kept(found, rows)
    if found.y.ndim == 1:
        some = found.prediction.take(where)
        columns |= {"outcome": found.y[where], "predicted mean": some.mean, "std": some.std}
    for name in ("pit", "crps", "log_score"):
        if name in found.rows:
            columns[_NAMES[name]] = found.rows[name][rows]
    lines = [
        [Cell(_number(value), float(value)) for value in line]
        for line in zip(*columns.values(), strict=True)
    ]
    return list(columns), lines


def _kept(found: Evaluation, rows: Any) -> Any:
    """Return where given rows are among those that were used."""
    used = np.flatnonzero(np.isfinite(found.rows["cce"]))
    return np.searchsorted(used, rows)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, np.integer)) else f"{value:.5g}"


def _witness_of_worst(found: Evaluation) -> str:
    """Return the witness at the point of largest CCE, where outputs are numbers."""
    if found.y.ndim != 1 or found.congruence is None or found.x is None:
        return ""
    if found.congruence.encoder is not None or not hasattr(found.x, "__getitem__"):
        return ""
    worst = int(np.nanargmax(found.rows["cce"]))
    at = int(_kept(found, np.array([worst]))[0])
    low, high = np.quantile(found.y, [0.001, 0.999])
    outputs = np.linspace(low, high, _GRID)
    if found.prediction.discrete and high - low < _GRID:
        outputs = np.arange(np.floor(low), np.ceil(high) + 1)
    h = found.congruence.witness(np.asarray(found.x)[at : at + 1], outputs)[0]
    drawn = svg(lambda ax: witness(outputs, h, ax, colour=COLOURS[1]), "Witness of the worst point")
    caption = (
        f"Witness at row {worst:,}, the point of largest CCE: for which outcomes the model puts too "
        "little mass (above 0) or too much (below 0) there."
    )
    return pictures([figure(drawn, caption)])


def _settings(evaluations: Evaluations) -> Section:
    body = ""
    for name, found in evaluations.items():
        rows: list[Any] = [[Cell("predictions"), Cell(repr(found.prediction), kind="word")]]
        for key, value in found.settings.items():
            rows.append([Cell(key), Cell(str(value), kind="word")])
        if found.cce is not None:
            info = found.cce.info
            told = f"every value right to {found.cce.error_bound:.1e} ({info.certificate})"
            rows.append([Cell("certificate of CCE"), Cell(told, kind="word")])
            how = f"{info.solver}, {info.backend}, {info.dtype}, {info.seconds:.3g} s"
            rows.append([Cell("how CCE was computed"), Cell(how, kind="word")])
        for metric, reason in found.skipped.items():
            rows.append([Cell(f"{metric}: not computed"), Cell(reason, kind="word")])
        rows.append([Cell("seconds"), Cell(f"{found.seconds:.3g}", kind="word")])
        body += table([name, ""], rows)
    versions = {
        "fastmcmd": __version__, "Python": platform.python_version(), "NumPy": np.__version__,
        "SciPy": scipy.__version__,
    }  # fmt: skip
    body += paragraph(", ".join(f"{name} {version}" for name, version in versions.items()), "how")
    return Section("settings", "Settings and versions", body)


SECTIONS: tuple[Callable[[Any], Section | None], ...] = (
    _summary,
    _pictures,
    _groups,
    _points,
    _settings,
)
