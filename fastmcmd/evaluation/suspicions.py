"""What looks like a mistake in the arguments of an evaluation, though it can be computed: notes on it."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import InputsLike
from fastmcmd.evaluation.context import Context
from fastmcmd.predictive import Draws, Gaussian
from fastmcmd.predictive.base import Array

__all__ = ["suspicions"]

_LEAST_ROWS = 20  # of fewer, anything may look like anything
_NEARER = 3.0  # times: so much nearer must outcomes be to what may have been meant
_SCATTER = 0.8  # of the variance of means: what outcomes have at least, but for chance
_LEAST_Z, _MOST_Z = (
    0.3,
    3.0,
)  # root mean squares of errors in standard deviations that are plausible


def suspicions(context: Context, x: InputsLike | None) -> list[str]:
    """Return notes on arguments that look as if they were others.

    Each tests whether the numbers make sense in the other roles, and far more so than in theirs: wrong
    models alone do not.
    """
    base = context.base
    if not context.numbers:
        return []
    y, notes = context.y, []
    if isinstance(base, Draws):
        draws = base.array
        if draws.shape[1] == 1:
            notes.append("one draw per row: read as a point prediction")
            notes += _of_points(y, draws[:, 0], x)
        elif draws.shape[1] == 2 and _as_spread(y, draws[:, 0], draws[:, 1], draws[:, 1]):
            notes.append(
                "two draws per row, of which the second looks like a standard deviation: pass the pair "
                "(mean, std), a tuple, if that is what they are"
            )
    elif isinstance(base, Gaussian) and _as_spread(y, base.std, base.mean, base.mean):
        notes.append(
            "outcomes lie near the standard deviations and far from the means: the order is (mean, std)"
        )
    return notes


def _of_points(y: Array, points: Array, x: InputsLike | None) -> list[str]:
    inputs = np.asarray(x) if isinstance(x, (np.ndarray, list)) or hasattr(x, "to_numpy") else None
    one_column = inputs is not None and inputs.shape in ((len(y),), (len(y), 1))
    # evaluate(mean, std, y): "inputs" that lie about "outcomes", by "predictions" that are spreads.
    if (
        inputs is not None
        and one_column
        and inputs.dtype.kind in "iuf"
        and _as_spread(inputs.reshape(-1), y, points, points)
    ):
        return [
            "y, prediction and x look like means, standard deviations and outcomes: the order of "
            "arguments is (y, prediction, x), with prediction=(mean, std)"
        ]
    labels = np.isin(y, (0.0, 1.0)).all()
    inside = ((points >= 0) & (points <= 1)).all() and not np.isin(points, (0.0, 1.0)).all()
    if labels and inside and len(y) >= _LEAST_ROWS:
        return [
            "y holds only 0 and 1, and predictions lie between them: probabilities of a class belong in "
            "fastmcmd.classification.evaluate(y, p)"
        ]
    return []


def _as_spread(y: Array, mean: Array, std: Array, other: Array) -> bool:
    """Tell whether y lies about ``mean`` by about ``std``, and far nearer than to ``other``."""
    if len(y) < _LEAST_ROWS or not (std > 0).all():
        return False
    errors = y - mean
    z = np.sqrt(np.mean((errors / std) ** 2))
    near, far = np.median(np.abs(errors)), np.median(np.abs(y - other))
    scatters = np.var(y) > _SCATTER * np.var(mean)  # as outcomes do about their means
    return bool(_LEAST_Z <= z <= _MOST_Z and far > _NEARER * near and scatters)
