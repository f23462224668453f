"""Verdict and diagnosis of a classifier, and its probabilities mended by the witness of the CCE."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm
from examples.papers import claims
from examples.papers.claims import Claim, claim_of_mending, halves_of, over_seeds, spread

__all__ = ["added_to_classes", "mended"]

_LAM = 1e-3  # of the witness; with the default, 0.1, 200 rows change little
_LEAST = 1e-3  # probability of a class


def mended(
    x: np.ndarray,
    labels: np.ndarray,
    p: np.ndarray,
    new_x: np.ndarray,
    new_p: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of new rows with another temperature, and these with the witness added.

    The witness ``h(x, c)`` of the CCE with a `Delta` kernel is the share of class c near x less its mean
    probability there, shrunk to 0 where there are few rows. The sum over classes is 0, so that
    probabilities plus witness sum to 1; those below 0.001 are raised.

    Parameters
    ----------
    x, labels, p : ndarray (n, d), (n,), (n, C)
        Labelled rows that the correction is fitted on, with their predicted probabilities.
    new_x, new_p : ndarray (m, d), (m, C)
        Rows to mend.
    """
    scaling = fm.recalibration.TemperatureScaling().fit(np.log(p), labels)
    cooler, new_cooler = (scaling.transform(np.log(one)) for one in (p, new_p))
    congruence = fm.ConditionalCongruence(y_kernel=fm.Delta(), lam=_LAM)
    congruence.fit(x, labels.astype(np.float64), fm.Categorical(cooler))
    witness = congruence.witness(new_x, np.arange(p.shape[1], dtype=np.float64))
    added = np.maximum(new_cooler + witness, _LEAST)
    return new_cooler, added / added.sum(axis=1, keepdims=True)


def _test(x: np.ndarray, labels: np.ndarray, p: np.ndarray, seed: int) -> fm.CongruenceTest:
    return fm.congruence_test(
        x, labels, fm.Categorical(p), y_kernel=fm.Delta(), alpha=0.05, random_state=seed
    )


def _numbers(x: np.ndarray, labels: np.ndarray, p: np.ndarray, seed: int) -> dict[str, float]:
    """Return the measures of one half of the rows, before and after corrections fitted on the other."""
    first, second = halves_of(len(labels), seed)
    cooler, added = mended(x[first], labels[first], p[first], x[second], p[second])
    x, labels = x[second], labels[second]
    after = _test(x, labels, added, seed)
    return {
        "before": _test(x, labels, p[second], seed).cce, "after": after.cce,
        "temperature": _test(x, labels, cooler, seed).cce,
        "chance": after.null_cce, "p": after.p_value,
        "accuracy": fm.classification.accuracy(labels, p[second]),
        "mended accuracy": fm.classification.accuracy(labels, added),
    }  # fmt: skip


def _most_wrong_class(labels: np.ndarray, p: np.ndarray) -> str:
    """Return which class is predicted too often, and which one is the truth instead."""
    frequency = np.bincount(labels, minlength=p.shape[1]) / len(labels)
    excess = p.mean(axis=0) - frequency
    worst = int(excess.argmax())
    rows = (p.argmax(axis=1) == worst) & (labels != worst)
    instead = int(np.bincount(labels[rows], minlength=p.shape[1]).argmax())
    return (
        f"Class {worst} has a mean probability of {p[:, worst].mean():.0%} and a frequency of "
        f"{frequency[worst]:.0%}; most of the images wrongly called {worst} are of class {instead}."
    )


def added_to_classes(x: np.ndarray, labels: np.ndarray, p: np.ndarray, name: str) -> Claim:
    """Return verdict and diagnosis of a classifier on all rows, and what its mended probabilities have.

    Corrections are fitted on random halves of the rows and measured on the others.
    """
    columns = {"predicted class": p.argmax(axis=1).astype(np.float64), "confidence": p.max(axis=1)}
    result = fm.verdict(x, labels, fm.Categorical(p), columns, random_state=0)
    values = over_seeds(lambda seed: _numbers(x, labels, p, seed), claims.HALVES)
    return claim_of_mending(
        name,
        f"{result.sentence} {_most_wrong_class(labels, p)}",
        values,
        result.wrong,
        f"A temperature alone leaves {spread(values['temperature'])}: it lowers the confidence, and the "
        "likeliest class stays. The witness of the CCE, added to it, also moves probability to the classes "
        f"that were missed: the accuracy rises from {values['accuracy'].mean():.2f} to "
        f"{values['mended accuracy'].mean():.2f}",
    )
