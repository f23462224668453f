"""Bayesian binning into quantiles (BBQ): histogram binning, averaged over numbers of bins."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.step_map import StepMap

__all__ = ["BayesianBinning"]

_PRIOR = 2.0  # weight of the prior over all bins, in rows, as published
_LEAST = float(np.finfo(np.float64).tiny)  # least parameter of a beta prior; that of 0 is no prior
_RANGE = 10  # numbers of bins from ``n^(1/3) / 10`` to ``10 n^(1/3)``, as published


class BayesianBinning(StepMap):
    """Maps probabilities of two classes to shares of events in bins, averaged over numbers of bins (BBQ).

    Attributes
    ----------
    edges_ : ndarray (k,)
        Places in [0, 1] at which the map jumps, increasing.
    shares_ : ndarray (k + 1,)
        Its values between them.

    Notes
    -----
    Naeini, Cooper & Hauskrecht, *Obtaining Well Calibrated Probabilities Using Bayesian Binning* (AAAI
    2015). Each model divides the rows into bins of equal count; a bin has a beta prior of weight ``2 / B``
    about the middle of its interval. Models are weighted by their marginal likelihoods, and the average of
    their posterior means is a step function, which is what is stored. Rows of equal probability stay
    together.
    The map need not be monotone; `VennAbers` and `BetaCalibration` are.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.recalibration import BayesianBinning
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> y = rng.uniform(size=4000) < p**2
    >>> bins = BayesianBinning().fit(p, y)
    >>> bool(np.abs(bins.transform(p) - p**2).mean() < 0.05)
    True
    """

    def _learn(self, values: Array, labels: NDArray[np.intp]) -> None:
        order = np.argsort(values, kind="stable")
        ranked, root = values[order], len(values) ** (1 / 3)
        least, most = max(1, int(root / _RANGE)), min(len(values), int(np.ceil(_RANGE * root)))
        models = [_model(ranked, labels[order], bins) for bins in range(least, most + 1)]
        scores = np.array([score for _, _, score in models])
        weights = scipy.special.softmax(scores)
        self.edges_ = np.unique(np.concatenate([edges for edges, _, _ in models]))
        inside = np.concatenate([self.edges_, [np.inf]])  # a point of each step: its right end
        self.shares_ = np.zeros(len(inside))
        for (edges, shares, _), weight in zip(models, weights, strict=True):
            self.shares_ += weight * shares[np.searchsorted(edges, inside, side="left")]
        np.clip(self.shares_, 0.0, 1.0, out=self.shares_)


def _model(p: Array, labels: NDArray[np.intp], bins: int) -> tuple[Array, Array, float]:
    """Return inner edges, posterior means of the bins, and the log marginal likelihood.

    ``p`` increases. A row at an edge belongs to the bin below it.
    """
    at = np.linspace(0, len(p), bins + 1).round().astype(np.intp)[1:-1]
    at = at[p[at - 1] < p[at]]  # rows of equal probability stay together
    edges = (p[at - 1] + p[at]) / 2
    at, keep = at[edges < p[at]], edges < p[at]  # unless no number lies between
    edges = edges[keep]
    starts = np.concatenate([[0], at])
    count = np.diff(np.append(starts, len(p)))
    ones = np.add.reduceat(labels, starts)
    ends = np.concatenate([[0.0], edges, [1.0]])
    weight = _PRIOR / len(count)
    middle = (ends[1:] + ends[:-1]) / 2
    above = ((1 - ends[1:]) + (1 - ends[:-1])) / 2  # 1 - middle, which rounds to 0 next to 1
    a, b = (np.maximum(weight * part, _LEAST) for part in (middle, above))
    log_gamma = scipy.special.gammaln
    score = log_gamma(weight) - log_gamma(count + weight) + log_gamma(ones + a) - log_gamma(a)
    score += log_gamma(count - ones + b) - log_gamma(b)
    return edges, (ones + a) / (count + weight), float(score.sum())
