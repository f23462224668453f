"""The input of all parts of the page: evaluations and a projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastmcmd._base.cached import cached_property
from fastmcmd.plots.inputs import Inputs
from fastmcmd.plots.panels import inputs_of
from fastmcmd.plots.projection import Projection

if TYPE_CHECKING:
    from fastmcmd.evaluation.comparison import Comparison
    from fastmcmd.evaluation.result import Evaluation

__all__ = ["Material"]


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

    def of(self, name: str, progress: str) -> str:
        """Return a text, preceded by the model's name if there are several models."""
        return f"{name}: {progress}" if self.several else progress
