"""The tests of evaluations whose rows depend on each other within clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import as_rows
from fastmcmd.evaluation.result import Evaluation
from fastmcmd.inference.congruence_test import LEAST_CLUSTERS, congruence_test

__all__ = ["with_clusters"]


def with_clusters(evaluation: Evaluation, clusters: NDArray[np.intp]) -> Evaluation:
    """Return an evaluation whose test, if it has one, takes dependence within clusters into account.

    The test is approximate then (`congruence_test`). With fewer than ten clusters of positive weight there
    is none: the exact test of independent rows would reject right models far too often.
    """
    fitted = evaluation.congruence
    if evaluation.test is None:
        return evaluation
    weights = None if evaluation.context is None else evaluation.context.outcomes.weights
    labels = clusters if weights is None else clusters[weights > 0]
    if len(np.unique(labels)) < LEAST_CLUSTERS or (fitted is not None and fitted.encoder):
        return replace(evaluation, test=None)
    data = (as_rows(evaluation.x, "x"), evaluation.y, evaluation.prediction)
    seed = evaluation.settings["random_state"]
    test = congruence_test(*data, weights=weights, groups=clusters, random_state=seed)
    if fitted is not None:
        kernels = (fitted.x_kernel_, fitted.y_kernel_, fitted.lam_)
        test = test.with_figures_of(
            congruence_test(*data, *kernels, weights=weights, groups=clusters, random_state=seed)
        )
    return replace(evaluation, test=test)
