"""Published measures of calibration given the forecast, from the sums of the exact test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.blocks import row_blocks
from fastmcmd.backends.tall_skinny import inner
from fastmcmd.inference.combination import squared_norms
from fastmcmd.inference.smoother import Basis
from fastmcmd.inference.statistics import Projections

__all__ = ["ForecastCalibration", "forecast_calibration"]

_ROWS = 8_192  # rows whose coordinates are in memory at once


@dataclass(frozen=True)
class ForecastCalibration:
    """Measures of calibration given the forecast, with the kernel k on forecasts and residuals e_i.

    Attributes
    ----------
    skce : float
        Squared kernel calibration error, ``mean_{i != j} k(f_i, f_j) <e_i, e_j>`` (pairs of rows count with
        the product of their weights): unbiased, so that it is negative in about half of all samples of a
        calibrated model (Widmann, Lindsten & Zachariah 2021).
    ckce : float
        Conditional kernel calibration error: the Hilbert-Schmidt norm of the difference between the
        conditional mean operators of outcomes and predictions given the forecast,
        ``tr(E' (K + n lam I)^-1 K (K + n lam I)^-1 E)^(1/2)``, noise included (Moskvichev & Sejdinovic
        2025).
    null_ckce : float
        Root mean square of ``ckce`` in simulated samples of a calibrated model.
    """

    skce: float
    ckce: float
    null_ckce: float


def forecast_calibration(
    basis: Basis,
    forecasts: NDArray[np.float64],
    projections: Projections,
    lam: float,
    weights: NDArray[np.float64] | None = None,
) -> ForecastCalibration:
    """Return both measures.

    Parameters
    ----------
    basis : Basis
        Coordinates of forecasts.
    forecasts : ndarray (n, c)
        The forecasts.
    projections : Projections
        Sums and residuals of the same rows.
    lam : float
        Regulariser of ``ckce``.
    weights : ndarray (n,), optional
        Weights of the rows.
    """
    residuals = projections.residuals
    assert residuals is not None
    w = np.ones(len(residuals)) if weights is None else weights
    noise = 0.0
    sums = np.zeros((len(basis.spectrum), residuals.shape[1]))
    for rows in row_blocks(len(w), _ROWS):
        g, e = (
            basis.coordinates(forecasts[rows]) * w[rows, None],
            residuals[rows].astype(np.float64),
        )
        sums += inner(g, e)
        noise += float(np.square(g).sum(axis=1) @ np.square(e).sum(axis=1))
    total = float(np.square(sums).sum())
    pairs = float(w.sum() ** 2 - w @ w)
    squares = np.square(basis.shrinkage(lam)) @ squared_norms(projections, 0)
    return ForecastCalibration(
        skce=(total - noise) / pairs if pairs > 0 else 0.0,
        ckce=float(np.sqrt(squares[0])),
        null_ckce=float(np.sqrt(squares[1:].mean())),
    )
