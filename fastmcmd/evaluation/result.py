"""The result of an evaluation: numbers, curves and per-row values of a prediction."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd import frames
from fastmcmd._base.annotations import (
    ColumnsLike,
    FilePath,
    HostArray,
    Json,
    Projection,
)
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import as_rows
from fastmcmd._base.tables import ByName, aligned, as_html, data_frame, did_you_mean, printable
from fastmcmd.errors import NumericalError
from fastmcmd.frames import RowLabels
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.predictive.categorical import classes_of
from fastmcmd.result import Result

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from fastmcmd.estimator import ConditionalCongruence
    from fastmcmd.evaluation.bootstrap import Replicates
    from fastmcmd.evaluation.context import Context
    from fastmcmd.evaluation.verdict import Verdict
    from fastmcmd.inference.congruence_result import CongruenceTest
    from fastmcmd.inference.kernel_report import KernelReport

__all__ = [
    "BEST",
    "NO_CLASSES",
    "NO_ORDER",
    "NULL_HEAD",
    "SHORT_NAMES",
    "Evaluation",
    "Measured",
    "full_name",
    "text",
]

NULL_HEAD = "if right"  # heading of the column of null expectations
NO_CLASSES, NO_ORDER = (
    "outputs are no classes",
    "classes have no order",
)  # reasons to skip a measure
BEST = {"low": "lower is better", "high": "higher is better", "zero": "0 is best", "": ""}

# Accepted short names, in addition to mean scores without "mean_", such as "crps" and "cce".
SHORT_NAMES = {
    "corr": "pearson",
    "ece": "regression_ece",
    "log_score": "nll",
    "mace": "mean_absolute_calibration_error",
    "medae": "median_absolute_error",
    "pinball": "mean_check_score",
    "rmsce": "rms_calibration_error",
    "wis": "mean_weighted_interval_score",
}


def full_name(name: str, names: Collection[str]) -> str:
    """Return the full name of a measure among ``names``; ``name`` itself if it is none of them."""
    candidates = (name, SHORT_NAMES.get(name, ""), f"mean_{name}") if isinstance(name, str) else ()
    return next((one for one in candidates if one in names), name)


_LEVEL = 0.05  # level of the test that the first sentence reports
_KERNEL_SIMULATIONS = 39
_EXPLAINED_ROWS = 5000  # most rows for which that sentence says where and how the model is wrong


@dataclass(frozen=True)
class Measured:
    """One number of an evaluation.

    Attributes
    ----------
    name : str
        Name of the function that computes it.
    value : float
        The number.
    section : str
        "accuracy", "scores", "calibration", "sharpness" or "congruence".
    label : str
        Display name.
    best : str
        Which values are best: "low", "high", "zero" (from either side), or "" if none is best in itself.
    low, high : float or None
        Ends of the bootstrap interval, if one was requested and has known coverage.
    null : float or None
        Expected value for a right model with the same inputs, sharpness and sample size, for measures that
        cannot be negative and therefore never reach 0.
    """

    name: str
    value: float
    section: str
    label: str
    best: str
    low: float | None = None
    high: float | None = None
    null: float | None = None

    def without_value(self) -> Measured:
        """Return a copy whose numbers are NaN, for rows with NaN that propagates."""
        bound = None if self.low is None else math.nan
        null = None if self.null is None else math.nan
        return replace(self, value=math.nan, low=bound, high=bound, null=null)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(ByName[float]):
    """The result of `fastmcmd.evaluate`, read like a dictionary of numbers.

    Attributes
    ----------
    measured : tuple of Measured
        All numbers, ordered by section.
    curves : dict
        The curves that apply: "reliability", "reliability_interval" (`ReliabilityCurve`), "pit"
        (`PITHistogram`), "variance" (`VarianceCurve`), "groups" (adversarial groups).
    rows : dict of ndarray (n,)
        The per-row values that apply: "pit", "crps", "log_score", "cce"; NaN in rows left out.
    congruence : ConditionalCongruence or None
        The fitted estimator, if inputs were passed. It evaluates the CCE and witnesses at new inputs.
    skipped : dict of str
        Names of measures that do not apply, with the reason.
    notes : tuple of str
        Notes on the numbers, such as infinite scores.
    n : int
        Number of rows passed.
    y, x, prediction
        Outcomes, inputs (or None) and predictions of the rows that were used.
    by : dict or None
        Number of rows and all numbers of each group, by label.
    settings : dict
        Arguments that change numbers.
    seconds : float
        Wall time.
    labels : RowLabels or None
        Row labels, if y was a pandas or xarray object.
    context : Context or None
        Checked rows and their cached results, for paired tests.
    replicates : Replicates or None
        Numbers of the bootstrap samples, if intervals were requested.
    test : CongruenceTest or None
        The test of whether the prediction is wrong beyond chance, if it was run. Its CCE and what it
        detects are by the kernels of ``cce``; the p-value is by kernels of its own.
    column_names : tuple of str
        Names of the columns of x, if x was a data frame.
    group_labels : ndarray (m,) or None
        Label of the group of each row that was used, if there are groups.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> x = np.random.default_rng(0).normal(size=200)
    >>> y = x + np.random.default_rng(1).normal(size=200)
    >>> evaluation = fm.evaluate(y, fm.Gaussian(x, 1.0), x)
    >>> evaluation["crps"] == evaluation["mean_crps"]
    True
    >>> "cce" in evaluation, evaluation.get("energy_score") is None
    (True, True)
    >>> evaluation.rows["pit"].shape
    (200,)
    """

    measured: tuple[Measured, ...]
    curves: Mapping[str, Any]
    rows: Mapping[str, Array]
    congruence: ConditionalCongruence | None
    skipped: Mapping[str, str]
    notes: tuple[str, ...]
    n: int
    y: Array
    x: Any
    prediction: Predictive
    by: Mapping[Any, tuple[int, tuple[Measured, ...]]] | None
    settings: Mapping[str, Any]
    seconds: float
    labels: RowLabels | None = None
    context: Context | None = None
    replicates: Replicates | None = None
    test: CongruenceTest | None = None
    column_names: tuple[str, ...] = ()
    group_labels: HostArray | None = None

    @property
    def in_memory(self) -> bool:
        """Whether outcomes, predictions and values by row are in memory."""
        return True

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes without an order that are predicted; None if outcomes are numbers."""
        return classes_of(self.prediction)

    @property
    def cce(self) -> Result | None:
        """The conditional congruence error with its certificate; None without inputs."""
        return None if self.congruence is None else self.congruence.result_

    @property
    def not_applicable(self) -> list[str]:
        """Names in ``skipped``; of classes none of the measures of numbers."""
        return [name for name, reason in self.skipped.items() if reason != NO_ORDER]

    def __getitem__(self, name: str) -> float:
        """Return a number by name, such as ``evaluation["mean_crps"]`` or, for short, ``["crps"]``."""
        values = {one.name: one.value for one in self.measured}
        full = full_name(name, {*values, *self.skipped})
        if full in values:
            return values[full]
        if full in self.skipped:
            raise KeyError(f"{full} does not apply: {self.skipped[full]}")
        short = [one.removeprefix("mean_") for one in values]
        hint = did_you_mean(name, [*short, *values, *SHORT_NAMES])
        raise KeyError(f"no measure {name!r}; {hint}there are {', '.join(values)}")

    def keys(self) -> tuple[str, ...]:
        """Return the names of all numbers."""
        return tuple(one.name for one in self.measured)

    def table(self) -> str:
        """Return all numbers as text, one per line.

        Further columns hold the expected value for a right model, intervals, and groups, if there are any.
        """
        return aligned(self._lines())

    def _repr_html_(self) -> str:
        return as_html([self.sentence, self.title], self._lines())

    @property
    def title(self) -> str:
        """One line: the prediction, and the number of rows that were used."""
        return f"Evaluation of {self.prediction} at {self.row_count}"

    @property
    def row_count(self) -> str:
        """The number of rows that were used, and of how many, as text."""
        rows = len(self.y)
        return f"{self.n:,} rows" if rows == self.n else f"{rows:,} of {self.n:,} rows"

    def _lines(self) -> list[list[str]]:
        bounded = any(one.low is not None for one in self.measured)
        compared = any(one.null is not None for one in self.measured)
        groups = dict(self.by or {})
        head = ["", "value", *([NULL_HEAD] if compared else [])]
        if bounded:
            head.append(f"{100 * self.settings['confidence']:g} % interval")
        head += [f"{label} ({rows:,})" for label, (rows, _) in groups.items()]
        rows = [[*head, ""]]
        section = ""
        for one in self.measured:
            if one.section != section:
                section = one.section
                rows.append([section, *[""] * len(head)])
            cells = [f"  {one.label}", text(one.value)]
            if compared:
                cells.append("" if one.null is None else f"{one.null:.4g}")
            if bounded:
                cells.append(_interval(one))
            for _, numbers in groups.values():
                same = [other.value for other in numbers if other.name == one.name]
                cells.append(text(same[0]) if same else "")
            rows.append([*cells, BEST[one.best]])
        return rows

    def to_dict(self) -> Json:
        """Return a JSON-safe summary; numbers that are not finite become text such as "inf"."""
        return {
            "n": self.n,
            "prediction": repr(self.prediction),
            "metrics": {one.name: _json(one.value) for one in self.measured},
            "intervals": {
                one.name: [_json(one.low), _json(one.high)]
                for one in self.measured
                if one.low is not None
            },
            "if_right": {
                one.name: _json(one.null) for one in self.measured if one.null is not None
            },
            "by": {
                str(label): {"n": rows, **{one.name: _json(one.value) for one in numbers}}
                for label, (rows, numbers) in (self.by or {}).items()
            },
            "skipped": dict(self.skipped),
            "notes": list(self.notes),
            "cce": None if self.cce is None else self.cce.to_dict(),
            "sentence": self.sentence,
            "detectable": self.detectable,
            "test": None if self.test is None else self.test.to_dict(),
            "kernels": None if self.kernels is None else self.kernels.to_dict(),
            "settings": {name: _json(value) for name, value in self.settings.items()},
            "seconds": self.seconds,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per number.

        The columns are section, label, value, best, if_right (`Measured.null`), low, high, and groups.

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        """
        columns: dict[str, list[object]] = {
            "metric": [one.name for one in self.measured],
            "section": [one.section for one in self.measured],
            "label": [one.label for one in self.measured],
            "value": [one.value for one in self.measured],
            "best": [one.best for one in self.measured],
        }
        if any(one.null is not None for one in self.measured):
            columns["if_right"] = [one.null for one in self.measured]
        if any(one.low is not None for one in self.measured):
            columns["low"] = [one.low for one in self.measured]
            columns["high"] = [one.high for one in self.measured]
        for label, (_, numbers) in (self.by or {}).items():
            values = {one.name: one.value for one in numbers}
            columns[str(label)] = [values.get(one.name, math.nan) for one in self.measured]
        return data_frame(columns).set_index("metric")

    def rows_to_frame(self) -> pd.DataFrame:
        """Return the per-row values as a pandas frame with the index of y, if y had one.

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        """
        return frames.to_frame(self.values_by_row(), self.labels)

    def rows_to_xarray(self) -> xr.Dataset:
        """Return the per-row values as an xarray Dataset with the coordinates of y, if y had any.

        Raises
        ------
        MissingDependencyError
            If xarray is not installed.
        """
        return frames.to_xarray(self.values_by_row(), self.labels)

    def values_by_row(self) -> dict[str, HostArray]:
        """Return the per-row values, the error bound of the CCE, and whether it has support, by name.

        Support is left out if it is not known (`supported`), and is False in rows left out.
        """
        values = dict(self.rows)
        if self.cce is None or "cce" not in values:
            return values
        has_cce = np.isfinite(values["cce"])
        values["cce_error_bound"] = np.full(self.n, np.nan)
        values["cce_error_bound"][has_cce] = self.cce.error_bounds
        if self.supported is not None:
            values["cce_supported"] = np.zeros(self.n, dtype=np.bool_)
            values["cce_supported"][has_cce] = self.supported
        return values

    def plot(self, figure: Figure | None = None, projection: Projection = "pca") -> Figure:
        """Plot calibration, sharpness, the CCE and where it is high, and return the matplotlib figure.

        Parameters
        ----------
        figure : matplotlib figure, optional
            The figure to draw in. Default: a new figure.
        projection
            As in `report`.
        """
        from fastmcmd import plots

        return plots.evaluation(self, figure, projection)

    def report(
        self,
        path: FilePath,
        title: str | None = None,
        name: str = "model",
        projection: Projection = "pca",
    ) -> Path:
        """Write one self-contained HTML page with all numbers and plots.

        Parameters
        ----------
        path : str or Path
            File to write. An existing file is replaced atomically.
        title : str, optional
            Heading of the page.
        name : str
            Name of the model.
        projection : {"pca", "tsne", "umap"}, array_like (n, 2) or callable
            Projection of inputs with several columns (encoded inputs, with an encoder) onto a plane:
            principal components, t-SNE or UMAP if they are installed, an array of positions, or a function
            from rows (m, d) to positions (m, 2). See `fastmcmd.plots.project`.

        Returns
        -------
        Path
            Path of the page.

        Raises
        ------
        MissingDependencyError
            If matplotlib, or a library that the projection needs, is not installed.
        ValueError
            A path that does not end in .html; a projection that is none of these, or has nothing to
            project.
        """
        from fastmcmd.report import write_report

        return write_report({name: self}, path, title, projection)

    def verdict(self, columns: ColumnsLike | None = None) -> Verdict:
        """Return whether the model is wrong, where, how, and how much rescaling by input would correct.

        Parameters
        ----------
        columns : data frame, dict of array_like (n,), or array_like (n, c), optional
            Columns that describe regions. Default: the inputs. They have all rows that were passed or, if
            rows were left out for NaN, the remaining rows.

        Raises
        ------
        ValueError
            If there is no exact test, because inputs are not in memory.

        See Also
        --------
        fastmcmd.verdict : the same without an evaluation.
        """
        if columns is None:
            return self._verdict
        from fastmcmd.evaluation.verdict import verdict
        from fastmcmd.inference.columns import rows_of_columns

        valid = None if self.context is None else self.context.outcomes.valid
        if valid is not None:
            columns = rows_of_columns(columns, valid, self.n)
        return verdict(
            self.x, self.y, self.prediction, columns, test=self._tested(), weights=self._weights
        )

    @cached_property
    def _verdict(self) -> Verdict:
        from fastmcmd.evaluation.verdict import verdict

        test, x = self._tested(), as_rows(self.x, "x")
        has_unique_names = len(set(self.column_names)) == x.shape[1]
        columns = dict(zip(self.column_names, x.T, strict=True)) if has_unique_names else None
        return verdict(x, self.y, self.prediction, columns, test=test, weights=self._weights)

    @property
    def _weights(self) -> NDArray[np.float64] | None:
        """Weights (n,) of the rows, or None."""
        return None if self.context is None else self.context.outcomes.weights

    def _tested(self) -> CongruenceTest:
        if self.test is None:
            raise ValueError(
                "this evaluation has no exact test: evaluate with test=True and inputs x"
            )
        return self.test

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence; "" without a test.

        For at most 5,000 rows it says where and how the model is wrong; for more, use `verdict`.
        """
        if self.test is None:
            return ""
        explained = self.test.p_value <= _LEVEL and len(self.y) <= _EXPLAINED_ROWS
        return self._verdict.sentence if explained and _holds_rows(self.x) else self.test.sentence

    @property
    def detectable(self) -> float | None:
        """Smallest misfit that the mean squared CCE detects in half of all samples; None without a test."""
        return None if self.test is None else self.test.detectable

    @cached_property
    def supported(self) -> NDArray[np.bool_] | None:
        """Whether the CCE of each row that was used has support in the data; None if unknown.

        Points with fewer than 5 `Result.effective_rows` are grey in plots and marked in tables. Support is
        known for inputs in memory, up to 100,000 rows.
        """
        chance = None if self.congruence is None else self.congruence.chance
        return None if chance is None else chance.quick_support

    @cached_property
    def kernels(self) -> KernelReport | None:
        """Which misfits the kernels of the CCE can detect on these inputs; None without an exact test.

        `fastmcmd.kernel_report` computes it on first access, with 39 simulated samples.
        """
        from fastmcmd.inference.kernel_report import kernel_report

        congruence = self.congruence
        if self.test is None or congruence is None or not _holds_rows(self.x):
            return None
        if congruence.encoder is not None or self.test.one_draw:  # a point has no spread to change
            return None
        try:
            return kernel_report(
                self.x, self.y, self.prediction, congruence.x_kernel_, congruence.y_kernel_,
                congruence.lam_, simulations=_KERNEL_SIMULATIONS,
            )  # fmt: skip
        except NumericalError:
            return None

    @property
    def cce_line(self) -> str:
        """Text: the mean CCE, that of a right model, the smallest misfit it detects, its error bound.

        All belong to the kernels of the CCE. "" without a CCE.
        """
        if self.cce is None:
            return ""
        mean = next((one for one in self.measured if one.name == "mean_cce"), None)
        value = self.cce.mean if mean is None else mean.value  # with the weights of the rows
        remarks = []
        if mean is not None and mean.null is not None:
            remarks.append(f"a right model here: {mean.null:.3g}")
        if self.detectable is not None:
            remarks.append(f"detectable from {self.detectable:.3g}")
        beside = f" ({'; '.join(remarks)})" if remarks else ""
        return f"CCE {value:.3g}{beside}; {self.cce_accuracy}"

    @property
    def cce_accuracy(self) -> str:
        """Text: the error bound of all values of the CCE; "" without a CCE."""
        if self.cce is None:
            return ""
        return f"every value right to {self.cce.error_bound:.1e} ({self.cce.info.certificate})"

    @property
    def kernel_lines(self) -> list[str]:
        """Sentences: what shows a misfit if the CCE does not; which misfits the kernels can detect."""
        hidden = [] if self.test is None or not self.test.hidden else [self.test.hidden]
        if self.kernels is None:
            return hidden
        return [*hidden, self.kernels.sentence, *self.kernels.warnings]

    def __repr__(self) -> str:
        lines = [] if self.test is None else [self.sentence, ""]
        lines += [
            self.title,
            self.table(),
        ]
        lines += [self.cce_line] if self.cce_line else []
        lines += self.kernel_lines
        lines += [f"note: {note}" for note in self.notes]
        if self.not_applicable:
            lines.append(f"not applicable: {', '.join(self.not_applicable)}")
        if self.x is not None and "mean_cce" in self.skipped:
            lines.append(f"no CCE: {self.skipped['mean_cce']}")
        return "\n".join(printable(line, lines=True) for line in lines)


def text(value: float) -> str:
    """Return a number as text for tables."""
    return f"{value:.6g}"


def _holds_rows(x: object) -> bool:
    """Return whether the inputs are rows of numbers; inputs of an encoder need not be."""
    try:
        as_rows(x, "x")
    except (TypeError, ValueError):
        return False
    return True


def _interval(one: Measured) -> str:
    return "" if one.low is None else f"{one.low:.4g} to {one.high:.4g}"


def _json(value: object) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
