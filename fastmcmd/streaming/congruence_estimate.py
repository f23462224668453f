"""The estimate from the sums of a CCE: value, bound, null mean, test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd.inference.combination import direction_of, rank_p_value, scores_of
from fastmcmd.kernels.base import EPS
from fastmcmd.streaming.congruence_sums import CongruenceSums, Ridge

__all__ = ["LADDER", "CongruenceEstimate", "estimate_of", "rounding_of"]

LADDER = (10.0, 1.0, 0.1)  # regularisers of the test, in units of lam


@dataclass(frozen=True, eq=False, repr=False)
class CongruenceEstimate:
    """The conditional congruence error of all rows so far.

    Attributes
    ----------
    value : float
        Root mean square of CCE(x) over the rows.
    error_bound : float
        Bound on the error of ``value`` due to landmarks and output features.
    null_mean : float
        Expected mean of CCE(x)^2 over the rows if the model is right; NaN if a prediction of one draw has
        no spread.
    excess : float
        ``value^2`` minus its noise: an unbiased estimate of the squared misfit, which may be negative.
    p_value : float
        P-value of the exact test that the predictions are right; NaN without simulations.
    dispersion : str
        "too wide" or "too narrow" if the test says so, else "".
    rows : int
        Number of rows.
    weight : float
        Sum of their weights.
    lam : float
        Regulariser.
    landmarks, output_features : int
        Number of features of inputs and of outputs.
    residual : float
        Mean of ``k(x, x) - |f(x)|^2`` over the rows: the part of the kernel that landmarks do not explain.
    rounding : float
        Level of rounding relative to the sums; it grows when rows are subtracted.
    simulations : int
        Number of simulated data sets of the test.
    proven : bool
        Whether ``error_bound`` is proven. False if expectations are integrated numerically, and the bound
        includes an estimate of their error; or if the residual was measured at some rows.
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
    """Return the estimate of a model with ``simulations`` simulated data sets."""
    sums, model, lam = ridge.sums, ridge.model, ridge.lam
    square = float(ridge.mean_squares(lam)[0])
    rigorous, sampled = ridge.error_bound(), ridge.sampled_bound()
    p_value, dispersion = float("nan"), ""
    if simulations:
        gaps = (model.spread - model.spread.mean()) / sums.weight
        values = [ridge.mean_squares(factor * lam) for factor in LADDER]
        p_value = rank_p_value(scores_of(np.array([*values, np.abs(gaps)])).max(axis=0))
        dispersion = direction_of(gaps[None]) if p_value <= 0.05 else ""
    return CongruenceEstimate(
        value=float(np.sqrt(max(square, 0.0))),
        error_bound=min(rigorous, sampled),
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
        proven=model.proven and rigorous <= sampled,
    )


def rounding_of(sums: CongruenceSums, lam: float) -> float:
    """Return the level of rounding relative to the sums: ``eps N_handled / (N lam)``."""
    return EPS * sums.handled / (sums.weight * lam) if sums.weight > 0 else float("inf")
