"""What follows from the sums of a CCE: value, bound, chance, test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd.inference.combination import direction_of, rank_p_value, scores_of
from fastmcmd.streaming.congruence_sums import CongruenceSums, Ridge

__all__ = ["CongruenceEstimate", "estimate_of", "rounding_of"]

_LADDER = (10.0, 1.0, 0.1)  # times lam: regularisers of the test
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class CongruenceEstimate:
    """The conditional congruence error of all rows so far.

    Attributes
    ----------
    value : float
        Root mean square of CCE(x) over the rows.
    error_bound : float
        Bound on what landmarks, and features of outputs, miss of ``value``.
    null_mean : float
        Mean of CCE(x)^2 over the rows that a right model has on average; NaN where a prediction of one
        draw has no spread.
    excess : float
        ``value^2`` less its noise: an unbiased estimate of the squared misfit. Its sign is kept.
    p_value : float
        Of the exact test that the predictions are right; NaN without simulations.
    dispersion : str
        "too wide" or "too narrow" where the test says so, else "".
    rows : int
        Rows.
    weight : float
        Sum of their weights.
    lam : float
        Regulariser.
    landmarks, output_features : int
        Features of inputs and of outputs.
    residual : float
        Mean of ``k(x, x) - |f(x)|^2`` over the rows: what landmarks miss of the inputs.
    rounding : float
        Level of rounding, relative to the sums: it grows as rows are subtracted.
    simulations : int
        Simulated data sets of the test.
    proven : bool
        Whether ``error_bound`` is a bound; False where expectations are integrated numerically: it then
        counts an estimate of their error.
    """

    value: float
    error_bound: float
    null_mean: float
    excess: float
    p_value: float
    dispersion: str
    rows: int
    weight: float
    lam: float
    landmarks: int
    output_features: int
    residual: float
    rounding: float
    simulations: int
    proven: bool

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        test = f", p-value {self.p_value:.3g}" if self.simulations else ""
        return (
            f"CCE {self.value:.6g} +- {self.error_bound:.2g} over {self.rows:,} rows (squared: excess "
            f"{self.excess:.3g}, null mean {self.null_mean:.3g}{test}; {self.landmarks} landmarks)"
        )


def estimate_of(ridge: Ridge, simulations: int) -> CongruenceEstimate:
    """Return the estimate of a model with so many simulated data sets."""
    sums, model, lam = ridge.sums, ridge.model, ridge.lam
    square = float(ridge.mean_squares(lam)[0])
    p_value, dispersion = float("nan"), ""
    if simulations:
        gaps = (model.spread - model.spread.mean()) / sums.weight
        values = [ridge.mean_squares(factor * lam) for factor in _LADDER]
        p_value = rank_p_value(scores_of(np.array([*values, np.abs(gaps)])).max(axis=0))
        dispersion = direction_of(gaps[None]) if p_value <= 0.05 else ""
    return CongruenceEstimate(
        value=float(np.sqrt(max(square, 0.0))),
        error_bound=ridge.error_bound(),
        null_mean=float("nan") if model.null is None else ridge.mean_form(model.null),
        excess=square - ridge.mean_form(model.noise),
        p_value=p_value,
        dispersion=dispersion,
        rows=sums.rows,
        weight=sums.weight,
        lam=lam,
        landmarks=sums.smoother.rank,
        output_features=len(sums.columns),
        residual=float(sums.residual.sum()) / sums.weight,
        rounding=rounding_of(sums, lam),
        simulations=simulations,
        proven=model.proven,
    )


def rounding_of(sums: CongruenceSums, lam: float) -> float:
    """Return the level of rounding, relative to the sums: ``eps N_handled / (N lam)``."""
    return _EPS * sums.handled / (sums.weight * lam) if sums.weight > 0 else float("inf")
