"""The input of all parts of the page: evaluations and a projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastmcmd._base.cached import cached_property
from fastmcmd.plots.inputs import Inputs
from fastmcmd.plots.panels import inputs_of, planes_of
from fastmcmd.plots.projection import Plane, Projection

if TYPE_CHECKING:
    from fastmcmd.evaluation.comparison import Comparison
    from fastmcmd.evaluation.result import Evaluation

__all__ = ["Material", "column_names"]


@dataclass(frozen=True, eq=False)
class Material:
    """The compared evaluations with their tests, and the projection of inputs onto a plane."""

    comparison: Comparison
    projection: Projection = "pca"

    @property
    def evaluations(self) -> Mapping[str, Evaluation]:
        """Evaluations by the names of their models."""
        return self.comparison.evaluations

    @property
    def several(self) -> bool:
        """Whether there are several models, so that each is named."""
        return len(self.evaluations) > 1

    @cached_property
    def inputs(self) -> dict[str, Inputs]:
        """Inputs of the evaluations that have any, encoded once."""
        return inputs_of(self.evaluations)

    @cached_property
    def planes(self) -> dict[str, Plane]:
        """Positions of these inputs on a plane, by the names of the models."""
        return planes_of(self.evaluations, self.projection, self.inputs)

    def of(self, name: str, progress: str) -> str:
        """Return a text, preceded by the model's name if there are several models."""
        return f"{name}: {progress}" if self.several else progress


def column_names(evaluation: Evaluation) -> list[str]:
    """Return the names of the input columns: their own, or "x 1", "x 2" and so on."""
    assert evaluation.congruence is not None
    count = evaluation.congruence.n_features_in_
    names = list(evaluation.column_names)
    if len(names) == count:
        return names
    return ["x"] if count == 1 else [f"x {column + 1}" for column in range(count)]
