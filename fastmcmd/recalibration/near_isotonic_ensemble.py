"""Ensemble of near-isotonic regressions (ENIR): maps that are nearly monotone, averaged by their BIC."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.near_isotonic import NearIsotonicPath
from fastmcmd.recalibration.state import check_vector
from fastmcmd.recalibration.step_map import StepMap

__all__ = ["NearIsotonicEnsemble"]

_NEGLIGIBLE = 2 * 745.0  # a BIC this much above the least has a weight that rounds to 0


class NearIsotonicEnsemble(StepMap):
    """Maps probabilities of two classes by near-isotonic regressions, averaged by their BIC (ENIR).

    Attributes
    ----------
    edges_ : ndarray (k,)
        Places in [0, 1] at which the map jumps, increasing.
    shares_ : ndarray (k + 1,)
        Its values between them.
    penalties_ : ndarray (m,)
        Penalties of the averaged regressions, increasing.
    weights_ : ndarray (m,)
        Their weights, with sum 1.

    Notes
    -----
    Naeini & Cooper, *Binary Classifier Calibration Using an Ensemble of Near Isotonic Regression Models*
    (ICDM 2016). A near-isotonic regression is a step function that may decrease, at a price: a penalty on
    each step downwards. The whole path of penalties, from nearly none to isotonic regression, is computed
    (Tibshirani, Hoefling & Tibshirani, 2011). Its models, at the penalties where steps merge, are
    weighted by ``exp(-BIC / 2)`` with ``BIC = K log(n) - 2 log L`` for K steps. As published, the model
    without a penalty is left out. Rows of equal probability stay together.

    netcal's ``ENIR`` also drops models by the elbow method. Where three steps merge at once, which is
    common, netcal 1.4 loses rows: its map is 0 there.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.recalibration import NearIsotonicEnsemble
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> y = rng.uniform(size=4000) < p**2
    >>> ensemble = NearIsotonicEnsemble().fit(p, y)
    >>> bool(np.abs(ensemble.transform(p) - p**2).mean() < 0.05)
    True
    """

    penalties_: Array
    weights_: Array

    def check_state(self) -> None:
        """Raise ValueError unless the map, the penalties and their weights are valid."""
        super().check_state()
        check_vector(self.penalties_, "penalties_")
        check_vector(self.weights_, "weights_", len(self.penalties_), ascending=False)

    def _learn(self, values: Array, labels: NDArray[np.intp]) -> None:
        places, inverse = np.unique(values, return_inverse=True)
        count = np.bincount(inverse).astype(np.float64)
        ones = np.bincount(inverse, weights=labels).astype(np.float64)
        path = NearIsotonicPath.of(ones / count, count)
        self.penalties_ = path.penalties
        self.weights_ = scipy.special.softmax(-_criteria(path, ones, count) / 2)
        shares = np.clip(path.average(self.weights_), 0.0, 1.0)
        jumps = np.flatnonzero(shares[1:] != shares[:-1])
        below, above = places[jumps], places[jumps + 1]
        middle = below + (above - below) / 2
        self.edges_ = np.where(middle < above, middle, below)  # unless no number lies between
        self.shares_ = shares[np.append(jumps, len(shares) - 1)]


def _criteria(path: NearIsotonicPath, ones: Array, count: Array) -> Array:
    """Return the BIC of the model at each penalty; infinite if its weight is negligible."""
    of_group = np.zeros((len(path.value), 2))
    np.add.at(of_group, path.nodes, np.stack([ones, count - ones], axis=1))
    for group, parent in enumerate(path.parent):  # children first
        if parent >= 0:
            of_group[parent] += of_group[group]
    ones_of, zeros_of = of_group.T
    log_n, xlogy = np.log(count.sum()), scipy.special.xlogy
    # No model has a larger likelihood than the shares of each probability.
    least = -2 * (xlogy(ones, ones / count) + xlogy(count - ones, 1 - ones / count)).sum()
    criteria = np.full(len(path.penalties), np.inf)
    for place in range(len(criteria) - 1, -1, -1):  # from isotonic regression, of the fewest steps
        groups = path.alive(place)
        steps = len(groups) * log_n
        if steps + least > criteria.min() + _NEGLIGIBLE:
            break
        value = np.clip(path.at(groups, place), 0.0, 1.0)
        likelihood = xlogy(ones_of[groups], value) + xlogy(zeros_of[groups], 1 - value)
        criteria[place] = steps - 2 * likelihood.sum()
    return criteria
