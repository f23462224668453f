"""Several evaluations of the same outcomes beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmcmd.evaluation.measures import MEASURES
from fastmcmd.evaluation.result import BEST, Evaluation, text
from fastmcmd.tables import aligned

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Evaluations by the names of their models.

    Attributes
    ----------
    evaluations : dict of Evaluation
    """

    evaluations: Mapping[str, Evaluation]

    def lines(self) -> list[tuple[Any, list[float | None]]]:
        """Return each measure that any model has, with the value of every model (None without)."""
        found = []
        for one in MEASURES:
            values = [_value(other, one.name) for other in self.evaluations.values()]
            if any(value is not None for value in values):
                found.append((one, values))
        return found

    def best(self, direction: str, values: list[float | None]) -> set[int]:
        """Return which values are best (several where they are equal); none of one model."""
        key = {"low": lambda v: v, "high": lambda v: -v, "zero": abs}.get(direction)
        known = [(key(v), i) for i, v in enumerate(values) if v is not None] if key else []
        if len(known) < 2 or any(np.isnan(score) for score, _ in known):
            return set()
        least = min(known)[0]
        found = {i for score, i in known if score == least}
        return found if len(found) < len(known) else set()

    def table(self) -> str:
        """Return all numbers as text, a model a column; the best of a line has a star."""
        rows = [["", *self.evaluations, ""]]
        section = ""
        for one, values in self.lines():
            if one.section != section:
                section = one.section
                rows.append([section, *[""] * len(values), ""])
            best = self.best(one.best, values)
            cells = ["" if v is None else text(v) for v in values]
            cells = [f"* {cell}" if i in best else cell for i, cell in enumerate(cells)]
            rows.append([f"  {one.label}", *cells, BEST[one.best]])
        return aligned(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe summary by model."""
        return {name: one.to_dict() for name, one in self.evaluations.items()}

    def plot(self, figure: Any = None, projection: Any = "pca") -> Any:
        """Draw all models in shared pictures; see `Evaluation.plot`."""
        from fastmcmd import plots

        return plots.evaluation(self, figure, projection)

    def report(self, path: Any, title: str | None = None, projection: Any = "pca") -> None:
        """Write one HTML page of all models; see `Evaluation.report`."""
        from fastmcmd.report import write_report

        write_report(self.evaluations, path, title, projection)

    def __repr__(self) -> str:
        return f"Comparison of {len(self.evaluations)} models\n{self.table()}"


def _value(found: Evaluation, name: str) -> float | None:
    return next((one.value for one in found.measured if one.name == name), None)


def compare(evaluations: Mapping[str, Evaluation]) -> Comparison:
    """Put evaluations of the same outcomes beside each other.

    Parameters
    ----------
    evaluations : dict of Evaluation
        By the name of the model.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        None, or evaluations of other outcomes.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> models = {"good": (np.zeros(200), 1.0), "wide": (np.zeros(200), 3.0)}
    >>> found = fm.compare({name: fm.evaluate(y, model) for name, model in models.items()})
    >>> "* 0.2" in found.table()
    True
    """
    if not isinstance(evaluations, Mapping) or not evaluations:
        raise TypeError("evaluations must be a dict of at least one Evaluation by its model's name")
    for name, one in evaluations.items():
        if not isinstance(one, Evaluation):
            raise TypeError(
                f"evaluations[{name!r}] is a {type(one).__name__}; an Evaluation is needed"
            )
    first = next(iter(evaluations.values()))
    for name, one in evaluations.items():
        if not np.array_equal(one.y, first.y):
            raise ValueError(f"{name!r} was evaluated on other outcomes than the first model")
    return Comparison({str(name): one for name, one in evaluations.items()})
