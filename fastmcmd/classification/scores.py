"""Proper scores of predicted probabilities of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_flag, check_positive
from fastmcmd.classification.inputs import LabelledRows, read
from fastmcmd.classification.metric import mean_of, metric
from fastmcmd.classification.summary import RowSummary, from_summaries
from fastmcmd.predictive.base import Array

__all__ = [
    "brier_of",
    "brier_score",
    "check_clip",
    "halved",
    "log_score",
    "log_score_of",
    "mean_brier_score",
    "mean_ranked_probability_score",
    "nll",
    "ranked_probability_score",
    "ranked_probability_score_of",
]


@metric
def log_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    clip: float | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> Array:
    """Return the log score of each row: minus the logarithm of the probability of its label.

    Returns
    -------
    ndarray (n,)
        Scores in nats, at least 0.

    Notes
    -----
    See Good, *Rational Decisions* (JRSS B, 1952). ``sklearn.metrics.log_loss`` clips by
    ``numpy.finfo(p.dtype).eps``, which hides labels of probability 0.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.log_score([0, 1], [[1.0, 0.0], [1.0, 0.0]]).tolist()
    [0.0, inf]
    """
    clip = check_clip(clip)
    rows = read(y, p, None, nan_policy, sum_tolerance, ignore_index=ignore_index)
    return rows.scatter(from_summaries(rows, lambda summary: log_score_of(summary, clip)))


nll = mean_of(
    log_score,
    """Return the mean negative log likelihood: the mean of `log_score`.

    It is infinite if any label of positive weight has probability 0; ``evaluate(y, p).impossible`` counts
    these. With ``clip=numpy.finfo(p.dtype).eps`` it equals ``sklearn.metrics.log_loss``.
    """,
    """
    >>> import fastmcmd as fm
    >>> round(fm.classification.nll([0, 1], [[0.5, 0.5], [0.5, 0.5]]), 6)
    0.693147
    """,
    name="nll",
)


@metric
def brier_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    scale_by_half: bool | str = "auto",
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> Array:
    """Return the Brier score of each row: the squared distance of the probabilities from the label.

    Returns
    -------
    ndarray (n,)
        ``sum_k (p_k - 1{y = k})^2``, or its half.

    Notes
    -----
    See Brier, *Verification of Forecasts Expressed in Terms of Probability* (Monthly Weather Review, 1950),
    who does not halve the sum. "auto" is also the default of ``sklearn.metrics.brier_score_loss``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.brier_score([1, 0], [0.5, 0.5]).tolist()
    [0.25, 0.25]
    >>> fm.classification.brier_score([1, 0], [0.5, 0.5], scale_by_half=False).tolist()
    [0.5, 0.5]
    """
    rows = read(y, p, None, nan_policy, sum_tolerance, ignore_index=ignore_index)
    half = halved(scale_by_half, rows.classes)
    if rows.binary:
        return rows.scatter(_brier_of_pairs(rows, half))
    return rows.scatter(from_summaries(rows, lambda summary: brier_of(summary, half)))


mean_brier_score = mean_of(
    brier_score,
    "Return the mean of `brier_score`.",
    """
    >>> import fastmcmd as fm
    >>> fm.classification.mean_brier_score([2, 0], [[0.0, 0.0, 1.0], [0.0, 0.5, 0.5]])
    0.75
    """,
)


@metric
def ranked_probability_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    normalize: bool = False,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> Array:
    """Return the ranked probability score of each row, from cumulative probabilities of ordered classes.

    A prediction near the label scores better than one far from it.

    Parameters
    ----------
    normalize : bool
        Whether to divide by C - 1, so that scores lie in [0, 1].

    Returns
    -------
    ndarray (n,)
        ``sum_{k < C-1} (F_k - 1{y <= k})^2`` with ``F_k = p_0 + ... + p_k``.

    Notes
    -----
    See Epstein, *A Scoring System for Probability Forecasts of Ranked Categories* (Journal of Applied
    Meteorology, 1969), in the form of Murphy (1971). ``scoringrules.rps_score`` does not divide either.
    ``1 - F_k`` is summed from the other end, so the score of a row is about as accurate as its sum is close
    to one.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.ranked_probability_score([0, 0], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    normalize = check_flag(normalize, "normalize")
    rows = read(y, p, None, nan_policy, sum_tolerance, ignore_index=ignore_index)
    return rows.scatter(ranked_probability_score_of(rows, normalize))


mean_ranked_probability_score = mean_of(
    ranked_probability_score,
    "Return the mean of `ranked_probability_score`.",
    """
    >>> import fastmcmd as fm
    >>> fm.classification.mean_ranked_probability_score([0], [[0.5, 0.0, 0.5]], normalize=True)
    0.25
    """,
)


def check_clip(clip: float | None) -> float | None:
    """Return ``clip`` as a checked number in (0, 0.5), or None."""
    if clip is None:
        return None
    clip = check_positive(clip, "clip")
    if not clip < 0.5:
        raise ValueError(f"clip is {clip:g}; a number between 0 and 0.5 is needed")
    return clip


def halved(scale_by_half: bool | str, classes: int) -> bool:
    """Return whether Brier scores are halved."""
    if isinstance(scale_by_half, str) and scale_by_half == "auto":
        return classes == 2
    if not isinstance(scale_by_half, (bool, np.bool_)):
        raise ValueError(f"scale_by_half is {scale_by_half!r}; True, False or 'auto' is needed")
    return bool(scale_by_half)


def log_score_of(summary: RowSummary, clip: float | None) -> Array:
    """Return `log_score` of the valid rows."""
    label_probability = summary.label_probability.astype(np.float64)
    if clip is not None:
        np.clip(label_probability, clip, 1.0 - clip, out=label_probability)
    with np.errstate(divide="ignore"):
        return 0.0 - np.log(label_probability)


def brier_of(summary: RowSummary, half: bool) -> Array:
    """Return `brier_score` of the valid rows."""
    missing = 1.0 - summary.label_probability.astype(np.float64)
    score = summary.other_squares + missing * missing
    return score / 2 if half else score


def _brier_of_pairs(rows: LabelledRows, half: bool) -> Array:
    """Return `brier_score` of the valid rows from the probabilities of class 1."""
    errors = rows.check().original(slice(None)).astype(np.float64)
    errors -= rows.known_labels
    errors *= errors
    return errors if half else 2 * errors


def ranked_probability_score_of(rows: LabelledRows, normalize: bool) -> Array:
    """Return `ranked_probability_score` of the valid rows after checking that all are probabilities."""
    score = np.empty(len(rows))

    def work(part: slice, block: Array) -> None:
        rows.check_block(part, block)
        _core.cumulative_squares(block, rows.labels_of(part), score[part])

    rows.over_blocks(work)
    return score / (rows.classes - 1) if normalize else score
