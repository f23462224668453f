"""Combination of several statistics into one test: each is standardised, and their maximum is ranked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd.inference.congruence_result import KernelEvidence
from fastmcmd.inference.outcome_features import OutcomeFeatures
from fastmcmd.inference.row_test import TIE
from fastmcmd.inference.smoother import Basis
from fastmcmd.inference.statistics import Projections

__all__ = [
    "direction_of",
    "evidence_of",
    "rank_p_value",
    "scores_of",
    "squared_norms",
    "statistics_of",
]


Array = NDArray[np.float64]


def squared_norms(projections: Projections, kind: int) -> Array:
    """Return ``|A_b,k|^2`` (p, B + 1); zeros if all outcomes are equal up to rounding."""
    projection = projections.outcomes[kind]
    if not projections.spread[kind].any():
        return np.zeros(projection.shape[:2])
    return np.einsum("pbr,pbr->pb", projection, projection, dtype=np.float64)


def statistics_of(
    projections: Projections, kinds: list[OutcomeFeatures], basis: Basis, lams: tuple[float, ...]
) -> tuple[list[tuple[str, str]], Array]:
    """Return the names (outcomes, statistic) and the values (K, B + 1) of all statistics."""
    names, values = [], []
    for place, kind in enumerate(kinds):
        squares = squared_norms(projections, place)
        for lam in lams:
            names.append((kind.name, f"smoothed misfit at lam={lam:g}"))
            values.append(basis.energy(lam) @ squares)
    for kind, sign in zip(kinds, projections.dispersion, strict=True):
        names.append((kind.name, "dispersion"))
        values.append(np.abs(sign))
    if projections.extreme is not None:
        names.append(("standardised y", "most extreme outcome"))
        values.append(projections.extreme)
    return names, np.array(values)


def scores_of(values: Array) -> Array:
    """Return ``(T - mean) / sd`` (K, B + 1) over all data sets; zeros if all are equal."""
    gaps = values - values.mean(axis=1, keepdims=True)
    spread = gaps.std(axis=1, keepdims=True)
    usable = (spread > 1e-9 * np.abs(values).max(axis=1, keepdims=True)) & np.isfinite(spread)
    return np.asarray(np.where(usable, gaps / np.where(usable, spread, 1.0), 0.0))


def rank_p_value(scores: Array) -> float:
    """Return the share of all data sets with scores at least as large as that of the first.

    Data sets that differ by rounding count as equal: matrix products round equal data sets differently at
    different positions.
    """
    return float(np.mean(scores >= scores[0] - TIE))


def evidence_of(names: list[tuple[str, str]], scores: Array) -> list[KernelEvidence]:
    """Return the evidence of each statistic, the strongest first."""
    lines = [
        KernelEvidence(*name, float(score[0]), rank_p_value(score))
        for name, score in zip(names, scores, strict=True)
    ]
    return sorted(lines, key=lambda line: -line.score)


def direction_of(dispersion: Array) -> str:
    """Return in which direction the spread of the outcomes is wrong, if the difference is beyond chance."""
    deviations = dispersion.std(axis=1)
    usable = deviations > 0
    if not usable.any():
        return ""
    scores = dispersion[usable] / deviations[usable, None]
    if rank_p_value(np.abs(scores).max(axis=0)) > 0.05:
        return ""
    strongest = scores[np.abs(scores[:, 0]).argmax(), 0]
    return "too narrow" if strongest > 0 else "too wide"
